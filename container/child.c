#include "container/child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"

#define FD_LOG    4
#define FD_PASSED 3
#define FD_SPARE  64 /* above what a program gets, below no limit */

static void reset_signals(void)
{
	struct sigaction normal = {.sa_handler = SIG_DFL};
	sigset_t none;

	for (int signal = 1; signal < NSIG; signal++)
		if (signal != SIGKILL && signal != SIGSTOP)
			sigaction(signal, &normal, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Copies of the fds that are out of the way of the numbers that they will get. */
static int move_up(int fd)
{
	return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FD_SPARE);
}

/* At exactly this number, and open to the program. */
static bool place(int fd, int number)
{
	return dup3(fd, number, O_CLOEXEC) >= 0 && fcntl(number, F_SETFD, 0) == 0;
}

/* Nobody would look after it: a runtime that goes on by itself makes what nobody knows of. */
static void die_with(pid_t parent)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
		_exit(126);
}

/* In the child: only system calls, since another thread may have held a lock. */
static __attribute__((noreturn)) void become(const struct child_program *program)
{
	int log = move_up(program->log_fd), passed = move_up(program->passed_fd);
	int cwd = move_up(program->cwd_fd);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	reset_signals();
	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
		_exit(126);
	close_range(3, FD_SPARE - 1, 0);
	if ((passed >= 0 && !place(passed, FD_PASSED)) || (log >= 0 && !place(log, FD_LOG)))
		_exit(126);
	if ((cwd >= 0 ? fchdir(cwd) : chdir("/")) < 0)
		_exit(126);
	if (program->setup) {
		int r = program->setup(program->setup_data);

		if (r < 0 && log >= 0)
			dprintf(log, "cannot set up the runtime's process: %s\n", strerror(-r));
		if (r < 0)
			_exit(126);
	}
	execve(program->path, (char *const *)program->argv, (char *const *)program->envp);
	if (log >= 0)
		dprintf(FD_LOG, "cannot execute %s: %s\n", program->path, strerror(errno));
	_exit(127);
}

int child_start(const struct child_program *program, pid_t *ret_pid)
{
	pid_t parent = getpid();
	int pidfd = -1;
	struct clone_args args = {
		.flags = CLONE_PIDFD,
		.pidfd = (uint64_t)(uintptr_t)&pidfd,
		.exit_signal = SIGCHLD,
	};
	long pid;

	if (program->cgroup_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)program->cgroup_fd;
	}
	pid = syscall(SYS_clone3, &args, sizeof(args));
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		die_with(parent);
		become(program);
	}
	*ret_pid = (pid_t)pid;
	return pidfd;
}

static int compare_fds(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static void close_others(const int *keep, unsigned count)
{
	int sorted[32], next = 3;

	if (count > array_len(sorted))
		_exit(126);
	memcpy(sorted, keep, count * sizeof(*keep));
	qsort(sorted, count, sizeof(*sorted), compare_fds);
	for (unsigned i = 0; i < count; i++) {
		if (sorted[i] < next)
			continue;
		if (sorted[i] > next)
			close_range((unsigned)next, (unsigned)sorted[i] - 1, 0);
		next = sorted[i] + 1;
	}
	close_range((unsigned)next, ~0U, 0);
}

int child_fork(const int *keep, unsigned count, pid_t *ret_pid)
{
	pid_t parent = getpid(), pid = fork();
	int pidfd;

	if (pid < 0)
		return -errno;
	if (pid == 0) {
		die_with(parent);
		reset_signals();
		close_others(keep, count);
		*ret_pid = 0;
		return 0;
	}
	/* It cannot be reaped before we return, so the number is still its own. */
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (pidfd < 0) {
		int error = -errno;

		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		return error;
	}
	*ret_pid = pid;
	return pidfd;
}

int child_wait(pid_t pid, int pidfd, int timeout_ms)
{
	struct pollfd end = {.fd = pidfd, .events = POLLIN};
	int status, r;

	do
		r = poll(&end, 1, timeout_ms);
	while (r < 0 && errno == EINTR);
	if (r == 0) {
		syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
		waitpid(pid, NULL, __WALL);
		return -ETIMEDOUT;
	}
	while (waitpid(pid, &status, __WALL) < 0)
		if (errno != EINTR)
			return -errno;
	return status;
}
