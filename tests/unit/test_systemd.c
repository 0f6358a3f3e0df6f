#include "daemon/systemd.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "base/cleanup.h"
#include "tests/unit/scratch.h"
#include "tests/unit/tap.h"

static int unix_socket(int type, const char *path, bool is_abstract)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	socklen_t len;

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
	if (is_abstract)
		address.sun_path[0] = '\0';
	check(bind(fd, (struct sockaddr *)&address, len) == 0);
	return fd;
}

static void check_received(int fd, const char *expected)
{
	char text[256] = {0};

	check(recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT) > 0);
	check_str(text, expected);
}

static void test_notify(bool is_abstract, const char *name)
{
	char path[128], text[256] = {0};
	unsigned long long usec = 0;
	struct timespec now;
	int fd;

	snprintf(path, sizeof(path), "%.80s/notify-%ld", scratch_dir, (long)getpid());
	if (is_abstract)
		path[0] = '@';
	fd = unix_socket(SOCK_DGRAM, path, is_abstract);
	setenv("NOTIFY_SOCKET", path, 1);
	check(systemd_notify_ready() == 1);
	check_received(fd, "READY=1");
	check(systemd_notify_reloading() == 1);
	check(recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT) > 0);
	check(sscanf(text, "RELOADING=1\nMONOTONIC_USEC=%llu", &usec) == 1);
	clock_gettime(CLOCK_MONOTONIC, &now);
	check(usec / 1000000 <= (unsigned long long)now.tv_sec &&
	      usec / 1000000 + 10 > (unsigned long long)now.tv_sec);
	check(systemd_notify_stopping() == 1);
	check_received(fd, "STOPPING=1");
	close(fd);
	check(systemd_notify_ready() == -ECONNREFUSED);
	tap_ok(name);
}

static void test_no_notify(void)
{
	char path[200];

	unsetenv("NOTIFY_SOCKET");
	check(systemd_notify_ready() == 0);
	setenv("NOTIFY_SOCKET", "", 1);
	check(systemd_notify_ready() == 0);
	setenv("NOTIFY_SOCKET", "vsock:2:1234", 1);
	check(systemd_notify_ready() == -EAFNOSUPPORT);
	setenv("NOTIFY_SOCKET", "/", 1);
	check(systemd_notify_ready() == -EAFNOSUPPORT);
	memset(path, 'x', sizeof(path));
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	setenv("NOTIFY_SOCKET", path, 1);
	check(systemd_notify_ready() == -ENAMETOOLONG);
	unsetenv("NOTIFY_SOCKET");
	tap_ok("without a place to report to nothing is sent");
}

/* File descriptors 3 and on are the protocol's, so each case has a process of its own. */
static void in_child(void (*body)(void), const char *name)
{
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		char text[32];

		close_range(3, ~0u, 0);
		snprintf(text, sizeof(text), "%ld", (long)getpid());
		setenv("LISTEN_PID", text, 1);
		body();
		check(!getenv("LISTEN_PID") && !getenv("LISTEN_FDS") && !getenv("LISTEN_FDNAMES"));
		fflush(stdout);
		_exit(tap_case_failed);
	}
	check(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
	tap_ok(name);
}

static int listening(int domain, const char *path)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int fd;

	if (domain == AF_UNIX) {
		fd = unix_socket(SOCK_STREAM, path, false);
	} else {
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		check(bind(fd, (struct sockaddr *)&any, sizeof(any)) == 0);
	}
	check(listen(fd, 8) == 0);
	check(fcntl(fd, F_SETFD, 0) == 0);
	return fd;
}

static void two_sockets(void)
{
	struct systemd_socket sockets[SYSTEMD_SOCKETS_MAX];
	struct err err = {0};

	check(listening(AF_UNIX, scratch_path("two")) == 3);
	check(listening(AF_INET, NULL) == 4);
	setenv("LISTEN_FDS", "2", 1);
	setenv("LISTEN_FDNAMES", "api:", 1);
	check(systemd_sockets(sockets, &err) == 2);
	check(sockets[0].fd == 3 && sockets[0].is_unix);
	check_str(sockets[0].name, "api");
	check(sockets[1].fd == 4 && !sockets[1].is_unix);
	check_str(sockets[1].name, "unknown");
	check(fcntl(3, F_GETFD) == FD_CLOEXEC && fcntl(4, F_GETFD) == FD_CLOEXEC);
	check(systemd_sockets(sockets, &err) == 0);
}

static void other_process(void)
{
	struct systemd_socket sockets[SYSTEMD_SOCKETS_MAX];
	struct err err = {0};

	check(listening(AF_INET, NULL) == 3);
	setenv("LISTEN_PID", "1", 1);
	setenv("LISTEN_FDS", "1", 1);
	check(systemd_sockets(sockets, &err) == 0);
	check(fcntl(3, F_GETFD) == 0);
}

static void not_open(void)
{
	struct systemd_socket sockets[SYSTEMD_SOCKETS_MAX];
	struct err err = {0};

	check(listening(AF_INET, NULL) == 3);
	setenv("LISTEN_FDS", "2", 1);
	check(systemd_sockets(sockets, &err) == -EBADF);
	check(strstr(err.sentence, "descriptor 4"));
	check(fcntl(3, F_GETFD) == -1);
}

static void not_listening(void)
{
	struct systemd_socket sockets[SYSTEMD_SOCKETS_MAX];
	struct err err = {0};

	check(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) == 3);
	setenv("LISTEN_FDS", "1", 1);
	check(systemd_sockets(sockets, &err) == -EINVAL);
	check(strstr(err.sentence, "not a listening stream socket"));
}

static void not_a_socket(void)
{
	struct systemd_socket sockets[SYSTEMD_SOCKETS_MAX];
	struct err err = {0};

	check(open("/dev/null", O_RDONLY | O_CLOEXEC) == 3);
	setenv("LISTEN_FDS", "1", 1);
	check(systemd_sockets(sockets, &err) == -ENOTSOCK);
	check(strstr(err.sentence, "not a socket"));
}

static void bad_count(void)
{
	static const char *const counts[] = {"", "x", "-1", "17", "1x", "99999999999999999999"};
	struct systemd_socket sockets[SYSTEMD_SOCKETS_MAX];
	struct err err = {0};

	for (size_t i = 0; i < array_len(counts); i++) {
		char text[32];

		snprintf(text, sizeof(text), "%ld", (long)getpid());
		setenv("LISTEN_PID", text, 1);
		setenv("LISTEN_FDS", counts[i], 1);
		check(systemd_sockets(sockets, &err) == -EINVAL);
		check(strstr(err.sentence, "LISTEN_FDS must be"));
	}
}

int main(void)
{
	scratch_make();
	test_notify(false, "notifications arrive");
	test_notify(true, "notifications arrive by an abstract socket");
	test_no_notify();
	in_child(two_sockets, "sockets are taken over, once");
	in_child(other_process, "sockets of another process are left alone");
	in_child(not_open, "a descriptor that is not open is said");
	in_child(not_listening, "a socket that does not listen is said");
	in_child(not_a_socket, "a descriptor that is no socket is said");
	in_child(bad_count, "bad counts are said");
	return tap_done();
}
