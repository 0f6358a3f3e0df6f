#include "daemon/systemd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"

#define FIRST_FD 3 /* as the protocol has it */

/* A plain decimal number; -1 for anything else. */
static long read_number(const char *text)
{
	char *end;
	long value;

	if (!text || text[0] < '0' || text[0] > '9')
		return -1;
	errno = 0;
	value = strtol(text, &end, 10);
	return *end == '\0' && errno == 0 ? value : -1;
}

static int get_option(int fd, int option, int *ret)
{
	socklen_t len = sizeof(*ret);

	return getsockopt(fd, SOL_SOCKET, option, ret, &len);
}

static int check_socket(int fd, struct systemd_socket *ret, struct err *err)
{
	int type, domain, is_listening, flags = fcntl(fd, F_GETFD);

	if (flags < 0 || fcntl(fd, F_SETFD, flags | FD_CLOEXEC) < 0)
		return err_set(err, -errno, ERR_INVALID_REQUEST,
			       "LISTEN_FDS promises file descriptor %d, but it is not open", fd);
	if (get_option(fd, SO_TYPE, &type) < 0 || get_option(fd, SO_DOMAIN, &domain) < 0 ||
	    get_option(fd, SO_ACCEPTCONN, &is_listening) < 0)
		return err_set(err, -errno, ERR_INVALID_REQUEST,
			       "file descriptor %d of LISTEN_FDS is not a socket", fd);
	if (type != SOCK_STREAM || !is_listening ||
	    (domain != AF_UNIX && domain != AF_INET && domain != AF_INET6))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "file descriptor %d of LISTEN_FDS is not a listening stream socket "
			       "(ListenStream=, Accept=no)",
			       fd);
	ret->fd = fd;
	ret->is_unix = domain == AF_UNIX;
	return 0;
}

/* The part of `names` up to the next colon. */
static void take_name(const char **names, struct systemd_socket *ret)
{
	size_t len = *names ? strcspn(*names, ":") : 0;

	if (len > 0)
		snprintf(ret->name, sizeof(ret->name), "%.*s", (int)len, *names);
	else
		snprintf(ret->name, sizeof(ret->name), "unknown");
	if (*names)
		*names = (*names)[len] ? *names + len + 1 : NULL;
}

static int take_sockets(struct systemd_socket *ret, long count, const char *names, struct err *err)
{
	if (count < 0 || count > SYSTEMD_SOCKETS_MAX)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "LISTEN_FDS must be a number up to %d", SYSTEMD_SOCKETS_MAX);
	for (int i = 0; i < count; i++) {
		int r = check_socket(FIRST_FD + i, &ret[i], err);

		if (r < 0) {
			close_range(FIRST_FD, FIRST_FD + (unsigned)count - 1, 0);
			return r;
		}
		take_name(&names, &ret[i]);
	}
	return (int)count;
}

int systemd_sockets(struct systemd_socket ret[SYSTEMD_SOCKETS_MAX], struct err *err)
{
	int r = 0;

	if (getenv("LISTEN_FDS") && read_number(getenv("LISTEN_PID")) == (long)getpid())
		r = take_sockets(ret, read_number(getenv("LISTEN_FDS")), getenv("LISTEN_FDNAMES"),
				 err);
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	return r;
}

static int fill_address(const char *path, struct sockaddr_un *ret, socklen_t *ret_len)
{
	size_t len = strlen(path);

	if ((path[0] != '/' && path[0] != '@') || len < 2)
		return -EAFNOSUPPORT;
	if (len >= sizeof(ret->sun_path))
		return -ENAMETOOLONG;
	memset(ret, 0, sizeof(*ret));
	ret->sun_family = AF_UNIX;
	memcpy(ret->sun_path, path, len);
	*ret_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
	if (path[0] == '@') /* an abstract name: its length counts, there is no NUL at the end */
		ret->sun_path[0] = '\0';
	else
		++*ret_len;
	return 0;
}

static int notify(const char *text)
{
	/* A manager that does not read must not stop us for good. */
	static const struct timeval patience = {.tv_sec = 1};
	const char *path = getenv("NOTIFY_SOCKET");
	cleanup_fd int fd = -1;
	struct sockaddr_un address;
	socklen_t len;
	int r;

	if (!path || !path[0])
		return 0;
	r = fill_address(path, &address, &len);
	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0)
		return -errno;
	if (sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&address, len) < 0)
		return -errno;
	return 1;
}

int systemd_notify_ready(void)
{
	return notify("READY=1");
}

int systemd_notify_reloading(void)
{
	struct timespec now;
	char text[64];

	clock_gettime(CLOCK_MONOTONIC, &now);
	snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%llu",
		 (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000);
	return notify(text);
}

int systemd_notify_stopping(void)
{
	return notify("STOPPING=1");
}
