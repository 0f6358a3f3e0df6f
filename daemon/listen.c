#include "daemon/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/cleanup.h"

/* --- Unix --- */

/*
 * Names the socket through its directory's fd: a path of any length fits into sun_path, and the
 * directory cannot be swapped between two calls.
 */
static int name_in_directory(struct sockaddr_un *ret, int dir_fd, const char *name)
{
	int n;

	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	n = snprintf(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/%s", dir_fd, name);
	return n < (int)sizeof(ret->sun_path) ? 0 : -ENAMETOOLONG;
}

/* 1: somebody answers. 0: a socket without an owner. Negative: no socket there, or no telling. */
static int is_alive(const struct sockaddr_un *address)
{
	cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0)
		return 1;
	if (errno == EAGAIN) /* its backlog is full */
		return 1;
	return errno == ECONNREFUSED ? 0 : -errno;
}

static int remove_stale(int dir_fd, const char *name, const struct sockaddr_un *address,
			const char *path, struct err *err)
{
	struct stat st;
	int r;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0
				       : err_set(err, -errno, ERR_FORBIDDEN,
						 "cannot look at %s: %s", path, strerror(errno));
	if (!S_ISSOCK(st.st_mode))
		return err_set(err, -EADDRINUSE, ERR_CONFLICT,
			       "%s exists and is not a socket: move it away or choose another path",
			       path);
	r = is_alive(address);
	if (r == 1)
		return err_set(err, -EADDRINUSE, ERR_CONFLICT,
			       "a daemon already answers on %s: stop it (berth down) or choose "
			       "another --socket",
			       path);
	if (r < 0)
		return err_set(err, r, ERR_FORBIDDEN,
			       "cannot tell whether a daemon answers on %s: %s", path,
			       strerror(-r));
	if (unlinkat(dir_fd, name, 0) < 0)
		return err_set(err, -errno, ERR_FORBIDDEN, "cannot remove the stale socket %s: %s",
			       path, strerror(errno));
	return 0;
}

/* The file appears with mode 0600: nobody else can connect yet. */
static int bind_private(int fd, const struct sockaddr_un *address)
{
	if (fchmod(fd, 0600) < 0 ||
	    bind(fd, (const struct sockaddr *)address, sizeof(*address)) < 0)
		return -errno;
	return 0;
}

/* A group gets its access only when it owns the file. */
static int open_to_group(int dir_fd, const char *name, const struct listen_access *access,
			 struct err *err)
{
	int r = 0;

	/* Who may write to the directory could have put a link there: it is not followed. */
	if (access->gid != (gid_t)-1 &&
	    fchownat(dir_fd, name, (uid_t)-1, access->gid, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	else if (access->mode != 0600 &&
		 fchmodat(dir_fd, name, access->mode, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	if (r == -EPERM)
		return err_set(
			err, r, ERR_FORBIDDEN,
			"cannot give the socket to the group \"%s\": the user who runs berthd "
			"is not a member of it; add them (as root: usermod -aG %s USER, then "
			"log in again) or choose another socket group",
			access->group, access->group);
	if (r < 0)
		return err_set(err, r, ERR_FORBIDDEN,
			       "cannot give the socket to the group \"%s\": %s", access->group,
			       strerror(-r));
	return 0;
}

static int open_directory(int *ret, const char *path, const char **name, struct err *err)
{
	char dir[4096];
	const char *slash = strrchr(path, '/');
	int n;

	*name = slash ? slash + 1 : path;
	n = slash ? snprintf(dir, sizeof(dir), "%.*s/", (int)(slash - path), path)
		  : snprintf(dir, sizeof(dir), ".");
	if (n >= (int)sizeof(dir) || !**name || strlen(*name) > 64)
		return err_set(err, -ENAMETOOLONG, ERR_INVALID_REQUEST,
			       "%s is no usable socket path (file name: 1 to 64 characters)", path);
	*ret = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*ret < 0)
		return err_set(err, -errno, ERR_NOT_FOUND,
			       "cannot open the socket's directory %s: %s", dir, strerror(errno));
	return 0;
}

int listen_unix(int *ret_fd, struct listen_file *ret_file, const char *path,
		const struct listen_access *access, struct err *err)
{
	cleanup_fd int dir_fd = -1, fd = -1;
	struct sockaddr_un address;
	const char *name;
	struct stat st;
	int r;

	r = open_directory(&dir_fd, path, &name, err);
	if (r < 0)
		return r;
	/* Held until we listen: of two that find the same stale file only one may replace it. */
	if (flock(dir_fd, LOCK_EX) < 0 || name_in_directory(&address, dir_fd, name) < 0)
		return err_set(err, -EIO, ERR_INTERNAL, "cannot lock the directory of %s", path);
	r = remove_stale(dir_fd, name, &address, path, err);
	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	r = fd < 0 ? -errno : bind_private(fd, &address);
	if (r < 0)
		return err_set(err, r, ERR_FORBIDDEN, "cannot listen on %s: %s", path,
			       strerror(-r));
	r = open_to_group(dir_fd, name, access, err);
	if (r == 0 && listen(fd, LISTEN_BACKLOG) < 0)
		r = err_set(err, -errno, ERR_FORBIDDEN, "cannot listen on %s: %s", path,
			    strerror(errno));
	if (r < 0) {
		unlinkat(dir_fd, name, 0);
		return r;
	}
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(err, -errno, ERR_INTERNAL, "%s vanished", path);
	*ret_file = (struct listen_file){.dev = st.st_dev, .ino = st.st_ino};
	snprintf(ret_file->path, sizeof(ret_file->path), "%s", path);
	*ret_fd = take_fd(&fd);
	return 0;
}

void listen_unlink(const struct listen_file *file)
{
	struct stat st;

	if (lstat(file->path, &st) == 0 && st.st_dev == file->dev && st.st_ino == file->ino)
		unlink(file->path);
}

bool listen_path_of(int fd, char ret[LISTEN_PATH_SIZE])
{
	struct sockaddr_un address = {0};
	socklen_t len = sizeof(address);
	size_t n;

	if (getsockname(fd, (struct sockaddr *)&address, &len) < 0 ||
	    address.sun_family != AF_UNIX || len <= offsetof(struct sockaddr_un, sun_path))
		return false;
	n = len - offsetof(struct sockaddr_un, sun_path);
	if (n > sizeof(address.sun_path)) /* a path of the full length has its NUL beyond */
		n = sizeof(address.sun_path);
	memcpy(ret, address.sun_path, n);
	ret[n] = '\0';
	if (!ret[0]) /* abstract names hold what they like, up to their length */
		for (size_t i = 0; i < n; i++)
			ret[i] = ret[i] ? ret[i] : '@';
	return true;
}

/* --- TCP --- */

bool listen_address_of(int fd, struct host_port *ret)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} a;
	socklen_t len = sizeof(a);
	struct host_port address = {0};

	if (getsockname(fd, &a.any, &len) < 0)
		return false;
	if (a.any.sa_family == AF_INET) {
		inet_ntop(AF_INET, &a.v4.sin_addr, address.host, sizeof(address.host));
		address.port = ntohs(a.v4.sin_port);
	} else if (a.any.sa_family == AF_INET6) {
		inet_ntop(AF_INET6, &a.v6.sin6_addr, address.host, sizeof(address.host));
		address.port = ntohs(a.v6.sin6_port);
	} else {
		return false;
	}
	*ret = address;
	return true;
}

unsigned listen_port(int fd)
{
	struct host_port address;

	return listen_address_of(fd, &address) ? address.port : 0;
}

static int listen_address(const struct addrinfo *info)
{
	cleanup_fd int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (info->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (bind(fd, info->ai_addr, info->ai_addrlen) < 0 || listen(fd, LISTEN_BACKLOG) < 0)
		return -errno;
	return take_fd(&fd);
}

static void set_port(struct addrinfo *info, unsigned port)
{
	if (info->ai_family == AF_INET6)
		((struct sockaddr_in6 *)(void *)info->ai_addr)->sin6_port = htons((uint16_t)port);
	else
		((struct sockaddr_in *)(void *)info->ai_addr)->sin_port = htons((uint16_t)port);
}

/*
 * A machine without IPv6 still resolves localhost to ::1; so an address that cannot be had at all
 * is passed over as long as another one can. One that is taken or forbidden is an error.
 */
static int listen_all(struct addrinfo *list, unsigned port, int ret_fds[LISTEN_TCP_MAX])
{
	int count = 0, r = -EADDRNOTAVAIL;

	for (struct addrinfo *i = list; i && count < LISTEN_TCP_MAX; i = i->ai_next) {
		set_port(i, port);
		r = listen_address(i);
		if (r >= 0) {
			ret_fds[count++] = r;
			port = listen_port(r); /* port 0: all addresses share the first's choice */
		} else if (r != -EADDRNOTAVAIL && r != -EAFNOSUPPORT) {
			while (count)
				close(ret_fds[--count]);
			return r;
		}
	}
	return count ? count : r;
}

int listen_tcp(int ret_fds[LISTEN_TCP_MAX], const struct host_port *where, struct err *err)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *list;
	int r;

	r = getaddrinfo(where->host, NULL, &hints, &list);
	if (r != 0)
		return err_set(err, -EADDRNOTAVAIL, ERR_INVALID_REQUEST, "cannot resolve %s: %s",
			       where->host, gai_strerror(r));
	r = listen_all(list, where->port, ret_fds);
	freeaddrinfo(list);
	if (r < 0)
		return err_set(err, r, ERR_CONFLICT, "cannot listen on %s port %u: %s", where->host,
			       where->port, strerror(-r));
	return r;
}
