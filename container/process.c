#include "container/process.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/process_stat.h"

#define LOOK_NAME "berth-look"

int process_pidfd_open(pid_t pid)
{
	long fd = syscall(SYS_pidfd_open, pid, 0);

	return fd < 0 ? -errno : (int)fd; /* the kernel makes it CLOEXEC */
}

int process_pidfd_kill(int pidfd, int number)
{
	return syscall(SYS_pidfd_send_signal, pidfd, number, NULL, 0) < 0 ? -errno : 0;
}

struct sweep {
	pid_t parent;
	int (*is_kept)(void *arg, pid_t pid, uint64_t start);
	void *arg;
};

void process_be_look(void)
{
	prctl(PR_SET_NAME, LOOK_NAME);
}

/* One that may never die, and can do nothing but look. */
static bool is_look(pid_t pid, const struct process_stat *stat)
{
	char path[32], name[32] = "";
	cleanup_fd int fd = -1;

	if (stat->state != 'D')
		return false;
	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && read(fd, name, sizeof(name) - 1) > 0 && strcmp(name, LOOK_NAME "\n") == 0;
}

/* One look at all processes: kills, and says how many are still there (zombies are not). */
static int sweep_once(const struct sweep *sweep)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	int found = 0;

	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		pid_t pid = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;
		struct process_stat stat;
		cleanup_fd int pidfd = -1;

		if (pid <= 0 || pid == getpid() || process_stat(pid, &stat) < 0 ||
		    stat.parent != sweep->parent || stat.state == 'Z' || stat.state == 'X' ||
		    sweep->is_kept(sweep->arg, pid, stat.start))
			continue;
		pidfd = process_pidfd_open(pid);
		/* Looked at again behind the pidfd: the number may be somebody else's by now. */
		if (pidfd < 0 || process_stat(pid, &stat) < 0 || stat.parent != sweep->parent)
			continue;
		process_pidfd_kill(pidfd, SIGKILL);
		found += !is_look(pid, &stat);
	}
	closedir(dir);
	return found;
}

int process_kill_children(pid_t parent, int (*is_kept)(void *arg, pid_t pid, uint64_t start),
			  void *arg, unsigned timeout_ms)
{
	const struct timespec step = {.tv_nsec = 2000000};
	struct sweep sweep = {parent, is_kept, arg};
	int total = 0;

	/* The children of what dies become children of `parent` too, so look until there is none.
	 */
	for (unsigned waited = 0;; waited += 2) {
		int n;

		if (parent <= 1 || getppid() != parent)
			return -ESRCH;
		n = sweep_once(&sweep);
		if (n <= 0)
			return n < 0 ? n : total;
		if (waited >= timeout_ms)
			return -ETIMEDOUT;
		total = n > total ? n : total;
		nanosleep(&step, NULL);
	}
}
