#include "daemon/exec.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "daemon/counts.h"
#include "daemon/exec_state.h"
#include "daemon/exec_stranger.h"
#include "daemon/registry.h"
#include "daemon/sandbox_still.h"
#include "daemon/vigil.h"

#define ARGS_INLINE_MAX (48 * 1024) /* longer ones travel in a memfd */
/*
 * The main process was reaped; its output ends with what was in its pipes then. If its tree is
 * being ended, the answer waits for the proof that it is.
 */
void exec_check_drained(struct exec *e)
{
	if (e->is_closed || e->state != EXEC_DRAINING ||
	    (e->is_ending ? !e->is_proven : e->is_paused))
		return;
	if (!exec_drain_output(e))
		return;
	if (e->state != EXEC_DRAINING)
		return; /* whoever was told of the output has ended it, and it is over by now */
	if (e->is_kept && !e->is_ending)
		exec_kept_exited(e);
	else
		exec_finish_exited(e);
}

/* --- output and input --- */

static void on_output(struct exec_pipe *pipe, struct str bytes)
{
	struct exec *e = pipe->arg;

	if (e->is_ending && e->is_paused)
		e->is_dropping = true;
	if (e->state != EXEC_ENDED && !e->is_abandoned && !e->is_dropping)
		e->ops->output(e->arg, pipe == &e->output[1], bytes);
}

static size_t on_move(struct exec_pipe *pipe, int fd)
{
	struct exec *e = pipe->arg;
	bool is_wanted =
		e->state != EXEC_ENDED && !e->is_abandoned && !e->is_paused && !e->is_dropping;

	if (!e->ops->move || pipe != &e->output[0] || !is_wanted)
		return 0;
	return e->ops->move(e->arg, fd);
}

static void on_output_end(struct exec_pipe *pipe)
{
	struct exec *e = pipe->arg;

	exec_check_survivors(e);
	exec_check_drained(e);
	exec_kept_check(e);
	exec_kept_drained(e);
}

static void on_input_room(struct exec_pipe *pipe)
{
	struct exec *e = pipe->arg;

	if (e->state != EXEC_ENDED && !e->is_abandoned)
		e->ops->stdin_ready(e->arg);
}

static const struct exec_pipe_ops pipe_ops = {
	.data = on_output,
	.end = on_output_end,
	.room = on_input_room,
	.closed = exec_on_pipe_closed,
	.move = on_move,
};

/* Init has the same end, and would keep it open. */
static void on_input_written(struct exec_pipe *pipe)
{
	struct exec *e = pipe->arg;
	struct agent_exec_ref ref = {e->number};

	if (e->sb->agent)
		agent_send(e->sb->agent, &(struct channel_message){
						 .head = {AGENT_STDIN_END, FRAME_VERSION, 0},
						 .fields = agent_exec_ref_fields,
						 .value = &ref,
					 });
}

static const struct exec_pipe_ops kept_pipe_ops = {
	.end = on_output_end,
	.room = on_input_room,
	.closed = exec_on_pipe_closed,
	.pull = exec_kept_pull,
	.written = on_input_written,
};

void exec_pause(struct exec *exec)
{
	exec->is_paused = true;
	for (int i = 0; i < EXEC_STREAMS && !exec->is_ending; i++)
		exec_pipe_pause(&exec->output[i]);
}

void exec_resume(struct exec *exec)
{
	exec->is_paused = false;
	for (int i = 0; i < EXEC_STREAMS && !exec->kept.is_paced; i++)
		exec_pipe_resume(&exec->output[i]);
	exec_check_drained(exec);
	exec_kept_check(exec);
}

bool exec_stdin(struct exec *exec, struct str bytes)
{
	return exec_pipe_write(&exec->input, bytes);
}

void exec_stdin_end(struct exec *exec)
{
	exec_pipe_write_end(&exec->input);
}

bool exec_stdin_is_open(const struct exec *exec)
{
	return exec_pipe_is_writable(&exec->input);
}

/* --- what init says --- */

/* The writing end of stdin if it has one, then the reading ends; nothing else is let in. */
static bool are_its_pipes(struct exec *e, const struct channel_frame *f)
{
	unsigned outputs = exec_stranger_is_terminal(e->number) ? 1 : e->ops->has_reports ? 3 : 2;
	unsigned inputs;

	if (!e->has_streams)
		return f->fds_len == 0;
	if (e->is_adopting) /* an earlier berthd may have ended its stdin */
		exec_pipe_want(&e->input, f->fds_len == outputs + 1);
	inputs = exec_pipe_is_wanted(&e->input) ? 1 : 0;
	if (f->fds_len != inputs + outputs)
		return false;
	for (unsigned i = 0; i < f->fds_len; i++) {
		if (!exec_pipe_fits(f->fds[i], i < inputs ? O_WRONLY : O_RDONLY))
			return false;
	}
	return true;
}

static void on_started(struct exec *e, const struct agent_event *event)
{
	struct channel_frame *f = event->frame;
	bool is_awaited = e->state == EXEC_SPAWNING && !e->is_started &&
			  event->type == (e->is_adopting ? AGENT_LIVE : AGENT_STARTED);
	unsigned n = 0;
	struct err err;

	e->is_started = true;
	if (is_awaited && f->is_cut) {
		e->state = EXEC_RUNNING;
		e->is_dropping = e->is_kept;
		exec_give_up(e); /* its pipes are gone */
		return;
	}
	if (!is_awaited || !are_its_pipes(e, f)) {
		err_set(&err, -EBADMSG, ERR_EXEC_TRANSPORT_ERROR,
			"the sandbox's init answered nonsense");
		sandbox_condemn(e->sb, &err);
		return;
	}
	e->state = EXEC_RUNNING;
	if (exec_pipe_is_wanted(&e->input))
		exec_pipe_open_write(&e->input, take_fd(&f->fds[n++]));
	for (int i = 0; n < f->fds_len; i++)
		exec_pipe_open_read(&e->output[i], take_fd(&f->fds[n++]));
	if (e->is_paused)
		exec_pause(e);
	if (e->is_kept)
		exec_kept_started(e, event->pid);
	if (!e->is_adopting)
		exec_kill_started(e);
}

static void on_refused(struct exec *e, const struct agent_refused *refused)
{
	static const char *const stages[AGENT_STAGE_COUNT] = {
		"the request makes no sense",  "the sandbox lacks resources",
		"the user cannot be taken on", "the working directory cannot be entered",
		"the program cannot be run",
	};
	bool is_named = refused->stage >= AGENT_STAGE_USER;
	const char *word = is_named ? e->words[refused->stage - AGENT_STAGE_USER] : "";
	bool is_missing = refused->stage == AGENT_STAGE_PROGRAM && refused->error == ENOENT;
	struct exec_end end = {.reason = EXEC_NOT_STARTED, .exit_code = is_missing ? 127 : 126};

	if (e->state != EXEC_SPAWNING)
		return;
	snprintf(end.message, sizeof(end.message), "%s: %s%s%s", stages[refused->stage], word,
		 *word ? ": " : "", strerror((int)refused->error));
	if (e->is_kept && refused->stage == AGENT_STAGE_RESOURCES && refused->error == EMFILE)
		snprintf(end.message, sizeof(end.message), "%s",
			 "the sandbox has too many background processes for its limit of open "
			 "files: end some, or raise limits.files");
	if (refused->stage == AGENT_STAGE_CWD && refused->error == ENOENT &&
	    strcmp(word, "/workspace") == 0)
		snprintf(end.message, sizeof(end.message), "%s",
			 "the working directory /workspace was removed: give \"/\" as cwd, or "
			 "stop the sandbox: its next start makes it anew");
	if (refused->stage == AGENT_STAGE_PROGRAM && refused->error == E2BIG)
		snprintf(end.message, sizeof(end.message),
			 "%s: %s: its arguments or its environment are too long",
			 stages[refused->stage], word);
	if (e->shell && (refused->error == ESRCH || refused->error == EPIPE))
		snprintf(end.message, sizeof(end.message), "%s",
			 "the session's shell had just ended: send it again, it gets a fresh one");
	if (e->is_ending && !e->is_kill_sent)
		e->is_proven = true; /* nothing was ever in it */
	if (e->is_ending)
		exec_finish_ended(e);
	else
		exec_finish(e, &end);
}

static void on_exited(struct exec *e, const struct agent_exited *exited)
{
	if (e->state != EXEC_RUNNING)
		return;
	e->exited = *exited;
	e->is_stopped = exec_is_asked_to_stop(e);
	e->state = EXEC_DRAINING;
	/* How long a slow client reads is not its time; but what a kept one left running is it. */
	if (!e->is_ending && !e->is_kept)
		uv_timer_stop(&e->timer);
	exec_mark_output(e);
	/* ... nor does the session wait for that client. */
	if (!e->is_ending)
		exec_leave_shell(e);
	exec_check_drained(e);
}

static void on_lost(struct exec *e)
{
	bool is_alone = !e->shell && !exec_has_group(e);

	/* What is asked to be ended is over when that is proven, or the sandbox with it. */
	if (e->is_ending && !e->is_proven && e->state < EXEC_DRAINING &&
	    (e->is_kill_sent || is_alone)) {
		e->is_lost = true;
		if (!e->is_adopting)
			exec_kill_started(e);
		return;
	}
	if (e->is_end_asked && is_alone && e->state < EXEC_DRAINING) {
		exec_on_unproven(e);
		return;
	}
	if (e->is_kept && e->state >= EXEC_DRAINING) {
		exec_kept_settled(e, true);
		return;
	}
	/* Its group is there still, and what lives in it. */
	if (e->is_kept && e->state == EXEC_RUNNING && !e->is_ending && exec_has_group(e)) {
		e->is_lost = true;
		exec_give_up(e);
		return;
	}
	if (e->is_kept)
		exec_flush_output(e);
	e->kept.is_tree_lost = e->is_kept && is_alone;
	exec_finish_lost(e, e->shell ? "its status cannot be known: the session's shell did not "
				       "tell it"
				     : "its status cannot be known: somebody inside killed its "
				       "supervisor");
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
	case AGENT_LIVE:
		on_started(e, event);
		break;
	case AGENT_REFUSED:
		on_refused(e, &event->refused);
		break;
	case AGENT_EXITED:
		on_exited(e, &event->exited);
		break;
	case AGENT_LOST:
		on_lost(e);
		break;
	case AGENT_SETTLED:
		exec_kept_settled(e, false);
		break;
	case AGENT_ENDED:
		/* Where there is a group, the keeper is the judge, and nobody else. */
		if (exec_has_group(e) || e->shell || !e->is_kill_sent)
			break;
		if (event->ended.is_proven)
			exec_on_proven(e);
		else
			exec_on_unproven(e);
		break;
	default:
		break;
	}
}

/* --- the beginning --- */

/* As much of it as fits, and no half of a character. */
static void keep_word(char word[80], struct str text)
{
	text.len = text.len < 79 ? text.len : 79;
	text.len = utf8_valid_len(text);
	if (text.len)
		memcpy(word, text.at, text.len);
	word[text.len] = '\0';
}

/* A session's is the shell: before it stands the name of what feeds it. */
static struct str program_of(struct str argv)
{
	struct str name = str_of(frame_list_next(&argv));

	return argv.len && str_eq(name, STR(AGENT_SESSION)) ? str_of(frame_list_next(&argv)) : name;
}

static void keep_words(struct exec *e, const struct exec_request *r)
{
	keep_word(e->words[0], r->user);
	keep_word(e->words[1], r->cwd);
	if (r->argv.len)
		keep_word(e->words[2], program_of(r->argv));
}

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
		.cols = r->cols,
		.rows = r->rows,
	};
	int fds[2], result;
	unsigned fds_len = 0;
	cleanup_fd int args = -1;

	if (r->shell) {
		frame.flags |= AGENT_EXEC_COMMAND;
		frame.session = r->shell->number;
	} else {
		frame.flags |= e->group.fd >= 0 ? AGENT_EXEC_IN_CGROUP : AGENT_EXEC_SUPERVISED;
	}
	if (r->is_worker)
		frame.flags |= AGENT_EXEC_WORKER;
	if (r->is_session)
		frame.flags |= AGENT_EXEC_SESSION;
	if (r->is_kept)
		frame.flags |= AGENT_EXEC_KEPT;
	if (r->is_terminal)
		frame.flags |= AGENT_EXEC_TERMINAL;
	if (e->ops->has_reports)
		frame.flags |= AGENT_EXEC_REPORTS;
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

/* The lowest number that is free: at least so many descriptors are in use. */
static rlim_t files_in_use(void)
{
	int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);

	if (fd < 0)
		return RLIM_INFINITY;
	close(fd);
	return (rlim_t)fd;
}

static int check_room(const struct sandbox *sb, struct err *err)
{
	struct rlimit files = {1024, 1024};
	rlim_t most;

	getrlimit(RLIMIT_NOFILE, &files);
	most = files.rlim_cur / FILES_PER_EXEC;
	if (most < SANDBOX_EXECS_LEAST)
		most = SANDBOX_EXECS_LEAST;
	if (most > SANDBOX_EXECS_MAX)
		most = SANDBOX_EXECS_MAX;
	if (sb->execs_len >= most)
		return err_set(err, -EAGAIN, ERR_CAPACITY_EXCEEDED,
			       "the sandbox has %u commands that run, or left something running: "
			       "no more than %u may be there at once",
			       sb->execs_len, (unsigned)most);
	if (files_in_use() >= files.rlim_cur - files.rlim_cur / 4)
		return err_set(err, -EMFILE, ERR_CAPACITY_EXCEEDED,
			       "berthd has too many files open for another command: "
			       "end some, or raise the limit of open files (RLIMIT_NOFILE)");
	return 0;
}

static struct exec *make(struct sandbox *sb, bool is_kept, const struct exec_ops *ops, void *arg)
{
	const struct exec_pipe_ops *pipes = is_kept ? &kept_pipe_ops : &pipe_ops;
	uv_loop_t *loop = registry_loop(sb->registry);
	struct exec *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->sb = sb;
	e->ops = ops;
	e->arg = arg;
	e->is_kept = is_kept;
	e->has_streams = ops->output || ops->pull;
	e->group.fd = -1;
	e->started_ns = uv_hrtime();
	e->oom_kills = sandbox_oom_kills(sb);
	list_init(&e->call.link);
	for (int i = 0; i < EXEC_STREAMS; i++)
		exec_pipe_init(&e->output[i], loop, pipes, e);
	exec_pipe_init(&e->input, loop, pipes, e);
	uv_timer_init(loop, &e->timer);
	e->timer.data = e;
	e->handles = EXEC_STREAMS + 2;
	if (is_kept)
		exec_kept_init(e);
	list_append(&sb->execs, &e->link);
	sb->execs_len++;
	return e;
}

/* A background process does not hold, unless its client would have waited for it otherwise. */
static void hold(struct exec *e, enum hold_kind kind)
{
	e->hold.number = agent_serial(e->number);
	hold_begin(&e->hold, e->sb, kind);
}

struct exec *exec_new(struct sandbox *sb, const struct exec_request *request,
		      const struct exec_ops *ops, void *arg, struct err *err)
{
	struct exec *e;
	int r;

	assert(sb->state == SANDBOX_RUNNING);
	if (check_room(sb, err) < 0)
		return NULL;
	e = make(sb, request->is_kept, ops, arg);
	if (!e) {
		err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
		return NULL;
	}
	keep_words(e, request);
	if (!request->is_worker)
		sandbox_still_spoil(sb, "a command was started that had been asked for before");
	if (!request->shell)
		e->group = sandbox_group_take(sb);
	e->number = exec_stranger_number(++sb->last_exec, request, &e->group);
	exec_pipe_want(&e->input, request->has_stdin);
	r = send_exec(e, request);
	if (r < 0) {
		err_set(err, r, ERR_EXEC_TRANSPORT_ERROR, "cannot reach the sandbox's init: %s",
			strerror(-r));
		sandbox_group_give(sb, e->group);
		exec_close(e);
		return NULL;
	}
	e->shell = request->shell;
	if (e->shell)
		e->shell->command = e;
	if (request->timeout_ms)
		uv_timer_start(&e->timer, exec_on_timeout, request->timeout_ms, 0);
	/* A kept one holds until it runs: its client waits for that. */
	if (!request->is_quiet)
		hold(e, request->is_worker ? HOLD_REQUEST : HOLD_EXEC);
	vigil_begin(sb);
	registry_counts(sb->registry)->execs++;
	return e;
}

struct exec *exec_adopt(struct sandbox *sb, uint64_t number, const struct exec_ops *ops, void *arg,
			struct err *err)
{
	struct exec *e = NULL;

	assert(sb->state == SANDBOX_STARTING && sb->is_adopting);
	if (exec_stranger_is_kept(number) && !find(sb, number)) {
		e = make(sb, true, ops, arg);
		if (!e) {
			err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
			return NULL;
		}
	}
	if (!e) {
		err_set(err, -EINVAL, ERR_INTERNAL, "%llu is no exec that can be adopted",
			(unsigned long long)number);
		return NULL;
	}
	e->number = number;
	e->is_adopting = true;
	exec_stranger_group(number, &e->group.number);
	exec_stranger_seen(sb, agent_serial(number));
	if (exec_stranger_is_held(number))
		hold(e, HOLD_EXEC);
	return e;
}
