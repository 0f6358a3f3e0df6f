#include "daemon/exec_state.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "daemon/exec_stranger.h"
#include "daemon/registry.h"

#define RETRY_MS 1000 /* for what the keeper or the kernel could not give us */

/*
 * So much output of a sandbox's processes is taken in so much time. To move it is our work, which
 * no limit of the sandbox holds: one that floods its log would take the processor from all others.
 */
#define PACE_MS    10
#define PACE_BYTES (384 * 1024)

static void on_retry(uv_timer_t *timer);

static void on_closed(uv_handle_t *handle)
{
	exec_release(handle->data);
}

void exec_kept_init(struct exec *e)
{
	assert(e->ops->started && e->ops->exited);
	e->kept.events_fd = -1;
	list_init(&e->kept.open.link);
	uv_timer_init(registry_loop(e->sb->registry), &e->kept.retry);
	e->kept.retry.data = e;
	uv_timer_init(registry_loop(e->sb->registry), &e->kept.pace);
	e->kept.pace.data = e;
	e->handles += 2;
}

/* The handle goes before its descriptor: one that is closed later would watch its next owner. */
static void unwatch(struct exec *e)
{
	if (e->kept.events_fd < 0)
		return;
	uv_close((uv_handle_t *)&e->kept.poll, on_closed);
	close(take_fd(&e->kept.events_fd));
}

void exec_kept_close(struct exec *e)
{
	keeper_cancel(registry_keeper(e->sb->registry), &e->kept.open);
	unwatch(e);
	uv_close((uv_handle_t *)&e->kept.retry, on_closed);
	uv_close((uv_handle_t *)&e->kept.pace, on_closed);
}

/* --- its output --- */

static void on_pace(uv_timer_t *timer)
{
	struct exec *e = timer->data;

	e->kept.is_paced = false;
	if (!e->is_paused)
		exec_resume(e);
}

/*
 * Whether its sandbox has said enough for now, and it waits. One that is being ended has little
 * left to say, and does not.
 */
static bool must_wait(struct exec *e)
{
	struct sandbox *sb = e->sb;
	uint64_t now = uv_now(e->kept.pace.loop);

	if (now - sb->pulled_since_ms >= PACE_MS) {
		sb->pulled_since_ms = now;
		sb->pulled_bytes = 0;
	}
	if (sb->pulled_bytes < PACE_BYTES || e->is_ending || e->is_flushing)
		return false;
	e->kept.is_paced = true;
	for (int i = 0; i < EXEC_STREAMS; i++)
		exec_pipe_pause(&e->output[i]);
	uv_timer_start(&e->kept.pace, on_pace, sb->pulled_since_ms + PACE_MS - now, 0);
	return true;
}

/* Its end must not wait for whoever cannot keep what it says. */
ssize_t exec_kept_pull(struct exec_pipe *pipe, int fd)
{
	struct exec *e = pipe->arg;
	ssize_t n;

	if (must_wait(e))
		return -EBUSY;
	n = e->ops->pull(e->arg, (enum exec_stream)(pipe - e->output), fd);
	if (n > 0) {
		activity_touch(e->sb);
		e->sb->pulled_bytes += (size_t)n;
	}
	if (n >= 0 || n == -EAGAIN)
		return n;
	if (e->is_ending || e->is_flushing) {
		e->is_dropping = true;
		exec_pipe_discard(pipe);
	} else {
		exec_pause(e);
	}
	return n;
}

static bool is_drained(struct exec *e)
{
	return !e->output[EXEC_STDOUT].left && !e->output[EXEC_STDERR].left;
}

bool exec_drain(struct exec *exec)
{
	for (int i = EXEC_STDOUT; i <= EXEC_STDERR; i++) {
		exec_pipe_mark(&exec->output[i]);
		exec_pipe_drain(&exec->output[i]);
	}
	exec->kept.is_draining = !is_drained(exec);
	return !exec->kept.is_draining;
}

void exec_mark_reports(struct exec *exec)
{
	exec_pipe_mark(&exec->output[EXEC_REPORTS]);
}

bool exec_pull_reports(struct exec *exec)
{
	return exec_pipe_drain(&exec->output[EXEC_REPORTS]);
}

void exec_pull_paused_reports(struct exec *exec)
{
	exec_mark_reports(exec);
	exec_pipe_pull(&exec->output[EXEC_REPORTS]);
}

void exec_forget_oom(struct exec *exec)
{
	exec->oom_kills = sandbox_oom_kills(exec->sb);
}

void exec_kept_drained(struct exec *e)
{
	if (!e->is_kept || !e->kept.is_draining || e->state == EXEC_ENDED || e->is_abandoned ||
	    !is_drained(e))
		return;
	e->kept.is_draining = false;
	e->ops->drained(e->arg);
}

/* --- its group --- */

/* Reading says that the event was seen. A file that cannot be read is that of a removed group. */
static void on_events(uv_poll_t *poll, int status, int events)
{
	struct exec *e = poll->data;
	char text[256];

	if (status < 0 || pread(e->kept.events_fd, text, sizeof(text), 0) <= 0)
		uv_poll_stop(poll);
	exec_kept_check(e);
}

/* The kernel tells when nothing lives in it any more. */
static int watch(struct exec *e)
{
	cleanup_fd int fd = sandbox_group_open(e->sb, e->group, "cgroup.events");
	char text[256];

	if (fd < 0)
		return fd;
	if (uv_poll_init(registry_loop(e->sb->registry), &e->kept.poll, fd) < 0)
		return -ENOMEM;
	e->kept.poll.data = e;
	e->handles++;
	e->kept.events_fd = take_fd(&fd);
	if (pread(e->kept.events_fd, text, sizeof(text), 0) > 0)
		uv_poll_start(&e->kept.poll, UV_PRIORITIZED, on_events);
	return 0;
}

static void ask_group(struct exec *e);

/* Without the kernel's word it is looked at from time to time. */
static void find_group(struct exec *e)
{
	if (e->group.fd < 0)
		ask_group(e);
	else if (e->kept.events_fd < 0 && watch(e) < 0)
		uv_timer_start(&e->kept.retry, on_retry, RETRY_MS, 0);
	exec_kept_check(e);
}

static void on_retry(uv_timer_t *timer)
{
	find_group(timer->data);
}

/* An earlier berthd had its directory. The keeper has removed it if nothing was in it any more. */
static void on_group(struct keeper_call *call, struct keeper_answer *answer)
{
	struct exec *e = container_of(call, struct exec, kept.open);

	if (answer->result == 0 && answer->frame && answer->frame->fds_len == 1) {
		e->group.fd = take_fd(&answer->frame->fds[0]);
		find_group(e);
	} else if (answer->result < 0 && answer->err.code == ERR_NOT_FOUND) {
		e->kept.is_settled = true;
		exec_kept_check(e);
	} else {
		uv_timer_start(&e->kept.retry, on_retry, RETRY_MS, 0);
	}
}

static void ask_group(struct exec *e)
{
	struct keeper_group_ref ref = {str_of(e->sb->id.text), e->sb->generation, e->group.number};

	e->kept.open.done = on_group;
	keeper_group_open(registry_keeper(e->sb->registry), &e->kept.open, &ref);
}

/* --- its life --- */

void exec_kept_started(struct exec *e, uint32_t pid)
{
	if (!exec_stranger_is_held(e->number))
		hold_end(&e->hold);
	if (exec_has_group(e))
		find_group(e);
	if (e->kept.cols)
		exec_resize(e, e->kept.cols, e->kept.rows);
	e->ops->started(e->arg, pid);
}

static void say_tree_lost(struct exec *e)
{
	snprintf(e->kept.end.message, sizeof(e->kept.end.message), "%s",
		 "whether anything of it is left cannot be known: somebody inside killed its "
		 "supervisor");
	e->kept.end.is_tree_lost = true;
}

void exec_kept_exited(struct exec *e)
{
	e->state = EXEC_SETTLING;
	e->kept.end = exec_judge_exit(e);
	e->kept.end.duration_ms = (uv_hrtime() - e->started_ns) / 1000000;
	if (e->kept.is_tree_lost)
		say_tree_lost(e);
	e->ops->exited(e->arg, &e->kept.end);
	exec_kept_check(e);
}

void exec_kept_settled(struct exec *e, bool is_lost)
{
	/* Where there is a group, the kernel is the judge, and nobody else. */
	if (!e->is_kept || exec_has_group(e))
		return;
	e->kept.is_settled = true;
	e->kept.is_tree_lost = is_lost;
	if (is_lost && e->state == EXEC_SETTLING)
		say_tree_lost(e);
	exec_kept_check(e);
}

void exec_kept_check(struct exec *e)
{
	if (!e->is_kept || e->is_closed || e->state != EXEC_SETTLING)
		return;
	if (e->is_proven || (e->group.fd >= 0 && exec_group_is_empty(e)))
		e->kept.is_settled = true;
	if (!e->kept.is_settled)
		return;
	if (e->kept.is_tree_lost && !e->is_proven && (e->is_ending || e->is_end_asked)) {
		exec_on_unproven(e);
		return;
	}
	if (!e->kept.is_marked)
		exec_mark_output(e);
	e->kept.is_marked = true;
	if (e->is_paused && !e->is_ending)
		return;
	if (exec_drain_output(e) && e->state == EXEC_SETTLING)
		exec_finish(e, &e->kept.end);
}

void exec_adopted_all(struct sandbox *sb)
{
	list_for_each_safe (node, &sb->execs) {
		struct exec *e = list_entry(node, struct exec, link);

		if (!e->is_adopting)
			continue;
		e->is_adopting = false;
		if (e->state == EXEC_SPAWNING) {
			e->is_ending = false; /* nobody has ended it: it was not there */
			exec_finish_lost(e, "the sandbox's init does not know of it");
		} else if (e->state != EXEC_ENDED) {
			e->is_end_late = e->is_ending && e->state >= EXEC_DRAINING;
			exec_kill_started(e);
		}
	}
}

/* --- for its owner --- */

uint64_t exec_number(const struct exec *exec)
{
	return exec->number;
}

void exec_set_timeout(struct exec *exec, uint64_t timeout_ms)
{
	if (exec->is_ending || exec->state == EXEC_ENDED)
		return;
	if (timeout_ms)
		uv_timer_start(&exec->timer, exec_on_timeout, timeout_ms, 0);
	else
		uv_timer_stop(&exec->timer);
}

void exec_ask_end(struct exec *exec)
{
	exec->is_end_asked = true;
	exec_kept_check(exec);
}

void exec_resize(struct exec *exec, uint32_t cols, uint32_t rows)
{
	struct agent_resize frame = {exec->number, cols, rows};

	/* Init has yet to tell of it, as of one that is being adopted. */
	if (exec->state == EXEC_SPAWNING) {
		exec->kept.cols = cols;
		exec->kept.rows = rows;
	} else if (exec->sb->agent && exec->state == EXEC_RUNNING) {
		agent_send(exec->sb->agent, &(struct channel_message){
						    .head = {AGENT_RESIZE, FRAME_VERSION, 0},
						    .fields = agent_resize_fields,
						    .value = &frame,
					    });
	}
}

void exec_signal(struct exec *exec, int signal)
{
	struct agent_signal frame = {exec->number, (uint32_t)signal};

	exec->is_sys_sent |= signal == SIGSYS;
	if (exec->sb->agent && exec->state != EXEC_SPAWNING && exec->state != EXEC_ENDED)
		agent_send(exec->sb->agent, &(struct channel_message){
						    .head = {AGENT_SIGNAL, FRAME_VERSION, 0},
						    .fields = agent_signal_fields,
						    .value = &frame,
					    });
}
