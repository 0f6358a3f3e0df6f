#include "base/process_stat.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

int process_stat(pid_t pid, struct process_stat *ret)
{
	char path[48], text[1024];
	cleanup_fd int fd = -1;
	long long parent;
	unsigned long long start, pending;
	char state, *at;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	n = read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return n < 0 && errno != ESRCH ? -errno : -ESRCH;
	text[n] = '\0';
	/* The name may hold anything, parentheses too; the numbers stand behind the last one. */
	at = strrchr(text, ')');
	if (!at || sscanf(at + 1,
			  " %c %lld %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s"
			  " %*s %llu %*s %*s %*s %*s %*s %*s %*s %*s %llu",
			  &state, &parent, &start, &pending) != 4)
		return -EBADMSG;
	*ret = (struct process_stat){.state = state,
				     .parent = (pid_t)parent,
				     .start = start,
				     .is_killed = pending >> (SIGKILL - 1) & 1};
	return 0;
}
