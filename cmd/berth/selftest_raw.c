#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cmd/berth/selftest.h"

#define PIECE 4096

int selftest_connect(struct selftest *t, struct upgrade *ret)
{
	return upgrade_open(ret, t->haul.globals, "", &t->haul.err);
}

/* 0, -EINTR or -ETIMEDOUT. */
static int wait_for(struct selftest *t, const struct upgrade *u, short events)
{
	struct pollfd fds[] = {
		{.fd = u->fd, .events = events},
		{.fd = t->haul.interrupt_fd, .events = POLLIN},
	};

	if (poll(fds, array_len(fds), SELFTEST_WAIT_MS) == 0)
		return err_set(&t->haul.err, -ETIMEDOUT, ERR_TIMEOUT,
			       "the daemon did not answer in time");
	return fds[1].revents ? -EINTR : 0;
}

int selftest_say(struct selftest *t, struct upgrade *u, struct str bytes)
{
	while (bytes.len) {
		ssize_t n = upgrade_send(u, bytes.at, bytes.len);

		if (n == -EAGAIN) {
			int r = wait_for(t, u, POLLOUT);

			if (r < 0)
				return r;
			continue;
		}
		/* Who refuses the first part need not read the rest. */
		if (n < 0)
			return 0;
		bytes = (struct str){bytes.at + n, bytes.len - (size_t)n};
	}
	return 0;
}

int selftest_hear(struct selftest *t, struct upgrade *u, const char *word, struct buf *ret)
{
	for (;;) {
		char *room = buf_room(ret, PIECE);
		ssize_t n = room ? upgrade_recv(u, room, PIECE) : -ENOMEM;

		if (n == -ENOMEM)
			return haul_fail(&t->haul, -ENOMEM, "the daemon says too much");
		if (n == -EAGAIN) {
			int r = wait_for(t, u, POLLIN);

			if (r < 0)
				return r;
			continue;
		}
		if (n > 0)
			buf_added(ret, (size_t)n);
		if (buf_len(ret) && memmem(buf_at(ret), buf_len(ret), word, strlen(word)))
			return 1;
		if (n <= 0)
			return 0;
	}
}

int selftest_begin(struct selftest *t, enum box box, const char *const *words, struct upgrade *ret)
{
	const char *argv[8] = {SELFTEST_PROBE};
	struct selftest_exec exec = {0};
	cleanup(buf_close) struct buf body, request;
	int r;

	for (size_t i = 0; words[i] && i + 2 < array_len(argv); i++)
		argv[i + 1] = words[i];
	buf_init(&body, REMOTE_TARGET_MAX);
	buf_init(&request, 2 * REMOTE_TARGET_MAX);
	r = selftest_exec_body(argv, &exec, &body);
	if (r == 0)
		r = selftest_connect(t, ret);
	if (r < 0)
		return r;
	r = buf_printf(&request,
		       "POST %s/v1/sandbox/%s/exec HTTP/1.1\r\nHost: %s\r\n%s%s%s"
		       "Accept: text/event-stream\r\nContent-Length: %zu\r\n\r\n%.*s",
		       ret->path, t->boxes[box].id, ret->host,
		       ret->token ? "Authorization: Bearer " : "", ret->token ? ret->token : "",
		       ret->token ? "\r\n" : "", buf_len(&body), (int)buf_len(&body),
		       buf_at(&body));
	if (r == 0)
		r = selftest_say(t, ret, (struct str){buf_at(&request), buf_len(&request)});
	if (r < 0)
		upgrade_close(ret);
	return r;
}
