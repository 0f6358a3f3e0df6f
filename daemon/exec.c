#include "daemon/exec.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "daemon/exec_pipe.h"
#include "daemon/exec_stranger.h"
#include "daemon/registry.h"

#define ARGS_INLINE_MAX (48 * 1024) /* longer ones travel in a memfd */
/* How often survivors are looked at, beside the end of their pipes: less and less. */
#define CHECK_FIRST_MS 100
#define CHECK_LAST_MS  10000

enum exec_state { EXEC_SPAWNING, EXEC_RUNNING, EXEC_DRAINING, EXEC_ENDED };

struct exec {
	struct list link; /* sandbox's execs */
	struct sandbox *sb;
	uint64_t number;
	enum exec_state state;
	const struct exec_ops *ops;
	void *arg;

	struct exec_pipe output[2]; /* stdout, stderr */
	struct exec_pipe input;
	struct sandbox_group group;
	struct keeper_call call; /* ending its group */
	int64_t oom_kills;       /* of the sandbox, when it started */
	uv_timer_t timer;        /* the time-out; after the end, looking at the survivors */
	uint64_t started_ns;
	unsigned check_ms;
	unsigned handles; /* that must close before it can be freed */

	bool is_paused;
	bool is_ending; /* its tree is being ended */
	bool is_proven; /* ... and nothing of it is left */
	bool is_abandoned;
	bool is_exited;
	bool is_closed;
	enum exec_reason end_reason; /* why it is being ended */
	struct agent_exited exited;
};

/* --- its last moments --- */

static void release(struct exec *e)
{
	if (--e->handles == 0)
		free(e);
}

static void on_pipe_closed(struct exec_pipe *pipe)
{
	release(pipe->arg);
}

static void on_timer_closed(uv_handle_t *handle)
{
	release(handle->data);
}

static void close_all(struct exec *e)
{
	if (e->is_closed)
		return;
	e->is_closed = true;
	list_remove(&e->link);
	e->sb->execs_len--;
	keeper_cancel(registry_keeper(e->sb->registry), &e->call);
	for (int i = 0; i < 2; i++)
		exec_pipe_close(&e->output[i]);
	exec_pipe_close(&e->input);
	uv_close((uv_handle_t *)&e->timer, on_timer_closed);
}

/* 1: nothing lives in the group any more. */
static bool group_is_empty(const struct sandbox_group *group)
{
	char text[256];
	ssize_t n;
	cleanup_fd int fd = openat(group->fd, "cgroup.events", O_RDONLY | O_CLOEXEC);

	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return false;
	text[n] = '\0';
	return strstr(text, "populated 0") != NULL;
}

/* Survivors keep their pipes and their group until they are gone too. */
static void on_survivors(uv_timer_t *timer)
{
	struct exec *e = timer->data;
	bool is_silent = !exec_pipe_is_open(&e->output[0]) && !exec_pipe_is_open(&e->output[1]);

	if (e->group.fd >= 0 ? !e->is_proven && !group_is_empty(&e->group) : !is_silent) {
		e->check_ms = e->check_ms ? e->check_ms * 2 : CHECK_FIRST_MS;
		if (e->check_ms > CHECK_LAST_MS)
			e->check_ms = CHECK_LAST_MS;
		uv_timer_start(&e->timer, on_survivors, e->check_ms, 0);
		return;
	}
	/* A group that was killed is gone: the kernel would kill whoever enters it later. */
	if (e->is_ending && e->group.fd >= 0)
		close(e->group.fd);
	else
		sandbox_group_give(e->sb, e->group);
	e->group.fd = -1;
	close_all(e);
}

static void forget(struct exec *e)
{
	struct agent_exec_ref ref = {e->number};

	if (e->sb->agent)
		agent_send(e->sb->agent, &(struct channel_message){
						 .head = {AGENT_FORGET, FRAME_VERSION, 0},
						 .fields = agent_exec_ref_fields,
						 .value = &ref,
					 });
}

/* The one end that a client hears of. */
static void finish(struct exec *e, struct exec_end *end)
{
	assert(e->state != EXEC_ENDED);
	e->state = EXEC_ENDED;
	end->duration_ms = (uv_hrtime() - e->started_ns) / 1000000;
	exec_pipe_close(&e->input);
	for (int i = 0; i < 2; i++)
		exec_pipe_discard(&e->output[i]);
	forget(e);
	if (!e->is_abandoned)
		e->ops->ended(e->arg, end);
	on_survivors(&e->timer);
}

static void finish_lost(struct exec *e, const char *why)
{
	struct exec_end end = {.reason = EXEC_LOST, .exit_code = -1};

	if (e->is_exited || e->state == EXEC_ENDED)
		return;
	snprintf(end.message, sizeof(end.message), "%s", why);
	finish(e, &end);
}

/* Somebody sent SIGKILL, and it was not us. */
static void judge(const struct exec *e, struct exec_end *end)
{
	int64_t now = sandbox_oom_kills(e->sb);

	if (now < 0 || e->oom_kills < 0)
		end->oom_suspected = true;
	else if (now > e->oom_kills)
		end->reason = EXEC_OOM;
}

static void finish_exited(struct exec *e)
{
	int status = (int)e->exited.status;
	struct exec_end end = {
		.cpu_ms = (e->exited.user_us + e->exited.system_us) / 1000,
		.max_rss_bytes = e->exited.max_rss_bytes,
	};

	if (WIFSIGNALED(status)) {
		end.reason = EXEC_SIGNALED;
		end.signal = WTERMSIG(status);
		end.exit_code = 128 + end.signal;
		if (end.signal == SIGKILL && !e->is_ending)
			judge(e, &end);
	} else {
		end.reason = EXEC_EXITED;
		end.exit_code = WEXITSTATUS(status);
	}
	if (e->is_ending) {
		end.reason = e->end_reason;
		end.exit_code = end.reason == EXEC_TIMEOUT ? 124 : end.exit_code;
	}
	finish(e, &end);
}

/*
 * The main process was reaped; its output ends where its pipes are empty now. If its tree is being
 * ended, the answer waits for the proof that it is.
 */
static void check_drained(struct exec *e)
{
	if (e->state != EXEC_DRAINING || e->is_paused || (e->is_ending && !e->is_proven))
		return;
	if (exec_pipe_drain(&e->output[0]) && exec_pipe_drain(&e->output[1]))
		finish_exited(e);
}

/* --- output and input --- */

static void on_output(struct exec_pipe *pipe, struct str bytes)
{
	struct exec *e = pipe->arg;

	if (e->state != EXEC_ENDED && !e->is_abandoned)
		e->ops->output(e->arg, pipe == &e->output[1], bytes);
}

static void on_output_end(struct exec_pipe *pipe)
{
	struct exec *e = pipe->arg;

	if (e->state == EXEC_ENDED && !e->is_closed)
		on_survivors(&e->timer);
	else
		check_drained(e);
}

static void on_input_room(struct exec_pipe *pipe)
{
	struct exec *e = pipe->arg;

	if (e->state != EXEC_ENDED && !e->is_abandoned)
		e->ops->stdin_ready(e->arg);
}

static const struct exec_pipe_ops pipe_ops = {on_output, on_output_end, on_input_room,
					      on_pipe_closed};

void exec_pause(struct exec *exec)
{
	exec->is_paused = true;
	for (int i = 0; i < 2; i++)
		exec_pipe_pause(&exec->output[i]);
}

void exec_resume(struct exec *exec)
{
	exec->is_paused = false;
	for (int i = 0; i < 2; i++)
		exec_pipe_resume(&exec->output[i]);
	check_drained(exec);
}

bool exec_stdin(struct exec *exec, struct str bytes)
{
	return exec_pipe_write(&exec->input, bytes);
}

void exec_stdin_end(struct exec *exec)
{
	exec_pipe_write_end(&exec->input);
}

/* --- ending the tree --- */

static void on_unproven(struct exec *e)
{
	struct err err;

	/* Something of it may live on: the only proof left is to stop everything. */
	err_set(&err, -ETIMEDOUT, ERR_TIMEOUT,
		"a command could not be ended in time, so the whole sandbox was stopped");
	sandbox_condemn(e->sb, &err);
}

static void on_proven(struct exec *e)
{
	e->is_proven = true;
	if (e->state == EXEC_ENDED && !e->is_closed)
		on_survivors(&e->timer);
	else
		check_drained(e);
}

static void on_group_ended(struct keeper_call *call, struct keeper_answer *answer)
{
	struct exec *e = container_of(call, struct exec, call);

	/* A group that is not there any more was ended by a keeper that could not say so. */
	if (answer->result < 0 && answer->err.code != ERR_NOT_FOUND)
		on_unproven(e);
	else
		on_proven(e);
}

static void end_tree(struct exec *e, enum exec_reason reason)
{
	struct agent_end end = {e->number};

	if (e->is_ending || e->state == EXEC_ENDED)
		return;
	e->is_ending = true;
	e->end_reason = reason;
	if (e->group.fd >= 0) {
		struct keeper_group_ref ref = {str_of(e->sb->id.text), e->sb->generation,
					       e->group.number};

		e->call.done = on_group_ended;
		keeper_group_end(registry_keeper(e->sb->registry), &e->call, &ref);
	} else if (e->sb->agent) {
		agent_send(e->sb->agent, &(struct channel_message){
						 .head = {AGENT_END, FRAME_VERSION, 0},
						 .fields = agent_end_fields,
						 .value = &end,
					 });
	}
	exec_resume(e); /* what it still says is read, or it could not be reaped as drained */
}

static void on_timeout(uv_timer_t *timer)
{
	end_tree(timer->data, EXEC_TIMEOUT);
}

void exec_kill(struct exec *exec)
{
	end_tree(exec, EXEC_KILLED);
}

void exec_abandon(struct exec *exec)
{
	exec->is_abandoned = true;
	for (int i = 0; i < 2; i++)
		exec_pipe_discard(&exec->output[i]);
	exec_pipe_close(&exec->input);
	end_tree(exec, EXEC_KILLED);
}

/* --- what init says --- */

static void on_started(struct exec *e, const struct agent_event *event)
{
	struct channel_frame *f = event->frame;
	unsigned wanted = exec_pipe_is_wanted(&e->input) ? 3 : 2, n = 0;

	if (e->state != EXEC_SPAWNING || f->fds_len != wanted) {
		finish_lost(e, "the sandbox's init answered nonsense");
		return;
	}
	e->state = EXEC_RUNNING;
	if (wanted == 3)
		exec_pipe_open_write(&e->input, take_fd(&f->fds[n++]));
	exec_pipe_open_read(&e->output[0], take_fd(&f->fds[n++]));
	exec_pipe_open_read(&e->output[1], take_fd(&f->fds[n]));
	if (e->is_paused)
		exec_pause(e);
}

static void on_refused(struct exec *e, const struct agent_refused *refused)
{
	static const char *const stages[AGENT_STAGE_COUNT] = {
		"the request makes no sense",  "the sandbox lacks resources",
		"the user cannot be taken on", "the working directory cannot be entered",
		"the program cannot be run",
	};
	bool is_missing = refused->stage == AGENT_STAGE_PROGRAM && refused->error == ENOENT;
	struct exec_end end = {.reason = EXEC_NOT_STARTED, .exit_code = is_missing ? 127 : 126};

	if (e->state != EXEC_SPAWNING)
		return;
	snprintf(end.message, sizeof(end.message), "%s: %s", stages[refused->stage],
		 strerror((int)refused->error));
	finish(e, &end);
}

static void on_exited(struct exec *e, const struct agent_exited *exited)
{
	if (e->state != EXEC_RUNNING)
		return;
	e->exited = *exited;
	e->is_exited = true;
	e->state = EXEC_DRAINING;
	check_drained(e);
}

static struct exec *find(struct sandbox *sb, uint64_t number)
{
	list_for_each (node, &sb->execs) {
		struct exec *e = list_entry(node, struct exec, link);

		if (e->number == number && e->state != EXEC_ENDED)
			return e;
	}
	return NULL;
}

void exec_event(struct sandbox *sb, const struct agent_event *event)
{
	struct exec *e = find(sb, event->exec);

	if (!e) {
		exec_stranger_event(sb, event);
		return;
	}
	switch (event->type) {
	case AGENT_STARTED:
		on_started(e, event);
		break;
	case AGENT_REFUSED:
		on_refused(e, &event->refused);
		break;
	case AGENT_EXITED:
		on_exited(e, &event->exited);
		break;
	case AGENT_LOST:
		finish_lost(e, "its status cannot be known: somebody inside killed its supervisor");
		break;
	case AGENT_ENDED:
		if (event->ended.is_proven)
			on_proven(e);
		else
			on_unproven(e);
		break;
	default:
		break;
	}
}

void exec_lose_all(struct sandbox *sb, const char *why)
{
	list_for_each_safe (node, &sb->execs) {
		struct exec *e = list_entry(node, struct exec, link);

		if (e->state == EXEC_DRAINING)
			finish_exited(e); /* the status is true; the rest of the output is gone */
		else
			finish_lost(e, why);
		if (e->group.fd >= 0)
			close(take_fd(&e->group.fd));
		close_all(e);
	}
}

/* --- the beginning --- */

static int args_in_memfd(const struct exec_request *r)
{
	cleanup_fd int fd = memfd_create("args", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct str parts[2] = {r->argv, r->env};

	if (fd < 0)
		return -errno;
	for (int i = 0; i < 2; i++) {
		struct str left = parts[i];

		while (left.len) {
			ssize_t n = write(fd, left.at, left.len);

			if (n < 0)
				return -errno;
			left = (struct str){left.at + n, left.len - (size_t)n};
		}
	}
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -errno;
	return take_fd(&fd);
}

static int send_exec(struct exec *e, const struct exec_request *r)
{
	struct agent_exec frame = {
		.exec = e->number,
		.flags = r->has_stdin ? AGENT_EXEC_STDIN : 0,
		.argv = r->argv,
		.env = r->env,
		.cwd = r->cwd,
		.user = r->user,
	};
	int fds[2], result;
	unsigned fds_len = 0;
	cleanup_fd int args = -1;

	frame.flags |= e->group.fd >= 0 ? AGENT_EXEC_IN_CGROUP : AGENT_EXEC_SUPERVISED;
	if (e->group.fd >= 0)
		fds[fds_len++] = e->group.fd;
	if (r->argv.len + r->env.len > ARGS_INLINE_MAX) {
		args = args_in_memfd(r);
		if (args < 0)
			return args;
		fds[fds_len++] = args;
		frame.flags |= AGENT_EXEC_ARGS_IN_FD;
		frame.argv_size = (uint32_t)r->argv.len;
		frame.argv = frame.env = (struct str){NULL, 0};
	}
	result = agent_send(e->sb->agent, &(struct channel_message){
						  .head = {AGENT_EXEC, FRAME_VERSION, 0},
						  .fields = agent_exec_fields,
						  .value = &frame,
						  .fds = fds,
						  .fds_len = fds_len,
					  });
	return result;
}

struct exec *exec_new(struct sandbox *sb, const struct exec_request *request,
		      const struct exec_ops *ops, void *arg, struct err *err)
{
	struct exec *e = calloc(1, sizeof(*e));
	uv_loop_t *loop = registry_loop(sb->registry);
	int r;

	assert(sb->state == SANDBOX_RUNNING);
	if (!e) {
		err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
		return NULL;
	}
	e->sb = sb;
	e->ops = ops;
	e->arg = arg;
	e->group = sandbox_group_take(sb);
	e->number = exec_stranger_number(++sb->last_exec, &e->group);
	e->started_ns = uv_hrtime();
	e->oom_kills = sandbox_oom_kills(sb);
	list_init(&e->call.link);
	for (int i = 0; i < 2; i++)
		exec_pipe_init(&e->output[i], loop, &pipe_ops, e);
	exec_pipe_init(&e->input, loop, &pipe_ops, e);
	exec_pipe_want(&e->input, request->has_stdin);
	uv_timer_init(loop, &e->timer);
	e->timer.data = e;
	e->handles = 4;
	list_append(&sb->execs, &e->link);
	sb->execs_len++;
	r = send_exec(e, request);
	if (r < 0) {
		err_set(err, r, ERR_EXEC_TRANSPORT_ERROR, "cannot reach the sandbox's init: %s",
			strerror(-r));
		sandbox_group_give(sb, e->group);
		close_all(e);
		return NULL;
	}
	if (request->timeout_ms)
		uv_timer_start(&e->timer, on_timeout, request->timeout_ms, 0);
	return e;
}
