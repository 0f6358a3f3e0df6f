#include "cmd/berth/address.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define TAIL "/berthd/api.sock"

/*
 * A keeper that serves that run directory says for which state (berth-keeper's places.h): `up`
 * alone could begin with another one, and an empty list.
 */
static const char *start_words(const char *path, const char *up, char *room, size_t size)
{
	size_t len = strlen(path), tail = sizeof(TAIL) - 1;
	char link[PATH_MAX], state[PATH_MAX];
	ssize_t n;

	if (!strstr(up, "--")) /* where everything is where it always is */
		return up;
	if (len <= tail || len >= sizeof(link) || strcmp(path + len - tail, TAIL) != 0)
		return up;
	snprintf(link, sizeof(link), "%.*s/.state", (int)(len - tail), path);
	n = readlink(link, state, sizeof(state) - 1);
	if (n <= 0 || memchr(state, ' ', (size_t)n))
		return up;
	snprintf(room, size, "berth --state-dir %.*s --run-dir %.*s up", (int)n, state,
		 (int)(len - tail), path);
	return room;
}

int address_failed(const char *path, int error, const char *up, struct err *err)
{
	char words[2 * PATH_MAX + 40];
	struct stat st;

	up = start_words(path, up, words, sizeof(words));

	switch (error) {
	case ENOENT:
	case ENOTDIR:
		return err_set(err, -ENOENT, ERR_UNAVAILABLE,
			       "no berthd answers on %s: start one with `%s`", path, up);
	case ECONNREFUSED:
		if (stat(path, &st) == 0 && !S_ISSOCK(st.st_mode))
			return err_set(err, -ENOTSOCK, ERR_INVALID_REQUEST, "%s is not a socket",
				       path);
		return err_set(err, -ECONNREFUSED, ERR_UNAVAILABLE,
			       "%s was left behind by a berthd that is gone: start a new one with "
			       "`%s`",
			       path, up);
	case EACCES:
	case EPERM:
		return err_set(err, -EACCES, ERR_FORBIDDEN,
			       "you may not connect to %s: ask as the user who started berthd, or "
			       "join the group that owns the socket",
			       path);
	case EAGAIN:
		return err_set(err, -ETIMEDOUT, ERR_TIMEOUT,
			       "berthd on %s does not answer: it is overloaded or hangs", path);
	default:
		return err_set(err, -error, ERR_UNAVAILABLE, "cannot connect to %s: %s", path,
			       strerror(error));
	}
}

void address_closep(struct address *address)
{
	close_fdp(&address->dir);
}

int address_fill(struct address *ret, const char *path)
{
	const char *slash = strrchr(path, '/');
	char dir[PATH_MAX];
	int n;

	ret->un.sun_family = AF_UNIX;
	if (strlen(path) < sizeof(ret->un.sun_path)) {
		memcpy(ret->un.sun_path, path, strlen(path) + 1);
		return 0;
	}
	if (!slash || strlen(path) >= sizeof(dir))
		return -ENAMETOOLONG;
	snprintf(dir, sizeof(dir), "%.*s", (int)(slash - path + 1), path);
	ret->dir = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (ret->dir < 0)
		return -errno;
	n = snprintf(ret->un.sun_path, sizeof(ret->un.sun_path), "/proc/self/fd/%d/%s", ret->dir,
		     slash + 1);
	return n < (int)sizeof(ret->un.sun_path) ? 0 : -ENAMETOOLONG;
}

pid_t address_peer(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 ? peer.pid : 0;
}
