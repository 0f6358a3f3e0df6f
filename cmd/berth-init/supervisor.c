#include "cmd/berth-init/supervisor.h"

#include <errno.h>
#include <limits.h>
#include <linux/sockios.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth-init/clock.h"
#include "cmd/berth-init/raw.h"
#include "cmd/berth-init/terminal.h"
#include "cmd/berth-init/tree.h"

#define END_PAUSE_NS 1000000
#define UNREAD_MAX   (16 * 1024) /* bytes as the kernel counts them: room stays for an end */

struct supervisor {
	int fd, signal_fd, proc_fd;
	pid_t pid; /* the command's */
	bool has_terminal;
	bool is_exit_due; /* the command has ended, and its terminal still holds what it said */
	struct supervisor_note exit;
	struct terminal terminal;
};

enum order { ORDER_END, ORDER_SIGNAL, ORDER_RESIZE, ORDER_HANG_UP };

struct request {
	enum order order;
	uint32_t signal;
	uint32_t cols, rows;
};

union one_fd {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(sizeof(int))];
};

static void tell(const struct supervisor *s, const struct supervisor_note *note, int pidfd)
{
	union one_fd control = {0};
	struct iovec part = {(void *)note, sizeof(*note)};
	struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};

	if (pidfd >= 0) {
		header.msg_control = &control;
		header.msg_controllen = sizeof(control);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.header), &pidfd, sizeof(pidfd));
	}
	/* A handful of notes in a life: they fit. */
	sendmsg(s->fd, &header, MSG_NOSIGNAL);
}

/* Not before its output has been handed on; then its terminal is gone, as any that is closed. */
static void tell_exit(struct supervisor *s)
{
	if (!s->is_exit_due || (s->has_terminal && !terminal_pump_last(&s->terminal)))
		return;
	s->is_exit_due = false;
	tell(s, &s->exit, -1);
	if (s->has_terminal)
		terminal_close(&s->terminal);
	s->has_terminal = false;
}

/* False when no child is left. */
static bool reap(struct supervisor *s)
{
	struct supervisor_note note = {.event = SUPERVISOR_EXITED};
	pid_t pid;

	while ((pid = wait4(-1, &note.status, WNOHANG | __WALL, &note.usage)) > 0) {
		if (pid != s->pid)
			continue;
		s->exit = note;
		s->is_exit_due = true;
		s->pid = 0; /* it may be another's from now on */
	}
	tell_exit(s);
	return pid == 0;
}

static struct tree *open_tree_of(const struct supervisor *s)
{
	struct tree *tree = mmap(NULL, sizeof(*tree), PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (tree == MAP_FAILED)
		return NULL;
	tree->proc_fd = s->proc_fd;
	return tree;
}

static void signal_tree(const struct supervisor *s, uint32_t signal)
{
	struct tree *tree = open_tree_of(s);

	if (!tree)
		return;
	tree_signal(tree, s->pid, (int)signal);
	munmap(tree, sizeof(*tree));
}

static void end_tree(struct supervisor *s)
{
	struct supervisor_note note = {.event = SUPERVISOR_ENDED};
	uint64_t deadline = clock_ms() + SUPERVISOR_END_MS;
	struct tree *tree = open_tree_of(s);

	if (!tree) {
		tell(s, &note, -1);
		return;
	}
	for (;;) {
		tree_kill(tree);
		note.is_proven = !reap(s);
		if (note.is_proven || clock_ms() >= deadline)
			break;
		nanosleep(&(struct timespec){0, END_PAUSE_NS}, NULL);
	}
	munmap(tree, sizeof(*tree));
	tell(s, &note, -1);
}

/* Keeps what it needs and nothing of init's: its socket, the command's streams, /proc. */
static int become_supervisor(struct supervisor *s, const struct launch *l)
{
	int keep[] = {s->fd,
		      l->fds[0],
		      l->fds[1],
		      l->fds[2],
		      l->fds[3],
		      s->proc_fd,
		      l->is_terminal ? l->launcher->pts_fd : -1};
	unsigned from = 3;
	sigset_t all;

	/* In the order of their numbers, closing what lies between. */
	for (;;) {
		unsigned next = UINT_MAX;

		for (size_t i = 0; i < array_len(keep); i++) {
			if (keep[i] >= 0 && (unsigned)keep[i] >= from && (unsigned)keep[i] < next)
				next = (unsigned)keep[i];
		}
		if (next > from && syscall(SYS_close_range, from, next - 1, 0) < 0)
			return -errno;
		if (next == UINT_MAX)
			break;
		from = next + 1;
	}
	/* signalfd reads SIGCHLD; from all the others nothing shall ever happen. */
	sigfillset(&all);
	if (sigprocmask(SIG_SETMASK, &all, NULL) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0 ||
	    prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
		return -errno;
	sigemptyset(&all);
	sigaddset(&all, SIGCHLD);
	s->signal_fd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
	return s->signal_fd < 0 ? -errno : 0;
}

/* Until nothing is left to supervise: true. Or until nobody is left who wants to know. */
static bool supervise(struct supervisor *s)
{
	struct pollfd ready[2 + TERMINAL_POLLS] = {{s->fd, POLLIN, 0}, {s->signal_fd, POLLIN, 0}};
	struct signalfd_siginfo info;
	struct request request;

	while (reap(s) || s->is_exit_due) {
		if (s->has_terminal)
			terminal_poll(&s->terminal, ready + 2);
		if (poll(ready, s->has_terminal ? array_len(ready) : 2, -1) < 0)
			continue;
		if (s->has_terminal && !s->is_exit_due)
			terminal_pump(&s->terminal);
		/* One SIGCHLD stands for any number of children: the fact is all it says. */
		if (ready[1].revents && read(s->signal_fd, &info, sizeof(info)) < 0 &&
		    errno != EAGAIN)
			return false;
		if (!ready[0].revents)
			continue;
		if (recv(s->fd, &request, sizeof(request), MSG_DONTWAIT) != sizeof(request))
			return false;
		if (request.order == ORDER_END)
			end_tree(s);
		else if (request.order == ORDER_SIGNAL)
			signal_tree(s, request.signal);
		else if (request.order == ORDER_RESIZE && s->has_terminal)
			terminal_resize(&s->terminal, request.cols, request.rows);
		else if (request.order == ORDER_HANG_UP && s->has_terminal && s->pid)
			terminal_hang_up(&s->terminal, s->pid);
	}
	return true;
}

/* True when nothing of the command is left. */
static bool run(struct supervisor *s, struct launch *l)
{
	struct supervisor_note note = {.event = SUPERVISOR_STARTED};
	int pidfd = -1, error = become_supervisor(s, l);

	if (error == 0 && l->is_terminal) {
		error = terminal_open(&s->terminal, l);
		s->has_terminal = true;
		close_fdp(&l->launcher->pts_fd);
	}
	l->launcher->watchdog.timer_fd = -1;
	if (error < 0) {
		l->stage = AGENT_STAGE_RESOURCES;
		l->error = (uint32_t)-error;
	} else {
		s->pid = launch_run(l, &pidfd);
	}
	if (pidfd < 0) {
		note.event = SUPERVISOR_REFUSED;
		note.stage = l->stage;
		note.error = l->error;
		tell(s, &note, -1);
		return true;
	}
	note.pid = s->pid;
	tell(s, &note, pidfd);
	close(pidfd);
	for (int i = 0; i < LAUNCH_STREAMS; i++)
		close_fdp(&l->fds[i]);
	return supervise(s);
}

int supervisor_connect(int *ret_ours, int *ret_theirs)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	*ret_ours = pair[0];
	*ret_theirs = pair[1];
	return 0;
}

pid_t supervisor_start(struct launch *l, int theirs)
{
	struct clone_args args = {.exit_signal = SIGCHLD};
	struct supervisor s = {.fd = theirs, .proc_fd = l->launcher->proc_fd};
	long pid;

	if (l->cgroup_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint32_t)l->cgroup_fd;
	}
	/* The C library's fork() would look after threads and locks that we do not have. */
	pid = raw_call(SYS_clone3, (long)&args, sizeof(args), 0, 0);
	if (pid == 0) {
		l->cgroup_fd = -1; /* whose children are in it anyway */
		_exit(run(&s, l) ? 0 : 1);
	}
	return (pid_t)pid;
}

int supervisor_receive(int fd, struct supervisor_note *ret, int *ret_pidfd)
{
	union one_fd control;
	struct iovec part = {ret, sizeof(*ret)};
	struct msghdr header = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	const struct cmsghdr *c;
	ssize_t size;

	/* One that ends without having read all resets the line, which is told once, and first. */
	do
		size = recvmsg(fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (size < 0 && errno == ECONNRESET);
	if (size < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (size != sizeof(*ret))
		return -EPIPE;
	*ret_pidfd = -1;
	c = CMSG_FIRSTHDR(&header);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(ret_pidfd, CMSG_DATA(c), sizeof(*ret_pidfd));
	return 1;
}

static int ask(int fd, struct request request)
{
	ssize_t n = send(fd, &request, sizeof(request), MSG_DONTWAIT | MSG_NOSIGNAL);

	return n == sizeof(request) ? 0 : -errno;
}

int supervisor_end_tree(int fd)
{
	return ask(fd, (struct request){.order = ORDER_END});
}

int supervisor_signal_tree(int fd, uint32_t signal)
{
	return ask(fd, (struct request){.order = ORDER_SIGNAL, .signal = signal});
}

static bool is_behind(int fd)
{
	int unread;

	return ioctl(fd, SIOCOUTQ, &unread) == 0 && unread > UNREAD_MAX;
}

int supervisor_hang_up(int fd)
{
	return is_behind(fd) ? -EAGAIN : ask(fd, (struct request){.order = ORDER_HANG_UP});
}

int supervisor_resize(int fd, uint32_t cols, uint32_t rows)
{
	if (is_behind(fd))
		return -EAGAIN;
	return ask(fd, (struct request){.order = ORDER_RESIZE, .cols = cols, .rows = rows});
}
