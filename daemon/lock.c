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
#include "base/log.h"

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

/* Over what the last one wrote, whose room it then needs no more than. */
static int write_text(int fd, const char *text, size_t len)
{
	ssize_t n = pwrite(fd, text, len, 0);

	if (n < 0 || ftruncate(fd, n) < 0)
		return -errno;
	return (size_t)n == len ? 0 : -ENOSPC;
}

/*
 * The lock is what matters, its text only helps people: on a full disk we go on without, for it
 * takes a berthd to remove what fills it. The text of another must not stay then.
 */
static int write_holder(int fd, const char *socket, struct err *err)
{
	char text[HOLDER_TEXT_MAX];
	int n = snprintf(text, sizeof(text), "%ld\n%s\n", (long)getpid(), socket);
	int r = write_text(fd, text, (size_t)n);

	if (r == -ENOSPC || r == -EDQUOT || r == -EFBIG) {
		log_warn("the lock file does not say who holds it: %s", strerror(-r));
		r = ftruncate(fd, 0) < 0 ? -errno : 0;
	}
	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "the lock file cannot be written: %s",
			       strerror(-r));
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
