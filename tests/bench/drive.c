/*
 * Takes orders on stdin, does what they say and answers with how long each took:
 *
 *	drive [SOCKET]
 *
 *	run   AT_ONCE TOTAL WORD...                        starts a program and waits for its end
 *	http  AT_ONCE TOTAL METHOD PATH WANTED [BODY [HEADER]]  a request; connections stay open
 *
 * One order is one line, its fields stand between tabs. A "*" in a word, a path or a body becomes
 * the number of the repetition. The answer is one line too: microseconds for all of it, how many
 * were wrong (a status that is not 0, an answer without WANTED in it), and the microseconds of
 * each. What was wrong is said on stderr. The clock is read here and nowhere else, so whoever gives
 * the orders may be slow.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"

#define AT_ONCE_MAX 256
#define TOTAL_MAX   100000
#define WORDS_MAX   64
#define WORD_MAX    4096
#define ANSWER_MAX  8192
#define TIMEOUT_MS  120000

struct client {
	int fd; /* -1: not connected */
	uint64_t begun;
	size_t len;
	char in[ANSWER_MAX + 1];
};

struct order {
	unsigned at_once, total;
	char *words[WORDS_MAX + 1];
	unsigned words_len;

	unsigned begun, ended, wrong;
	uint64_t took_ns[TOTAL_MAX];
};

struct drive {
	const char *socket;
	struct client clients[AT_ONCE_MAX];
	struct order order;
};

extern char **environ;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* `word` with each "*" as the number. */
static void number_word(char ret[WORD_MAX], const char *word, unsigned number)
{
	size_t n = 0;

	for (; *word && n < WORD_MAX - 16; word++) {
		if (*word == '*')
			n += (size_t)snprintf(ret + n, WORD_MAX - n, "%u", number);
		else
			ret[n++] = *word;
	}
	ret[n] = '\0';
}

static void order_end(struct order *o, uint64_t begun_ns, bool is_right)
{
	o->took_ns[o->ended++] = now_ns() - begun_ns;
	o->wrong += !is_right;
}

/* --- programs --- */

struct child {
	pid_t pid; /* 0: none */
	uint64_t begun;
};

static int child_start(struct child *c, struct order *o)
{
	static char texts[WORDS_MAX][WORD_MAX];
	char *argv[WORDS_MAX + 1];
	posix_spawn_file_actions_t actions;
	int r;

	for (unsigned i = 0; i < o->words_len; i++) {
		number_word(texts[i], o->words[i], o->begun);
		argv[i] = texts[i];
	}
	argv[o->words_len] = NULL;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	o->begun++;
	c->begun = now_ns();
	/* It is a vfork: the cheapest way to a process there is. */
	r = -posix_spawnp(&c->pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	return r;
}

static struct child *child_of(struct child *children, pid_t pid)
{
	for (unsigned i = 0; i < AT_ONCE_MAX; i++)
		if (children[i].pid == pid)
			return &children[i];
	return NULL;
}

static int order_run(struct order *o)
{
	static struct child children[AT_ONCE_MAX];
	int r = 0, status;

	memset(children, 0, sizeof(children));
	for (unsigned i = 0; i < o->at_once && r == 0; i++)
		r = child_start(&children[i], o);
	while (r == 0 && o->ended < o->total) {
		pid_t pid = waitpid(-1, &status, 0);
		struct child *c = pid > 0 ? child_of(children, pid) : NULL;

		if (pid < 0)
			r = -errno;
		/* Others are what those left behind: they are ours to reap, not to measure. */
		if (!c)
			continue;
		order_end(o, c->begun, status == 0);
		c->pid = 0;
		if (o->begun < o->total)
			r = child_start(c, o);
	}
	return r;
}

/* --- requests --- */

static int client_open(struct client *c, const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	static const char health[] = "GET /health HTTP/1.1\r\nHost: x\r\n\r\n";
	char answer[1024];

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path) + 1);
	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	/* So that it has been accepted when the first order comes. */
	if (write(c->fd, health, sizeof(health) - 1) < 0 ||
	    read(c->fd, answer, sizeof(answer)) <= 0)
		return -EPIPE;
	return 0;
}

/* The server closes a connection that has been idle for long. */
static int client_refresh(struct client *c, const char *path)
{
	struct pollfd idle = {.fd = c->fd, .events = POLLIN};

	if (c->fd >= 0 && poll(&idle, 1, 0) == 0)
		return 0;
	if (c->fd >= 0)
		close(c->fd);
	return client_open(c, path);
}

static int client_send(struct client *c, struct order *o)
{
	char path[WORD_MAX], body[WORD_MAX] = "", text[3 * WORD_MAX];
	const char *header = o->words_len > 4 ? o->words[4] : "X: y";
	int len;

	number_word(path, o->words[1], o->begun);
	if (o->words_len > 3)
		number_word(body, o->words[3], o->begun);
	len = snprintf(text, sizeof(text),
		       "%s %s HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n%s\r\n"
		       "Content-Length: %zu\r\n\r\n%s",
		       o->words[0], path, header, strlen(body), body);
	o->begun++;
	c->len = 0;
	c->begun = now_ns();
	return write(c->fd, text, (size_t)len) == len ? 0 : -EPIPE;
}

static bool is_whole(const char *answer, size_t len)
{
	const char *end = strstr(answer, "\r\n\r\n");
	const char *length = strcasestr(answer, "\r\nContent-Length:");
	size_t body = length && end && length < end ? strtoul(length + 17, NULL, 10) : 0;

	return end && len >= (size_t)(end + 4 - answer) + body;
}

/* 0 as long as there is more to come, 1 after the whole answer. */
static int client_read(struct client *c)
{
	ssize_t n = read(c->fd, c->in + c->len, ANSWER_MAX - c->len);

	if (n <= 0)
		return n == 0 ? -EPIPE : -errno;
	c->len += (size_t)n;
	c->in[c->len] = '\0';
	return is_whole(c->in, c->len);
}

static int client_step(struct client *c, struct order *o)
{
	bool is_right;
	int r = client_read(c);

	if (r <= 0)
		return r;
	is_right = strstr(c->in, o->words[2]) != NULL;
	order_end(o, c->begun, is_right);
	if (!is_right)
		fprintf(stderr, "wrong answer: %s\n", c->in);
	return o->begun < o->total ? client_send(c, o) : 0;
}

static int order_http(struct order *o, struct client *clients)
{
	struct pollfd fds[AT_ONCE_MAX];
	int r = 0;

	for (unsigned i = 0; i < o->at_once; i++)
		fds[i] = (struct pollfd){clients[i].fd, POLLIN, 0};
	for (unsigned i = 0; i < o->at_once && r == 0; i++)
		r = client_send(&clients[i], o);
	while (r == 0 && o->ended < o->total) {
		if (poll(fds, o->at_once, TIMEOUT_MS) <= 0)
			return -ETIMEDOUT;
		for (unsigned i = 0; i < o->at_once && r == 0; i++)
			if (fds[i].revents)
				r = client_step(&clients[i], o);
	}
	return r;
}

/* --- orders --- */

static int order_parse(struct order *o, char *line, bool *ret_is_http)
{
	char *kind = strsep(&line, "\t"), *at_once = strsep(&line, "\t");
	char *total = strsep(&line, "\t");
	char *word;

	o->words_len = o->begun = o->ended = o->wrong = 0;
	if (!total)
		return -EINVAL;
	o->at_once = (unsigned)strtoul(at_once, NULL, 10);
	o->total = (unsigned)strtoul(total, NULL, 10);
	while ((word = strsep(&line, "\t")) && o->words_len < WORDS_MAX)
		o->words[o->words_len++] = word;
	*ret_is_http = strcmp(kind, "http") == 0;
	if (o->at_once < 1 || o->at_once > AT_ONCE_MAX || o->total < o->at_once ||
	    o->total > TOTAL_MAX || o->words_len < (*ret_is_http ? 3 : 1))
		return -EINVAL;
	return 0;
}

static int obey(struct drive *d, char *line)
{
	struct order *o = &d->order;
	uint64_t begun, elapsed;
	bool is_http = false;
	int r = order_parse(o, line, &is_http);

	if (r == 0 && is_http && !d->socket)
		r = -ENOTCONN;
	for (unsigned i = 0; is_http && i < o->at_once && r == 0; i++)
		r = client_refresh(&d->clients[i], d->socket);
	begun = now_ns();
	if (r == 0)
		r = is_http ? order_http(o, d->clients) : order_run(o);
	elapsed = now_ns() - begun;
	if (r < 0)
		return r;
	printf("%.1f %u", (double)elapsed / 1e3, o->wrong);
	for (unsigned i = 0; i < o->ended; i++)
		printf(" %.1f", (double)o->took_ns[i] / 1e3);
	putchar('\n');
	return fflush(stdout) == 0 ? 0 : -errno;
}

int main(int argc, char **argv)
{
	cleanup_free struct drive *d = calloc(1, sizeof(*d));
	cleanup_free char *line = NULL;
	size_t size = 0;
	ssize_t len;
	int r = 0;

	if (!d || argc > 2) {
		fprintf(stderr, "usage: drive [SOCKET]\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	/* What a program left behind is reaped here, not by a first process that may not care. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	d->socket = argv[1];
	for (unsigned i = 0; i < AT_ONCE_MAX; i++)
		d->clients[i].fd = -1;
	while (r == 0 && (len = getline(&line, &size, stdin)) > 0) {
		line[strcspn(line, "\n")] = '\0';
		r = obey(d, line);
	}
	if (r < 0)
		fprintf(stderr, "drive: %s\n", strerror(-r));
	return r < 0;
}
