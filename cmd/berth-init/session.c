#include "cmd/berth-init/session.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/cleanup.h"
#include "cmd/berth-init/supervisor.h"

union fds {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(SESSION_FDS_MAX * sizeof(int))];
};

int session_connect(struct init *init, struct exec *exec)
{
	/* The same kind of socket as to a supervisor, on the feeder's stdin. */
	int error = supervisor_connect(&exec->session_fd, &init->launch.fds[0]);

	exec->is_session = true;
	return error < 0 ? error : loop_watch_session(init, exec);
}

int session_start(struct init *init, struct exec *exec)
{
	int pidfd = -1;
	pid_t pid = launch_run(&init->launch, &pidfd);

	if (pid < 0)
		return -(int)init->launch.error;
	execs_set_pid(&init->execs, exec, pid);
	session_launched(init, exec, pid, pidfd);
	return 0;
}

void session_launched(struct init *init, struct exec *exec, pid_t pid, int pidfd)
{
	exec->pid = pid;
	exec->pidfd = pidfd;
	if (exec->is_ready)
		exec_started(&init->execs, exec, pid, pidfd);
}

/* --- commands --- */

static int send_order(int fd, struct iovec *parts, size_t parts_len, const int *fds,
		      unsigned fd_count)
{
	union fds control = {0};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = parts_len};

	if (fd_count) {
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(fd_count * sizeof(int));
		memcpy(CMSG_DATA(&control.header), fds, fd_count * sizeof(int));
	}
	/* It reads one order before the next is given: if it does not, it is stopped. */
	return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static struct exec *session_of(struct init *init, uint64_t number)
{
	struct exec *exec = execs_find(&init->execs, number);

	return exec && exec->is_session && exec->state == EXEC_LIVE && exec->session_fd >= 0 ? exec
											     : NULL;
}

int session_run(struct init *init, struct exec *exec, const struct agent_exec *request, int memfd)
{
	const struct launch *launch = &init->launch;
	const struct exec *session = session_of(init, request->session);
	bool in_fd = request->flags & AGENT_EXEC_ARGS_IN_FD;
	struct session_order order = {
		.kind = SESSION_RUN,
		.flags =
			(launch->fds[0] >= 0 ? SESSION_HAS_STDIN : 0) | (in_fd ? SESSION_IN_FD : 0),
		.number = exec->number,
		.text_size = in_fd ? request->argv_size : (uint32_t)request->argv.len,
		.env_size = (uint32_t)request->env.len,
		.cwd_size = launch->cwd[0] ? (uint32_t)request->cwd.len + 1 : 0,
	};
	struct iovec parts[] = {
		{&order, sizeof(order)},
		{(void *)request->argv.at, request->argv.len},
		{(void *)request->env.at, request->env.len},
		{(void *)launch->cwd, order.cwd_size},
	};
	int fds[SESSION_FDS_MAX];
	unsigned fd_count = 0;

	if (!session)
		return -ESRCH;
	exec->is_command = true;
	exec->session = request->session;
	exec->pid = session->pid; /* so that it can be told whose command it is */
	for (int i = 0; i < 3; i++) {
		if (launch->fds[i] < 0)
			continue;
		/* So that its user can open them. Without CAP_CHOWN there is no other user. */
		if (fchown(launch->fds[i], session->uid, session->gid) < 0 && errno != EPERM)
			return -errno;
		fds[fd_count++] = launch->fds[i];
	}
	if (in_fd)
		fds[fd_count++] = memfd;
	return send_order(session->session_fd, parts, array_len(parts), fds, fd_count);
}

void session_signal(struct init *init, const struct exec *command, uint32_t signal)
{
	const struct exec *session = session_of(init, command->session);
	struct session_order order = {.kind = SESSION_SIGNAL, .signal = signal};

	if (session && command->state == EXEC_LIVE)
		send_order(session->session_fd, &(struct iovec){&order, sizeof(order)}, 1, NULL, 0);
}

/* --- what the feeder says --- */

static void on_ready(struct init *init, struct exec *exec, const struct session_note *note)
{
	if (exec->state != EXEC_STARTING)
		return;
	exec->is_ready = true;
	exec->uid = note->uid;
	exec->gid = note->gid;
	if (exec->pid)
		exec_started(&init->execs, exec, exec->pid, exec->pidfd);
}

static void on_done(struct init *init, struct exec *command, const struct session_note *note)
{
	struct rusage usage = {
		.ru_utime = {(time_t)(note->user_us / 1000000), (long)(note->user_us % 1000000)},
		.ru_stime = {(time_t)(note->system_us / 1000000),
			     (long)(note->system_us % 1000000)},
	};

	exec_exited(&init->execs, command, note->status & 0xff00, &usage);
}

static void on_command_note(struct init *init, const struct exec *session,
			    const struct session_note *note)
{
	struct exec *command = execs_find(&init->execs, note->number);

	if (!command || !command->is_command || command->session != session->number)
		return;
	if (note->kind == SESSION_STARTED && command->state == EXEC_STARTING)
		exec_started(&init->execs, command, command->pid, -1);
	else if (note->kind == SESSION_REFUSED && command->state == EXEC_STARTING)
		exec_refused(&init->execs, command,
			     note->stage < AGENT_STAGE_COUNT ? note->stage : AGENT_STAGE_REQUEST,
			     note->error <= 4095 ? note->error : EINVAL);
	else if (note->kind == SESSION_DONE && command->state == EXEC_LIVE)
		on_done(init, command, note);
}

bool session_take_note(struct init *init, struct exec *exec)
{
	struct session_note note;
	ssize_t size = 0;

	/* As supervisor_receive(): what it said before it ended comes after the reset. */
	if (exec->session_fd >= 0) {
		do
			size = recv(exec->session_fd, &note, sizeof(note), MSG_DONTWAIT);
		while (size < 0 && errno == ECONNRESET);
	}
	if (size < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (size != sizeof(note)) {
		execs_drop_session(&init->execs, exec); /* its end comes by itself */
		return false;
	}
	if (note.kind == SESSION_READY) {
		on_ready(init, exec, &note);
	} else if (note.kind == SESSION_OVER) {
		exec->is_over = true;
		exec->over_status = note.status & 0xffff;
	} else if (note.kind == SESSION_REFUSED && exec->state == EXEC_STARTING) {
		exec->refused.error = note.error && note.error <= 4095 ? note.error : ENOEXEC;
	} else {
		on_command_note(init, exec, &note);
	}
	return true;
}

/* --- the end of it --- */

/* A command that the shell died of has its status; of any other nobody knows how it ended. */
static void end_commands(struct init *init, uint64_t number, bool is_over, int status)
{
	static const struct rusage none;

	for (unsigned i = 0; i < init->execs.touched; i++) {
		struct exec *exec = &init->execs.all[i];

		if (!exec->is_command || exec->session != number)
			continue;
		if (exec->state == EXEC_STARTING && !(exec->due & DUE_REFUSED))
			exec_refused(&init->execs, exec, AGENT_STAGE_REQUEST, ESRCH);
		else if (exec->state == EXEC_LIVE && is_over)
			exec_exited(&init->execs, exec, status, &none);
		else if (exec->state == EXEC_LIVE)
			exec_lost(&init->execs, exec);
	}
}

static void close_session(struct init *init, struct exec *exec)
{
	while (session_take_note(init, exec))
		;
	execs_drop_session(&init->execs, exec);
}

void session_exited(struct init *init, struct exec *exec, int status, const struct rusage *usage)
{
	uint64_t number = exec->number;
	uint32_t error;
	bool is_over;
	int over_status;

	close_session(init, exec);
	error = exec->refused.error;
	is_over = exec->is_over;
	over_status = exec->over_status;
	/* It is told before the commands that end with it. */
	if (exec->state == EXEC_STARTING)
		exec_refused(&init->execs, exec, AGENT_STAGE_PROGRAM, error ? error : ENOEXEC);
	else
		exec_exited(&init->execs, exec, is_over ? over_status : status, usage);
	end_commands(init, number, is_over, over_status);
}

void session_lost(struct init *init, struct exec *exec)
{
	uint64_t number = exec->number;

	close_session(init, exec);
	exec_lost(&init->execs, exec);
	end_commands(init, number, false, 0);
}

void session_tree_ended(struct init *init, const struct exec *exec, bool is_proven)
{
	for (unsigned i = 0; i < init->execs.touched; i++) {
		struct exec *command = &init->execs.all[i];

		if (command->is_command && command->session == exec->number)
			exec_ended(&init->execs, command, is_proven);
	}
}
