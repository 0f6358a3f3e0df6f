/*
 * Pumps bytes through something that sends them back, and says how long it took:
 *
 *	pump echo SOCKET BYTES    POST /echo of the test server on a Unix socket
 *	pump cat BYTES            cat on a Unix socketpair: the floor
 *
 * Both ways run at once on one thread, so that neither side waits for the other in vain.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "base/cleanup.h"

#define BLOCK (256 * 1024)

/* Strips the framing of an answer: its head, then chunk lines. */
struct answer {
	enum { IN_HEAD, IN_SIZE, IN_DATA, IN_DATA_END, IN_BODY, AT_END } at;
	unsigned matched; /* of "\r\n\r\n" */
	uint64_t left;    /* of the chunk */
	uint64_t got;
};

struct pump {
	int fd;
	uint64_t to_send, expected;
	struct answer answer;
	char out[BLOCK], in[BLOCK];
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* One byte of framing. */
static void answer_take(struct answer *a, char c)
{
	if (a->at == IN_HEAD) {
		a->matched = c == "\r\n\r\n"[a->matched] ? a->matched + 1 : c == '\r';
		if (a->matched == 4)
			a->at = IN_SIZE;
	} else if (a->at == IN_SIZE && digit(c) >= 0) {
		a->left = a->left * 16 + (uint64_t)digit(c);
	} else if (a->at == IN_SIZE && c == '\n') {
		a->at = a->left ? IN_DATA : AT_END;
	} else if (a->at == IN_DATA_END && c == '\n') {
		a->at = IN_SIZE;
	}
}

static void answer_feed(struct answer *a, const char *bytes, size_t len)
{
	while (len > 0) {
		size_t step = 1;

		if (a->at == IN_BODY) {
			a->got += step = len;
		} else if (a->at == IN_DATA) {
			step = a->left < len ? a->left : len;
			a->got += step;
			a->left -= step;
			if (a->left == 0)
				a->at = IN_DATA_END;
		} else {
			answer_take(a, *bytes);
		}
		bytes += step;
		len -= step;
	}
}

static int pump_run(struct pump *p)
{
	while (p->answer.got < p->expected) {
		struct pollfd poll_fd = {p->fd, POLLIN | (p->to_send ? POLLOUT : 0), 0};
		ssize_t n;

		if (poll(&poll_fd, 1, 30000) <= 0)
			return -ETIMEDOUT;
		if (poll_fd.revents & POLLOUT) {
			n = write(p->fd, p->out, p->to_send < BLOCK ? p->to_send : BLOCK);
			if (n < 0 && errno != EAGAIN)
				return -errno;
			p->to_send -= n > 0 ? (uint64_t)n : 0;
		}
		if (poll_fd.revents & (POLLIN | POLLHUP)) {
			n = read(p->fd, p->in, BLOCK);
			if (n == 0 || (n < 0 && errno != EAGAIN))
				return n == 0 ? -EPIPE : -errno;
			answer_feed(&p->answer, p->in, n > 0 ? (size_t)n : 0);
		}
	}
	return 0;
}

static int connect_echo(struct pump *p, const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char head[128];
	int len;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path) + 1);
	p->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (p->fd < 0 || connect(p->fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	len = snprintf(head, sizeof(head),
		       "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %" PRIu64 "\r\n\r\n",
		       p->to_send);
	return write(p->fd, head, (size_t)len) == len ? 0 : -EIO;
}

static int connect_cat(struct pump *p)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	if (fork() == 0) {
		dup2(pair[1], 0);
		dup2(pair[1], 1);
		execlp("cat", "cat", NULL);
		_exit(127);
	}
	close(pair[1]);
	p->fd = pair[0];
	p->answer.at = IN_BODY;
	return 0;
}

int main(int argc, char **argv)
{
	cleanup_free struct pump *p = calloc(1, sizeof(*p));
	bool is_echo = argc == 4 && strcmp(argv[1], "echo") == 0;
	bool is_cat = argc == 3 && strcmp(argv[1], "cat") == 0;
	double begun = 0;
	int r;

	if (!p || (!is_echo && !is_cat)) {
		fprintf(stderr, "usage: pump echo SOCKET BYTES | pump cat BYTES\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	p->to_send = p->expected = strtoull(argv[argc - 1], NULL, 10);
	r = is_echo ? connect_echo(p, argv[2]) : connect_cat(p);
	if (r == 0) {
		fcntl(p->fd, F_SETFL, O_NONBLOCK);
		begun = now();
		r = pump_run(p);
	}
	if (r < 0) {
		fprintf(stderr, "pump: %s after %" PRIu64 " bytes\n", strerror(-r), p->answer.got);
		return 1;
	}
	printf("%.6f\n", now() - begun);
	close(p->fd);
	while (wait(NULL) > 0)
		;
	return 0;
}
