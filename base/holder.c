#include "base/holder.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#include "base/cleanup.h"

void holder_read(int fd, struct holder *ret)
{
	char text[HOLDER_TEXT_MAX], *end, *newline;
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
	long pid;

	*ret = (struct holder){0};
	if (n <= 0)
		return;
	text[n] = '\0';
	pid = strtol(text, &end, 10);
	if (*end != '\n' || pid <= 0 || pid > INT_MAX)
		return;
	ret->pid = (pid_t)pid;
	newline = strchr(end + 1, '\n');
	if (newline && newline - end <= PATH_MAX)
		snprintf(ret->socket, sizeof(ret->socket), "%.*s", (int)(newline - end - 1),
			 end + 1);
}

bool holder_find(const char *state_dir, struct holder *ret)
{
	char path[PATH_MAX];
	cleanup_fd int fd = -1;

	if (snprintf(path, sizeof(path), "%s/berthd/lock", state_dir) >= (int)sizeof(path))
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return false;
	holder_read(fd, ret);
	/*
	 * To try the lock is to hold it for a moment, in which a berthd that starts would be turned
	 * away: not where the last one is plainly gone.
	 */
	if (ret->pid == 0 || (kill(ret->pid, 0) < 0 && errno == ESRCH))
		return false;
	return flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}
