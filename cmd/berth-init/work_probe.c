/* Waits until somebody accepts connections on a port of the sandbox, or answers a request there. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth-init/clock.h"
#include "cmd/berth-init/ports.h"
#include "cmd/berth-init/work.h"

#define DELAY_FIRST_MS 10
#define DELAY_LAST_MS  250
#define CONNECT_MS     2000
#define ANSWER_MS      10000
#define REST_MS        500
#define REST_MAX       (256 * 1024)
#define STATUS_LEN     12 /* "HTTP/1.1 200" */

/* 1: `events` on the descriptor; 0: nothing in time; -EPIPE: berthd is gone. */
static int await(int fd, short events, uint64_t until_ms)
{
	struct pollfd polls[2] = {{.fd = STDIN_FILENO}, {.fd = fd, .events = events}};

	for (;;) {
		uint64_t now = clock_ms();
		int r = poll(polls, fd < 0 ? 1 : 2, until_ms > now ? (int)(until_ms - now) : 0);

		if (r < 0 && errno != EINTR)
			return -EPIPE;
		if (r > 0 && polls[0].revents)
			return -EPIPE; /* hung up: nothing more is said to us */
		if (r > 0)
			return 1;
		if (r == 0)
			return 0;
	}
}

/* The connection, 0 if there is none now, or -EPIPE. */
static int try_port(uint16_t port)
{
	cleanup_fd int fd = ports_connect(port);
	socklen_t size = sizeof(int);
	int error = 0, r;

	if (fd < 0)
		return 0;
	r = await(fd, POLLOUT, clock_ms() + CONNECT_MS);
	if (r <= 0)
		return r;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 || error)
		return 0;
	return take_fd(&fd);
}

/* From "HTTP/1.1 200"; 0: that is none. */
static unsigned read_status(const char *text)
{
	unsigned status = 0;

	if (memcmp(text, "HTTP/1.", 7) != 0 || text[8] != ' ')
		return 0;
	for (int i = 9; i < STATUS_LEN; i++) {
		if (text[i] < '0' || text[i] > '9')
			return 0;
		status = status * 10 + (unsigned)(text[i] - '0');
	}
	return status;
}

/* The rest of the answer, some of it: a server that is cut off in it complains where people look.
 */
static int skip_rest(int fd, char *room, size_t size)
{
	uint64_t until = clock_ms() + REST_MS;
	size_t have = 0;
	ssize_t n;
	int r;

	do {
		r = await(fd, POLLIN, until);
		n = r == 1 ? recv(fd, room, size, 0) : 0;
		have += n > 0 ? (size_t)n : 0;
	} while (n > 0 && have < REST_MAX);
	return r < 0 ? r : 0;
}

/* The status of the answer, 0 without one, or -EPIPE. */
static int ask(int fd, const char *path, uint16_t port)
{
	uint64_t until = clock_ms() + ANSWER_MS;
	char text[FILE_PATH_MAX + 128];
	int len = snprintf(text, sizeof(text),
			   "GET %s HTTP/1.1\r\nHost: localhost:%u\r\nConnection: close\r\n\r\n",
			   path, port);
	size_t have = 0;
	int status, r;
	ssize_t n = send(fd, text, (size_t)len, MSG_NOSIGNAL);

	/* So little fits into any socket's buffer at once. */
	if (n != len)
		return 0;
	while (have < STATUS_LEN) {
		r = await(fd, POLLIN, until);
		if (r <= 0)
			return r;
		n = recv(fd, text + have, STATUS_LEN - have, 0);
		if (n <= 0)
			return 0;
		have += (size_t)n;
	}
	status = (int)read_status(text);
	r = skip_rest(fd, text, sizeof(text));
	return r < 0 ? r : status;
}

static uint16_t port_of(struct str text)
{
	unsigned port = 0;

	for (size_t i = 0; i < text.len && port <= UINT16_MAX; i++) {
		if (text.at[i] < '0' || text.at[i] > '9')
			return 0;
		port = port * 10 + (unsigned)(text.at[i] - '0');
	}
	return port <= UINT16_MAX ? (uint16_t)port : 0;
}

/* 1: it is as wanted. */
static int try_once(struct work *w, uint16_t port)
{
	cleanup_fd int fd = -1;
	int r = try_port(port);

	if (r <= 0)
		return r;
	fd = r;
	if (!(w->request.flags & FILE_HTTP))
		return 1;
	r = ask(fd, w->path, port);
	if (r < 200 || r > 399)
		return r < 0 ? r : 0;
	w->result.count = (uint64_t)r;
	return 1;
}

int work_probe(struct work *w)
{
	uint16_t port = port_of(w->request.other);
	uint64_t delay = DELAY_FIRST_MS;
	int r;

	if (!port)
		return work_at(w, FILE_AT_REQUEST, -EINVAL);
	for (;;) {
		r = try_once(w, port);
		if (r == 0)
			r = await(-1, 0, clock_ms() + delay);
		else if (r > 0)
			return 0;
		if (r < 0)
			return r;
		delay = delay * 2 < DELAY_LAST_MS ? delay * 2 : DELAY_LAST_MS;
	}
}
