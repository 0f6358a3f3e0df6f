#include "daemon/exec_state.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "daemon/registry.h"
#include "daemon/sandbox_sleep.h"
#include "daemon/vigil.h"

/* How often survivors are looked at, beside the end of their pipes: less and less. */
#define CHECK_FIRST_MS 100
#define CHECK_LAST_MS  10000

/* An init that hangs must not hold up an end: so long it has... */
#define SPAWN_LIMIT_MS 2000 /* to say whether it could start what is to be ended already */
#define PROOF_LIMIT_MS                                                                             \
	10000              /* and the keeper, which gives itself 5 s, to prove that all is gone    \
			    */
#define EXIT_LIMIT_MS 2000 /* to tell the status of what is proven to be gone */

/* --- its last moments --- */

void exec_release(struct exec *e)
{
	if (--e->handles == 0)
		free(e);
}

void exec_on_pipe_closed(struct exec_pipe *pipe)
{
	exec_release(pipe->arg);
}

static void on_timer_closed(uv_handle_t *handle)
{
	exec_release(handle->data);
}

void exec_close(struct exec *e)
{
	if (e->is_closed)
		return;
	e->is_closed = true;
	hold_end(&e->hold);
	list_remove(&e->link);
	e->sb->execs_len--;
	keeper_cancel(registry_keeper(e->sb->registry), &e->call);
	for (int i = 0; i < EXEC_STREAMS; i++)
		exec_pipe_close(&e->output[i]);
	exec_pipe_close(&e->input);
	if (e->is_kept)
		exec_kept_close(e);
	uv_close((uv_handle_t *)&e->timer, on_timer_closed);
}

bool exec_group_is_empty(const struct exec *e)
{
	cleanup_fd int fd = sandbox_group_open(e->sb, e->group, "cgroup.events");
	char text[256];
	ssize_t n = fd < 0 ? fd : read(fd, text, sizeof(text) - 1);

	/* Only an empty group can be removed, and the keeper may have done so. */
	if (n < 0)
		return fd < 0 ? fd == -ENOENT || fd == -ENODEV : errno == ENODEV;
	text[n] = '\0';
	return strstr(text, "populated 0") != NULL;
}

static bool has_survivors(const struct exec *e)
{
	if (e->is_kept && (e->is_proven || e->kept.is_settled))
		return false;
	if (e->group.fd >= 0)
		return !e->is_proven && !exec_group_is_empty(e);
	for (int i = 0; i < EXEC_STREAMS; i++) {
		if (exec_pipe_is_open(&e->output[i]))
			return true;
	}
	return false;
}

/*
 * A group that was killed is gone: the kernel would kill whoever enters it later. One of a kept
 * exec is not used again: until its end is stored, its number must not mean another's.
 */
static void release_group(struct exec *e)
{
	struct sandbox_group group = e->group;

	e->group.fd = -1;
	if (group.fd < 0)
		return;
	if (!e->is_kill_sent && !(e->is_kept && e->is_started)) {
		sandbox_group_give(e->sb, group);
		return;
	}
	close(group.fd);
	if (!e->is_kill_sent)
		keeper_group_drop(registry_keeper(e->sb->registry),
				  &(struct keeper_group_ref){str_of(e->sb->id.text),
							     e->sb->generation, group.number});
}

/* Survivors keep their pipes and their group until they are gone too. */
static void on_survivors(uv_timer_t *timer)
{
	struct exec *e = timer->data;

	if (has_survivors(e)) {
		e->check_ms = e->check_ms ? e->check_ms * 2 : CHECK_FIRST_MS;
		if (e->check_ms > CHECK_LAST_MS)
			e->check_ms = CHECK_LAST_MS;
		uv_timer_start(&e->timer, on_survivors, e->check_ms, 0);
		return;
	}
	release_group(e);
	exec_close(e);
}

void exec_check_survivors(struct exec *e)
{
	if (e->state == EXEC_ENDED && !e->is_closed)
		on_survivors(&e->timer);
}

void exec_forget(struct sandbox *sb, uint64_t generation, uint64_t number)
{
	struct agent_exec_ref ref = {number};

	if (sb->agent && sb->generation == generation)
		agent_send(sb->agent, &(struct channel_message){
					      .head = {AGENT_FORGET, FRAME_VERSION, 0},
					      .fields = agent_exec_ref_fields,
					      .value = &ref,
				      });
}

void exec_mark_output(struct exec *e)
{
	for (int i = 0; i < EXEC_STREAMS; i++)
		exec_pipe_mark(&e->output[i]);
}

void exec_leave_shell(struct exec *e)
{
	if (!e->shell)
		return;
	e->shell->command = NULL;
	e->shell->over(take(e->shell), &e->over);
}

static void add_session(const struct exec *e, struct exec_end *end)
{
	end->in_session = e->over.in_session;
	end->is_fresh = e->over.is_fresh;
	end->session_restarted = e->over.session_restarted;
	if (!end->message[0])
		memcpy(end->message, e->over.message, sizeof(end->message));
}

/* What it took to end it. */
static void say_unproven(const struct exec *e, struct exec_end *end)
{
	bool is_stopped = e->sb->state == SANDBOX_COLD;

	end->is_tree_lost = !is_stopped && e->is_kept;
	snprintf(end->message, sizeof(end->message), "%s",
		 is_stopped ? EXEC_UNPROVEN
			    : "that nothing of it is left could not be proven, and its sandbox "
			      "could not be stopped yet");
}

/* The one end that a client hears of. */
void exec_finish(struct exec *e, struct exec_end *end)
{
	assert(e->state != EXEC_ENDED);
	e->state = EXEC_ENDED;
	hold_end(&e->hold);
	end->duration_ms = (uv_hrtime() - e->started_ns) / 1000000;
	end->output_dropped = e->is_dropping;
	if (e->is_unproven)
		say_unproven(e, end);
	exec_pipe_close(&e->input);
	for (int i = 0; i < EXEC_STREAMS; i++)
		exec_pipe_discard(&e->output[i]);
	if (!e->is_kept)
		exec_forget(e->sb, e->sb->generation, e->number);
	e->over.reason = end->reason;
	exec_leave_shell(e);
	add_session(e, end);
	if (!e->is_abandoned)
		e->ops->ended(e->arg, end);
	on_survivors(&e->timer);
}

/* What we did to it is the reason, whatever its status says. */
static void set_end_reason(const struct exec *e, struct exec_end *end)
{
	end->reason = e->end_reason;
	end->exit_code = e->end_reason == EXEC_TIMEOUT ? 124 : 128 + SIGKILL;
	if (e->end_reason == EXEC_CPU_LIMIT)
		snprintf(end->message, sizeof(end->message), "%s",
			 "the sandbox used up its processor time (limits.cpu_time_ms), and was "
			 "ended with everything in it");
	if (e->end_reason == EXEC_LOST) {
		end->exit_code = -1;
		end->signal = 0;
		snprintf(end->message, sizeof(end->message), "%s",
			 e->is_lost ? "its status cannot be known: somebody inside killed its "
				      "supervisor; what was left of it was ended"
				    : "berthd had no file descriptors left for its output, so it "
				      "was ended");
	}
}

void exec_finish_ended(struct exec *e)
{
	struct exec_end end = {0};

	set_end_reason(e, &end);
	exec_finish(e, &end);
}

void exec_finish_lost(struct exec *e, const char *why)
{
	struct exec_end end = {
		.reason = EXEC_LOST, .exit_code = -1, .oom_suspected = e->is_starved};

	if (e->state >= EXEC_DRAINING)
		return;
	if (e->is_ending) {
		exec_finish_ended(e);
		return;
	}
	end.is_tree_lost = e->kept.is_tree_lost;
	snprintf(end.message, sizeof(end.message), "%s", why);
	exec_finish(e, &end);
}

/* Somebody sent SIGKILL, and it was not us. */
static void judge(const struct exec *e, struct exec_end *end)
{
	int64_t now = vigil_look(e->sb);

	if (now < 0 || e->oom_kills < 0)
		end->oom_suspected = true;
	else if (now > e->oom_kills)
		end->reason = EXEC_OOM;
}

/* Somebody said stop or delete; execs that still run are killed by that, and not lost. */
bool exec_is_asked_to_stop(const struct exec *e)
{
	return e->sb->is_stop_left || (e->sb->state == SANDBOX_STOPPING && !e->sb->is_condemned);
}

/* What is sent for that: first by init, and then by the kernel. */
static bool is_stop_signal(int signal)
{
	return signal == SIGTERM || signal == SIGHUP || signal == SIGKILL;
}

struct exec_end exec_judge_exit(const struct exec *e)
{
	int status = (int)e->exited.status;
	struct exec_end end = {
		.is_measured = true,
		.cpu_ms = (e->exited.user_us + e->exited.system_us) / 1000,
		.max_rss_bytes = e->exited.max_rss_bytes,
	};

	if (WIFSIGNALED(status)) {
		end.reason = EXEC_SIGNALED;
		end.signal = WTERMSIG(status);
		end.exit_code = 128 + end.signal;
		if (is_stop_signal(end.signal) && (e->is_stopped || exec_is_asked_to_stop(e)))
			end.reason = EXEC_KILLED;
		else if (end.signal == SIGKILL && !e->is_ending)
			judge(e, &end);
		else if (end.signal == SIGSYS && e->sb->is_strict && !e->is_sys_sent)
			end.reason = EXEC_VIOLATION;
	} else {
		end.reason = EXEC_EXITED;
		end.exit_code = WEXITSTATUS(status);
		/* So a shell tells of what was killed in it. */
		if (e->over.in_session && end.exit_code == 128 + SIGKILL)
			judge(e, &end);
	}
	if (e->is_ending && !e->is_end_late)
		set_end_reason(e, &end);
	return end;
}

void exec_finish_exited(struct exec *e)
{
	struct exec_end end = exec_judge_exit(e);

	exec_finish(e, &end);
}

/* --- ending the tree --- */

void exec_on_unproven(struct exec *e)
{
	struct err err;

	/* Something of it may live on: the only proof left is to stop everything. */
	e->is_unproven = true;
	err_set(&err, -ETIMEDOUT, ERR_TIMEOUT,
		"that nothing of a command was left could not be proven, so the whole sandbox was "
		"stopped");
	sandbox_condemn(e->sb, &err);
}

static void on_ending_late(uv_timer_t *timer);

void exec_on_proven(struct exec *e)
{
	e->is_proven = true;
	exec_mark_output(e); /* others of the tree may have written after the first had ended */
	if (e->is_lost && e->state < EXEC_DRAINING) {
		exec_flush_output(e);
		exec_finish_ended(e);
		return;
	}
	if (e->state == EXEC_SPAWNING || e->state == EXEC_RUNNING)
		uv_timer_start(&e->timer, on_ending_late, EXIT_LIMIT_MS, 0);
	exec_check_survivors(e);
	exec_check_drained(e);
	exec_kept_check(e);
}

static void on_group_ended(struct keeper_call *call, struct keeper_answer *answer)
{
	struct exec *e = container_of(call, struct exec, call);

	/* A group that is not there any more was ended by a keeper that could not say so. */
	if (answer->result < 0 && answer->err.code != ERR_NOT_FOUND)
		exec_on_unproven(e);
	else
		exec_on_proven(e);
}

static void kill_tree(struct exec *e)
{
	struct keeper_group_ref group = {str_of(e->sb->id.text), e->sb->generation,
					 e->group.number};
	struct agent_end end = {e->number};

	e->is_kill_sent = true;
	sandbox_wake(e->sb); /* only init can tell how it ended */
	uv_timer_start(&e->timer, on_ending_late, PROOF_LIMIT_MS, 0);
	if (e->shell) {
		e->shell->end(e->shell);
	} else if (exec_has_group(e)) {
		e->call.done = on_group_ended;
		keeper_group_end(registry_keeper(e->sb->registry), &e->call, &group);
	} else if (e->sb->agent) {
		agent_send(e->sb->agent, &(struct channel_message){
						 .head = {AGENT_END, FRAME_VERSION, 0},
						 .fields = agent_end_fields,
						 .value = &end,
					 });
	}
}

/*
 * Init does not say what it should. What the keeper has proven is true without it; else only the
 * end of the whole sandbox proves anything.
 */
static void on_ending_late(uv_timer_t *timer)
{
	struct exec *e = timer->data;

	if (e->state == EXEC_ENDED)
		return;
	if (!e->is_kill_sent)
		kill_tree(e);
	else if (e->is_proven && e->state == EXEC_DRAINING)
		exec_finish_exited(e);
	else if (e->is_proven && e->state == EXEC_SETTLING)
		exec_finish(e, &e->kept.end);
	else if (e->is_proven)
		exec_finish_ended(e);
	else
		exec_on_unproven(e);
}

void exec_proven(struct exec *exec)
{
	exec_on_proven(exec);
}

void exec_interrupt(struct exec *exec)
{
	struct agent_signal signal = {exec->number, SIGINT};

	if (exec->sb->agent)
		agent_send(exec->sb->agent, &(struct channel_message){
						    .head = {AGENT_SIGNAL, FRAME_VERSION, 0},
						    .fields = agent_signal_fields,
						    .value = &signal,
					    });
}

void exec_kill_started(struct exec *e)
{
	if (e->is_ending && !e->is_kill_sent)
		kill_tree(e);
}

/* Once its main process has exited by itself, what it left is not ended any more: it was meant to
 * stay. But a kept exec is all of its tree. */
static void end_tree(struct exec *e, enum exec_reason reason)
{
	bool has_exited = e->state == EXEC_DRAINING || e->state == EXEC_SETTLING;

	if (e->is_ending || e->state == EXEC_ENDED || (has_exited && !e->is_kept))
		return;
	e->is_ending = true;
	e->is_end_late = has_exited;
	e->end_reason = reason;
	/* Whether it has exited already is known when init has told everything. */
	if (e->is_adopting)
		return;
	/* A group that is killed too early is not the end of what init is about to start in it. */
	if (e->state == EXEC_SPAWNING)
		uv_timer_start(&e->timer, on_ending_late, SPAWN_LIMIT_MS, 0);
	else
		kill_tree(e);
	/* What it still says is read, whoever listens: its end must not wait for that. */
	for (int i = 0; i < EXEC_STREAMS; i++)
		exec_pipe_resume(&e->output[i]);
}

void exec_on_timeout(uv_timer_t *timer)
{
	end_tree(timer->data, EXEC_TIMEOUT);
}

void exec_give_up(struct exec *e)
{
	exec_kill_started(e);
	end_tree(e, EXEC_LOST);
}

void exec_kill(struct exec *exec)
{
	end_tree(exec, EXEC_KILLED);
}

void exec_abandon(struct exec *exec)
{
	exec->is_abandoned = true;
	for (int i = 0; i < EXEC_STREAMS; i++)
		exec_pipe_discard(&exec->output[i]);
	exec_pipe_close(&exec->input);
	if (exec->state == EXEC_DRAINING && !exec->is_ending)
		exec_finish_exited(exec);
	else
		end_tree(exec, EXEC_KILLED);
}

bool exec_drain_output(struct exec *e)
{
	bool is_drained = true;

	for (int i = 0; i < EXEC_STREAMS; i++)
		is_drained &= exec_pipe_drain(&e->output[i]);
	return is_drained;
}

/* A slow client is not waited for: what the pipes hold is little, and read once. */
void exec_flush_output(struct exec *e)
{
	e->is_flushing = true;
	exec_mark_output(e);
	for (int i = 0; i < EXEC_STREAMS; i++) {
		do
			exec_pipe_resume(&e->output[i]);
		while (!exec_pipe_drain(&e->output[i]));
	}
}

static void lose(struct exec *e, const struct err *why)
{
	bool is_used_up = why && why->code == ERR_CPU_LIMIT;

	if (e->state == EXEC_ENDED)
		return;
	e->is_starved = why && why->code == ERR_MEMORY_LIMIT;
	exec_flush_output(e);
	if (!e->is_ending && e->state < EXEC_DRAINING && (!why || is_used_up)) {
		e->is_ending = true;
		e->end_reason = is_used_up ? EXEC_CPU_LIMIT : EXEC_KILLED;
	}
	if (e->state == EXEC_SETTLING)
		exec_finish(e, &e->kept.end);
	else if (e->state == EXEC_DRAINING)
		exec_finish_exited(e);
	else
		exec_finish_lost(e, why ? why->sentence : "");
}

static void drop(struct exec *e)
{
	if (e->group.fd >= 0)
		close(take_fd(&e->group.fd));
	exec_close(e);
}

/* One by one: the end of a shell may be that of its command, which stands behind it. */
static struct exec *first_of(struct sandbox *sb)
{
	return list_is_empty(&sb->execs) ? NULL : list_entry(sb->execs.next, struct exec, link);
}

void exec_lose_all(struct sandbox *sb, const struct err *why)
{
	struct exec *e;

	while ((e = first_of(sb))) {
		lose(e, why);
		drop(e);
	}
}

uint32_t exec_group(const struct exec *exec)
{
	return exec->group.fd < 0 ? 0 : exec->group.number;
}

enum exec_await exec_awaited(const struct sandbox *sb)
{
	enum exec_await most = EXEC_AWAIT_NOTHING;

	list_for_each (node, &sb->execs) {
		const struct exec *e = list_entry(node, struct exec, link);

		if (e->state == EXEC_SPAWNING)
			return EXEC_AWAIT_START;
		if (e->state == EXEC_RUNNING && !e->is_kept)
			most = EXEC_AWAIT_END;
	}
	return most;
}

void exec_leave(struct exec *exec)
{
	exec->is_abandoned = true;
	drop(exec);
}

void exec_leave_all(struct sandbox *sb)
{
	const struct err why = {ERR_UNAVAILABLE, "berthd is stopping"};
	struct exec *e;

	while ((e = first_of(sb))) {
		if (!e->is_kept)
			lose(e, &why);
		e->is_abandoned = true;
		drop(e);
	}
}
