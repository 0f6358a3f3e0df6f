#include "daemon/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/directory.h"

/* What the owner wrote; 0 when it is not there (yet). */
static long read_holder(int fd)
{
	char text[24] = {0};
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
	char *end;
	long pid;

	if (n <= 0)
		return 0;
	pid = strtol(text, &end, 10);
	return *end == '\n' && pid > 0 && pid <= INT_MAX ? pid : 0;
}

static int refuse(int fd, const char *state_dir, struct err *err)
{
	long pid = read_holder(fd);

	if (pid == 0)
		return err_set(err, -EBUSY, ERR_CONFLICT,
			       "another berthd uses the state directory \"%s\"", state_dir);
	return err_set(err, -EBUSY, ERR_CONFLICT,
		       "another berthd (pid %ld) uses the state directory \"%s\"", pid, state_dir);
}

static int write_holder(int fd, struct err *err)
{
	char text[24];
	int n = snprintf(text, sizeof(text), "%ld\n", (long)getpid());

	if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)n, 0) != n)
		return err_set(err, errno ? -errno : -EIO, ERR_INTERNAL,
			       "the lock file cannot be written: %s", strerror(errno));
	return 0;
}

int lock_take(int *ret_fd, const char *state_dir, struct err *err)
{
	cleanup_fd int fd = -1;
	char dir[PATH_MAX], path[PATH_MAX + 8];
	int r;

	if (snprintf(dir, sizeof(dir), "%s/berthd", state_dir) >= (int)sizeof(dir))
		return err_set(err, -ENAMETOOLONG, ERR_INVALID_REQUEST,
			       "the path of the state directory is too long");
	r = directory_make(dir, 0700, err);
	if (r < 0)
		return err_wrap(err, r, "the state directory");
	snprintf(path, sizeof(path), "%s/lock", dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_set(err, -errno, ERR_INTERNAL, "the lock \"%s\" cannot be opened: %s",
			       path, strerror(errno));
	/* flock: it belongs to the open file, so another close() in this process cannot drop it. */
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno == EWOULDBLOCK)
			return refuse(fd, state_dir, err);
		return err_set(err, -errno, ERR_INTERNAL, "the lock \"%s\" cannot be taken: %s",
			       path, strerror(errno));
	}
	r = write_holder(fd, err);
	if (r < 0)
		return r;
	*ret_fd = take_fd(&fd);
	return 0;
}
