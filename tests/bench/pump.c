/*
 * Pumps bytes through a Unix socket, and says how many seconds it took and how many came back:
 *
 *	pump echo SOCKET BYTES                 POST /echo of the test server
 *	pump cat BYTES                         cat, which sends them back: the floor of echo
 *	pump get SOCKET METHOD TARGET          the body of an answer
 *	pump put SOCKET METHOD TARGET FILE     a file as the body of a request
 *	pump from PROGRAM...                   what a program writes: the floor of get
 *	pump to FILE PROGRAM...                a file that a program reads: the floor of put
 *
 * Both ways run at once on one thread, so that neither side waits for the other in vain. What has
 * begun ends with a whole answer of a status below 300, or with a program that exits with 0.
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
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "base/cleanup.h"

#define BLOCK    (256 * 1024)
#define HEAD_MAX 4096
#define ENDLESS  UINT64_MAX

/* Strips the framing of an answer: its head, then a body of known size, or chunks. */
struct answer {
	enum { IN_HEAD, IN_SIZE, IN_DATA, IN_DATA_END, IN_BODY, AT_END } at;
	char head[HEAD_MAX];
	size_t head_len;
	uint64_t left; /* of the chunk, or of the body */
	uint64_t got;
};

struct pump {
	int fd;
	pid_t program; /* 0: none */
	const char *out;
	size_t out_size; /* of which all is sent, again and again */
	uint64_t sent, to_send;
	double begun;
	struct answer answer;
	char in[BLOCK];
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

static int answer_begin(struct answer *a)
{
	const char *length;

	a->head[a->head_len] = '\0';
	if (strncmp(a->head, "HTTP/1.1 2", 10) != 0) {
		fprintf(stderr, "pump: %s\n", a->head);
		return -EPROTO;
	}
	length = strcasestr(a->head, "\r\nContent-Length:");
	a->at = length ? IN_BODY : IN_SIZE;
	a->left = length ? strtoull(length + 17, NULL, 10) : 0;
	if (length && !a->left)
		a->at = AT_END;
	return 0;
}

/* One byte of framing. */
static int answer_take(struct answer *a, char c)
{
	if (a->at == IN_HEAD) {
		if (a->head_len + 1 == HEAD_MAX)
			return -E2BIG;
		a->head[a->head_len++] = c;
		if (a->head_len >= 4 && memcmp(a->head + a->head_len - 4, "\r\n\r\n", 4) == 0)
			return answer_begin(a);
	} else if (a->at == IN_SIZE && digit(c) >= 0) {
		a->left = a->left * 16 + (uint64_t)digit(c);
	} else if (a->at == IN_SIZE && c == '\n') {
		a->at = a->left ? IN_DATA : AT_END;
	} else if (a->at == IN_DATA_END && c == '\n') {
		a->at = IN_SIZE;
	}
	return 0;
}

static int answer_feed(struct answer *a, const char *bytes, size_t len)
{
	int r = 0;

	while (len > 0 && r == 0) {
		size_t step = 1;

		if (a->at == IN_BODY || a->at == IN_DATA) {
			step = a->left < len ? a->left : len;
			a->got += step;
			a->left -= a->left == ENDLESS ? 0 : step;
			if (a->left == 0)
				a->at = a->at == IN_BODY ? AT_END : IN_DATA_END;
		} else {
			r = answer_take(a, *bytes);
		}
		bytes += step;
		len -= step;
	}
	return r;
}

static int send_some(struct pump *p)
{
	size_t at = p->sent % p->out_size, size = p->out_size - at;
	ssize_t n;

	if (size > p->to_send - p->sent)
		size = p->to_send - p->sent;
	n = write(p->fd, p->out + at, size < BLOCK ? size : BLOCK);
	if (n < 0 && errno != EAGAIN)
		return -errno;
	p->sent += n > 0 ? (uint64_t)n : 0;
	if (p->sent == p->to_send && p->program)
		shutdown(p->fd, SHUT_WR);
	return 0;
}

static int read_some(struct pump *p)
{
	ssize_t n = read(p->fd, p->in, BLOCK);

	if (n < 0)
		return errno == EAGAIN ? 0 : -errno;
	if (n > 0)
		return answer_feed(&p->answer, p->in, (size_t)n);
	if (!p->program || p->sent < p->to_send)
		return -EPIPE;
	p->answer.at = AT_END;
	return 0;
}

static int pump_run(struct pump *p)
{
	int r = 0, status = 0;

	while (p->answer.at != AT_END && r == 0) {
		bool is_sending = p->sent < p->to_send;
		struct pollfd poll_fd = {p->fd, POLLIN | (is_sending ? POLLOUT : 0), 0};

		if (poll(&poll_fd, 1, 60000) <= 0)
			return -ETIMEDOUT;
		if (poll_fd.revents & POLLOUT)
			r = send_some(p);
		if (r == 0 && poll_fd.revents & (POLLIN | POLLHUP))
			r = read_some(p);
	}
	if (p->program && waitpid(p->program, &status, 0) == p->program && status)
		return -ECHILD;
	return r;
}

static int connect_server(struct pump *p, const char *path, const char *method, const char *target)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char head[HEAD_MAX];
	int len;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path) + 1);
	p->begun = now();
	p->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (p->fd < 0 || connect(p->fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	len = snprintf(head, sizeof(head),
		       "%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: %" PRIu64 "\r\n\r\n", method,
		       target, p->to_send);
	if (len < 0 || (size_t)len >= sizeof(head))
		return -ENAMETOOLONG;
	return write(p->fd, head, (size_t)len) == len ? 0 : -EIO;
}

/* Its input, its output or both are the socket. */
static int connect_program(struct pump *p, char *const argv[])
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	p->begun = now();
	p->program = fork();
	if (p->program == 0) {
		dup2(pair[1], 0);
		dup2(pair[1], 1);
		execvp(argv[0], argv);
		_exit(127);
	}
	close(pair[1]);
	p->fd = pair[0];
	p->answer.at = IN_BODY;
	p->answer.left = ENDLESS;
	if (!p->to_send)
		shutdown(p->fd, SHUT_WR);
	return p->program < 0 ? -EAGAIN : 0;
}

static int send_zeros(struct pump *p, const char *bytes)
{
	static const char zeros[BLOCK];

	p->out = zeros;
	p->out_size = sizeof(zeros);
	p->to_send = strtoull(bytes, NULL, 10);
	return p->to_send ? 0 : -EINVAL;
}

/* Mapped, and in memory before the clock runs. */
static int send_file(struct pump *p, const char *path)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *map;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	p->out = map;
	p->out_size = (size_t)st.st_size;
	p->to_send = (uint64_t)st.st_size;
	return 0;
}

/* -EINVAL: no such order. */
static int pump_connect(struct pump *p, int argc, char **argv)
{
	static char *const cat[] = {"cat", NULL};
	const char *order = argc > 1 ? argv[1] : "";
	int r = -EINVAL;

	if (argc == 4 && strcmp(order, "echo") == 0) {
		r = send_zeros(p, argv[3]);
		return r < 0 ? r : connect_server(p, argv[2], "POST", "/echo");
	}
	if (argc == 3 && strcmp(order, "cat") == 0) {
		r = send_zeros(p, argv[2]);
		return r < 0 ? r : connect_program(p, cat);
	}
	if (argc == 5 && strcmp(order, "get") == 0)
		return connect_server(p, argv[2], argv[3], argv[4]);
	if (argc == 6 && strcmp(order, "put") == 0) {
		r = send_file(p, argv[5]);
		return r < 0 ? r : connect_server(p, argv[2], argv[3], argv[4]);
	}
	if (argc >= 3 && strcmp(order, "from") == 0)
		return connect_program(p, argv + 2);
	if (argc >= 4 && strcmp(order, "to") == 0) {
		r = send_file(p, argv[2]);
		return r < 0 ? r : connect_program(p, argv + 3);
	}
	return r;
}

int main(int argc, char **argv)
{
	cleanup_free struct pump *p = calloc(1, sizeof(*p));
	int r;

	signal(SIGPIPE, SIG_IGN);
	r = p ? pump_connect(p, argc, argv) : -ENOMEM;
	if (r == -EINVAL)
		fprintf(stderr,
			"usage: pump echo SOCKET BYTES | cat BYTES | get SOCKET METHOD TARGET | "
			"put SOCKET METHOD TARGET FILE | from PROGRAM... | "
			"to FILE PROGRAM...\n");
	if (r == 0) {
		fcntl(p->fd, F_SETFL, O_NONBLOCK);
		r = pump_run(p);
	}
	if (r < 0) {
		fprintf(stderr, "pump: %s after %" PRIu64 " bytes\n", strerror(-r),
			p ? p->answer.got : 0);
		return 1;
	}
	printf("%.6f %" PRIu64 "\n", now() - p->begun, p->answer.got);
	close(p->fd);
	return 0;
}
