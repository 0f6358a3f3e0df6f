#include "cmd/berth-init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>

#include "cmd/berth-init/clock.h"
#include "cmd/berth-init/ports.h"
#include "cmd/berth-init/session.h"
#include "cmd/berth-init/supervisor.h"
#include "cmd/berth-init/tree.h"
#include "cmd/berth-init/usage.h"

#define EXEC_FLAGS                                                                                 \
	(AGENT_EXEC_STDIN | AGENT_EXEC_ARGS_IN_FD | AGENT_EXEC_IN_CGROUP | AGENT_EXEC_SUPERVISED | \
	 AGENT_EXEC_WORKER | AGENT_EXEC_KEPT | AGENT_EXEC_TERMINAL | AGENT_EXEC_SESSION |          \
	 AGENT_EXEC_COMMAND | AGENT_EXEC_REPORTS)
#define END_SLACK_MS   1000 /* that a supervisor has to say that it could not end its tree */
#define FILES_PER_KEPT 12   /* of RLIMIT_NOFILE; each holds up to six, the rest is for others */

static int handle_hello(struct init *init, struct message *m)
{
	struct agent_hello hello;
	uint16_t version = AGENT_VERSION;

	if (frame_decode(m->bytes, agent_hello_fields, &hello) < 0 || hello.version == 0)
		return -EBADMSG;
	if (hello.version < version)
		version = (uint16_t)hello.version;
	init->channel.version = version;
	init->answer = (struct answer){
		AGENT_WELCOME, m->head.tag, agent_welcome_fields,
		.value.welcome = {version, execs_tell_all(&init->execs), init->serial}};
	return 0;
}

static void answer_refused(struct init *init, const struct message *m, struct agent_refused refused)
{
	init->answer = (struct answer){AGENT_REFUSED, m->head.tag, agent_refused_fields,
				       .value.refused = refused};
}

/* Our end goes to exec->fds, the child's to launch->fds. */
static int make_pipe(struct exec *exec, struct launch *launch, int stream)
{
	int ours = stream == 0 ? 1 : 0;
	int pair[2];

	if (pipe2(pair, O_CLOEXEC) < 0)
		return -errno;
	exec->fds[exec->fd_count++] = pair[ours];
	launch->fds[stream] = pair[!ours];
	return 0;
}

static int make_pipes(struct exec *exec, struct launch *launch, uint32_t flags)
{
	int error = 0, end = launch->is_terminal ? 2 : flags & AGENT_EXEC_REPORTS ? 4 : 3;

	for (int stream = flags & AGENT_EXEC_STDIN ? 0 : 1; stream < end && error == 0; stream++)
		error = make_pipe(exec, launch, stream);
	return error;
}

/* What is needed of it later, beside its pipes. */
static int keep(struct init *init, struct exec *exec, uint64_t flags)
{
	rlim_t most = init->launcher.old_files.rlim_max / FILES_PER_KEPT;
	int group_fd = init->launch.cgroup_fd;

	if (init->execs.kept >= AGENT_KEPT_MAX || init->execs.kept >= most)
		return -EMFILE;
	if (group_fd >= 0) {
		exec->group_fd = fcntl(group_fd, F_DUPFD_CLOEXEC, 3);
		if (exec->group_fd < 0)
			return -errno;
	}
	exec->is_kept = true;
	exec->has_reports = flags & AGENT_EXEC_REPORTS;
	exec->has_stdin = flags & AGENT_EXEC_STDIN;
	init->execs.kept++;
	return 0;
}

static int start_plain(struct init *init, struct exec *exec)
{
	int pidfd = -1;
	pid_t pid = launch_run(&init->launch, &pidfd);

	if (pid < 0)
		return -(int)init->launch.error;
	execs_set_pid(&init->execs, exec, pid);
	exec_started(&init->execs, exec, pid, pidfd);
	return 0;
}

/* Watched before it exists: afterwards there would be no way back. */
static int start_supervised(struct init *init, struct exec *exec)
{
	cleanup_fd int theirs = -1;
	int error = supervisor_connect(&exec->supervisor_fd, &theirs);
	pid_t pid;

	exec->is_supervised = true;
	if (error == 0)
		error = loop_watch_supervisor(init, exec);
	if (error < 0)
		return error;
	pid = supervisor_start(&init->launch, theirs);
	if (pid < 0)
		return pid;
	execs_set_pid(&init->execs, exec, pid);
	return 0;
}

static void start(struct init *init, struct exec *exec, const struct agent_exec *request, int memfd)
{
	struct launch *launch = &init->launch;
	bool is_supervised = request->flags & (AGENT_EXEC_SUPERVISED | AGENT_EXEC_TERMINAL);
	bool is_session = request->flags & AGENT_EXEC_SESSION;
	int error = request->flags & AGENT_EXEC_KEPT ? keep(init, exec, request->flags) : 0;

	if (error == 0)
		error = is_session ? session_connect(init, exec)
				   : make_pipes(exec, launch, request->flags);
	if (error == 0 && request->flags & AGENT_EXEC_COMMAND)
		error = session_run(init, exec, request, memfd);
	else if (error == 0 && is_supervised)
		error = start_supervised(init, exec);
	else if (error == 0 && is_session)
		error = session_start(init, exec);
	else if (error == 0)
		error = start_plain(init, exec);
	for (int i = 0; i < LAUNCH_STREAMS; i++)
		close_fdp(&launch->fds[i]);
	init->has_children = true;
	if (error < 0)
		exec_refused(&init->execs, exec, launch->stage, (uint32_t)-error);
}

/* A session's program is ours; a command has one string, and nothing of its own to be ended by. */
static bool check_session(struct init *init, const struct agent_exec *request)
{
	const uint32_t alone = AGENT_EXEC_WORKER | AGENT_EXEC_SESSION | AGENT_EXEC_COMMAND;
	const uint32_t tree = AGENT_EXEC_IN_CGROUP | AGENT_EXEC_SUPERVISED;
	char **argv = init->args.argv;

	switch (request->flags & alone) {
	case AGENT_EXEC_SESSION:
		return strcmp(argv[0], ARGS_SESSION) == 0 && !(request->flags & AGENT_EXEC_STDIN);
	case AGENT_EXEC_COMMAND:
		return !argv[1] && !(request->flags & tree);
	case AGENT_EXEC_WORKER:
	case 0:
		return true;
	}
	return false;
}

/* What holds its arguments, behind the cgroup's; -1: the message does. */
static int args_fd(const struct agent_exec *request, const struct message *m)
{
	if (!(request->flags & AGENT_EXEC_ARGS_IN_FD))
		return -1;
	return m->fds[request->flags & AGENT_EXEC_IN_CGROUP ? 1 : 0];
}

/* What must hold before anything is made of it. */
static struct agent_refused check_exec(struct init *init, const struct agent_exec *request,
				       const struct message *m)
{
	struct agent_refused refused = {request->exec, AGENT_STAGE_REQUEST, 0};
	bool in_cgroup = request->flags & AGENT_EXEC_IN_CGROUP;
	bool in_fd = request->flags & AGENT_EXEC_ARGS_IN_FD;
	uint32_t alike = AGENT_EXEC_TERMINAL | AGENT_EXEC_STDIN | AGENT_EXEC_WORKER;
	uint32_t simple = AGENT_EXEC_TERMINAL | AGENT_EXEC_SESSION | AGENT_EXEC_COMMAND;
	bool is_odd = (request->flags & AGENT_EXEC_TERMINAL &&
		       (request->flags & alike) != (AGENT_EXEC_TERMINAL | AGENT_EXEC_STDIN)) ||
		      (request->flags & AGENT_EXEC_REPORTS &&
		       (request->flags & (simple | AGENT_EXEC_KEPT)) != AGENT_EXEC_KEPT);

	if (request->flags & ~(uint32_t)EXEC_FLAGS || m->fd_count != (unsigned)in_cgroup + in_fd ||
	    (in_cgroup && request->flags & AGENT_EXEC_SUPERVISED) || is_odd) {
		refused.error = EINVAL;
	} else if (execs_find(&init->execs, request->exec)) {
		refused.error = EEXIST;
	} else if (init->is_stopping) {
		refused.error = ESHUTDOWN;
	} else if (memchr(request->cwd.at, '\0', request->cwd.len)) {
		refused.stage = AGENT_STAGE_CWD;
		refused.error = EINVAL;
	} else {
		refused.error = (uint32_t)-args_init(&init->args, request, args_fd(request, m));
	}
	if (!refused.error && !check_session(init, request)) {
		refused.error = EINVAL;
		args_close(&init->args);
	}
	return refused;
}

static int handle_exec(struct init *init, struct message *m)
{
	struct launch *launch = &init->launch;
	struct agent_refused refused;
	struct agent_exec request;
	struct exec *exec;

	if (frame_decode(m->bytes, agent_exec_fields, &request) < 0)
		return -EBADMSG;
	if (agent_serial(request.exec) > init->serial)
		init->serial = agent_serial(request.exec);
	init->is_ending = false;
	refused = check_exec(init, &request, m);
	if (refused.error) {
		answer_refused(init, m, refused);
		return 0;
	}
	exec = execs_add(&init->execs, request.exec);
	if (!exec) {
		refused.error = EAGAIN;
		answer_refused(init, m, refused);
		args_close(&init->args);
		return 0;
	}
	exec->start_tag = m->head.tag;
	exec->is_start_awaited = true;
	launch->launcher = &init->launcher;
	launch->args = &init->args;
	launch->user = request.user;
	launch->is_worker = request.flags & (AGENT_EXEC_WORKER | AGENT_EXEC_SESSION);
	launch->is_terminal = request.flags & AGENT_EXEC_TERMINAL;
	launch->cols = request.cols;
	launch->rows = request.rows;
	launch->stage = AGENT_STAGE_RESOURCES;
	launch->cgroup_fd = request.flags & AGENT_EXEC_IN_CGROUP ? m->fds[0] : -1;
	for (int i = 0; i < LAUNCH_STREAMS; i++)
		launch->fds[i] = -1;
	memcpy(launch->cwd, request.cwd.at, request.cwd.len);
	launch->cwd[request.cwd.len] = '\0';
	start(init, exec, &request, args_fd(&request, m));
	args_close(&init->args);
	return 0;
}

static int handle_forget(struct init *init, struct message *m)
{
	struct agent_exec_ref request;
	struct exec *exec;

	if (frame_decode(m->bytes, agent_exec_ref_fields, &request) < 0)
		return -EBADMSG;
	exec = execs_find(&init->execs, request.exec);
	if (!exec || exec->due & DUE_REFUSED)
		return 0;
	if (exec->state == EXEC_EXITED || exec->state == EXEC_LOST) {
		execs_remove(&init->execs, exec);
		return 0;
	}
	exec->is_forgotten = true;
	exec->is_start_awaited = exec->is_end_awaited = false;
	exec->due = 0;
	list_remove(&exec->due_link);
	execs_unkeep(&init->execs, exec);
	execs_drop_session(&init->execs, exec);
	return 0;
}

static int handle_stdin_end(struct init *init, struct message *m)
{
	struct agent_exec_ref request;
	struct exec *exec;

	if (frame_decode(m->bytes, agent_exec_ref_fields, &request) < 0)
		return -EBADMSG;
	exec = execs_find(&init->execs, request.exec);
	/* Until it is started the three belong together. */
	if (exec && exec->is_kept && !(exec->due & (DUE_STARTED | DUE_LIVE)))
		exec_close_stdin(exec);
	return 0;
}

static void send_signal(const struct exec *exec, uint32_t signal)
{
	if (exec->pidfd >= 0)
		syscall(SYS_pidfd_send_signal, exec->pidfd, (int)signal, NULL, 0);
}

/* The others of a kept exec: a supervisor finds them, or the kernel lists them. */
static void signal_tree(const struct exec *exec, uint32_t signal)
{
	pid_t main_pid = exec->pidfd >= 0 ? exec->pid : 0;

	if (exec->supervisor_fd >= 0) {
		supervisor_signal_tree(exec->supervisor_fd, signal);
		kill(exec->our_pid, SIGCONT);
	} else if (exec->group_fd >= 0) {
		tree_signal_group(exec->group_fd, main_pid, (int)signal);
	}
}

/* As a terminal would: its process group, which it leads; what has left that runs on. */
static void signal_foreground(const struct exec *exec, uint32_t signal)
{
	if (exec->pidfd >= 0 && exec->pid > 1)
		kill(-exec->pid, (int)signal);
}

static int handle_signal(struct init *init, struct message *m)
{
	struct agent_signal request;
	const struct exec *exec;

	if (frame_decode(m->bytes, agent_signal_fields, &request) < 0)
		return -EBADMSG;
	exec = execs_find(&init->execs, request.exec);
	if (exec && exec->is_command)
		session_signal(init, exec, request.signal);
	else if (exec && !exec->has_reports)
		send_signal(exec, request.signal);
	if (exec && exec->has_reports)
		signal_foreground(exec, request.signal);
	else if (exec && exec->is_kept)
		signal_tree(exec, request.signal);
	return 0;
}

static int handle_resize(struct init *init, struct message *m)
{
	struct agent_resize request;
	struct exec *exec;

	if (frame_decode(m->bytes, agent_resize_fields, &request) < 0)
		return -EBADMSG;
	exec = execs_find(&init->execs, request.exec);
	if (exec && exec->supervisor_fd >= 0) {
		exec->cols = request.cols;
		exec->rows = request.rows;
		loop_resize(init, exec);
		kill(exec->our_pid, SIGCONT);
	}
	return 0;
}

/* The supervisor answers by a note, or by its end. That of a command is its session's. */
static void ask_supervisor(struct init *init, struct exec *exec, const struct exec *tree,
			   uint32_t tag)
{
	exec->end_tag = tag;
	exec->is_end_awaited = true;
	init->execs.ends_pending += !exec->is_end_pending;
	exec->is_end_pending = true;
	exec->end_deadline_ms = clock_ms() + SUPERVISOR_END_MS + END_SLACK_MS;
	supervisor_end_tree(tree->supervisor_fd);
	kill(tree->our_pid, SIGCONT);
}

static int handle_end(struct init *init, struct message *m)
{
	struct agent_end request;
	struct exec *exec, *tree;

	if (frame_decode(m->bytes, agent_end_fields, &request) < 0)
		return -EBADMSG;
	exec = execs_find(&init->execs, request.exec);
	tree = exec && exec->is_command ? execs_find(&init->execs, exec->session) : exec;
	if (tree && tree->is_supervised && tree->supervisor_fd >= 0) {
		ask_supervisor(init, exec, tree, m->head.tag);
		return 0;
	}
	/* Who has no supervisor, or lost it, has a tree that cannot be told from others. */
	if (exec)
		send_signal(exec, SIGKILL);
	init->answer = (struct answer){AGENT_ENDED, m->head.tag, agent_ended_fields,
				       .value.ended = {request.exec, exec && exec->is_tree_empty}};
	return 0;
}

static int handle_ping(struct init *init, struct message *m)
{
	struct agent_ping ping;

	if (frame_decode(m->bytes, agent_ping_fields, &ping) < 0)
		return -EBADMSG;
	init->answer =
		(struct answer){AGENT_PONG, m->head.tag, agent_ping_fields, .value.pong = ping};
	return 0;
}

static int handle_usage(struct init *init, struct message *m)
{
	if (frame_decode(m->bytes, agent_empty_fields, NULL) < 0)
		return -EBADMSG;
	init->answer = (struct answer){AGENT_USAGE_IS, m->head.tag, agent_usage_fields,
				       .value.usage = {usage_read(init->launcher.proc_fd)}};
	return 0;
}

static int handle_terminate(struct init *init, struct message *m)
{
	if (frame_decode(m->bytes, agent_empty_fields, NULL) < 0)
		return -EBADMSG;
	init->quiets_due++;
	loop_terminate(init);
	return 0;
}

static int handle_connect(struct init *init, struct message *m)
{
	struct agent_connect request;
	int fd;

	if (frame_decode(m->bytes, agent_connect_fields, &request) < 0)
		return -EBADMSG;
	fd = ports_connect((uint16_t)request.port);
	if (fd < 0)
		init->answer = (struct answer){AGENT_CONNECT_FAILED, m->head.tag,
					       agent_connect_failed_fields,
					       .value.connect_failed = {(uint32_t)-fd}};
	else
		init->answer = (struct answer){AGENT_CONNECTED, m->head.tag, agent_empty_fields,
					       .has_fd = true, .fd = fd};
	return 0;
}

static int handle_listening(struct init *init, struct message *m)
{
	struct channel *c = &init->channel;
	size_t count;

	if (frame_decode(m->bytes, agent_empty_fields, NULL) < 0)
		return -EBADMSG;
	/* What was asked is understood: its room is free until the next message. */
	count = ports_listening(init->launcher.proc_fd, c->buffer, sizeof(c->buffer), init->ports);
	init->answer = (struct answer){AGENT_LISTENING_IS, m->head.tag, agent_listening_fields,
				       .value.listening = {{init->ports, count * 2}}};
	return 0;
}

int request_handle(struct init *init, struct message *m)
{
	/* clang-format off */
	static int (*const handlers[])(struct init *, struct message *) = {
		[AGENT_HELLO]     = handle_hello,
		[AGENT_EXEC]      = handle_exec,
		[AGENT_FORGET]    = handle_forget,
		[AGENT_SIGNAL]    = handle_signal,
		[AGENT_END]       = handle_end,
		[AGENT_PING]      = handle_ping,
		[AGENT_RESIZE]    = handle_resize,
		[AGENT_STDIN_END] = handle_stdin_end,
		[AGENT_USAGE]     = handle_usage,
		[AGENT_TERMINATE] = handle_terminate,
		[AGENT_CONNECT]   = handle_connect,
		[AGENT_LISTENING] = handle_listening,
	};
	/* clang-format on */
	bool is_hello = m->head.type == AGENT_HELLO;
	int error = 0;

	if (!is_hello && (!init->channel.version || m->head.version > init->channel.version))
		error = -EPROTO;
	else if (m->head.type < array_len(handlers) && handlers[m->head.type])
		error = handlers[m->head.type](init, m);
	message_close(m);
	return error;
}
