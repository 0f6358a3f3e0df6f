#include "daemon/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/directory.h"
#include "base/holder.h"

static int refuse(int fd, const char *state_dir, struct err *err)
{
	struct holder holder;

	holder_read(fd, &holder);
	if (holder.pid == 0)
		return err_set(err, -EBUSY, ERR_CONFLICT,
			       "another berthd uses the state directory \"%s\"", state_dir);
	if (!holder.socket[0])
		return err_set(err, -EBUSY, ERR_CONFLICT,
			       "another berthd (pid %d) uses the state directory \"%s\"",
			       (int)holder.pid, state_dir);
	return err_set(err, -EBUSY, ERR_CONFLICT,
		       "another berthd (pid %d) uses the state directory \"%s\" and serves on "
		       "%s: stop it with `berth --socket %s down`",
		       (int)holder.pid, state_dir, holder.socket, holder.socket);
}

static int write_holder(int fd, const char *socket, struct err *err)
{
	char text[HOLDER_TEXT_MAX];
	int n = snprintf(text, sizeof(text), "%ld\n%s\n", (long)getpid(), socket);

	if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)n, 0) != n)
		return err_set(err, errno ? -errno : -EIO, ERR_INTERNAL,
			       "the lock file cannot be written: %s", strerror(errno));
	return 0;
}

int lock_take(int *ret_fd, const char *state_dir, const char *socket, struct err *err)
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
	r = write_holder(fd, socket, err);
	if (r < 0)
		return r;
	*ret_fd = take_fd(&fd);
	return 0;
}
