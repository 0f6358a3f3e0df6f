#include "cmd/berth/tunnel.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "cmd/berth/sandbox.h"
#include "cmd/berth/screen.h"
#include "cmd/berth/upgrade.h"

#define JOINTS_MAX  256
#define WAITING_MAX (64 * 1024) /* bytes in one direction of one of them */
#define LINGER_MS   2000        /* that a local program has to close, once it has all */
#define PAUSE_MS    100         /* before the next try, when there were no descriptors left */

/* A connection here, and one inside that is at its other end. */
struct joint {
	struct list link;
	int fd;
	struct upgrade line;
	struct buf in, out; /* on their way inside, and back */
	int64_t due_ms;     /* of the answer, and then of the local end; 0: none */
	bool is_open;       /* the answer was 101 */
	bool is_in_over, is_in_told, is_in_deaf;
	bool is_out_over, is_out_told, is_out_deaf;
	bool has_more; /* something is there that no poll tells of */
};

struct tunnel {
	const struct globals *globals;
	char path[SANDBOX_PATH_MAX];
	int listener;
	struct list joints;
	unsigned joints_len;
	int64_t accepts_at_ms; /* not before: whoever waits would be told of again and again */
	struct err last; /* what was complained about, so that it is not said again and again */
};

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void joint_free(struct tunnel *t, struct joint *j)
{
	list_remove(&j->link);
	t->joints_len--;
	t->accepts_at_ms = 0; /* there is room again */
	upgrade_close(&j->line);
	close(j->fd);
	buf_close(&j->in);
	buf_close(&j->out);
	free(j);
}

/* --- a new one --- */

static void complain(struct tunnel *t, const struct err *err)
{
	if (t->last.code != ERR_NONE && strcmp(t->last.sentence, err->sentence) == 0)
		return;
	t->last = *err;
	screen_error("%s", err->sentence);
}

static void take_connection(struct tunnel *t)
{
	cleanup_fd int fd = accept4(t->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct joint *j = fd < 0 ? NULL : calloc(1, sizeof(*j));
	struct err err;
	int yes = 1;

	if (!j) {
		/* It has gone again, or there is no room: it stays in the queue. */
		t->accepts_at_ms = now_ms() + PAUSE_MS;
		return;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	if (upgrade_open(&j->line, t->globals, t->path, &err) < 0 ||
	    upgrade_ask(&j->line, "Upgrade: tcp\r\n", &err) < 0) {
		complain(t, &err);
		upgrade_close(&j->line);
		free(j);
		return;
	}
	j->fd = take_fd(&fd);
	j->due_ms = now_ms() + UPGRADE_ANSWER_MS;
	buf_init(&j->in, WAITING_MAX);
	buf_init(&j->out, WAITING_MAX);
	list_init(&j->link);
	list_append(&t->joints, &j->link);
	t->joints_len++;
}

/* False: it is no more. */
static bool greet(struct tunnel *t, struct joint *j)
{
	struct err err;
	int r = upgrade_answered(&j->line, &err);

	if (r == 1 && now_ms() < j->due_ms)
		return true;
	if (r == 1)
		r = err_set(&err, -ETIMEDOUT, ERR_TIMEOUT, "the daemon did not answer in time");
	if (r < 0) {
		complain(t, &err);
		joint_free(t, j);
		return false;
	}
	upgrade_begin(&j->line);
	j->is_open = j->has_more = true;
	j->due_ms = 0;
	t->last.code = ERR_NONE;
	return true;
}

/* --- bytes --- */

static size_t room_in(const struct buf *buf)
{
	return WAITING_MAX - buf_len(buf);
}

static ssize_t recv_local(struct joint *j, void *bytes, size_t len)
{
	ssize_t n = recv(j->fd, bytes, len, MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? -EAGAIN : -EPIPE;
	return n;
}

static ssize_t send_local(struct joint *j, const void *bytes, size_t len)
{
	ssize_t n = send(j->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? -EAGAIN : -EPIPE;
	return n;
}

static void drop(struct buf *buf)
{
	buf_consume(buf, buf_len(buf));
}

static void move_in(struct joint *j)
{
	ssize_t n = 1;
	char *room;

	while (n > 0 && !j->is_in_over && room_in(&j->in) &&
	       (room = buf_room(&j->in, room_in(&j->in)))) {
		n = recv_local(j, room, room_in(&j->in));
		if (n > 0)
			buf_added(&j->in, (size_t)n);
		j->is_in_over = n == 0 || n == -EPIPE;
	}
	n = 1;
	while (n > 0 && buf_len(&j->in) && !j->is_in_deaf) {
		n = upgrade_send(&j->line, buf_at(&j->in), buf_len(&j->in));
		if (n > 0)
			buf_consume(&j->in, (size_t)n);
		j->is_in_deaf = n == -EPIPE;
	}
	if (j->is_in_deaf)
		drop(&j->in);
	if (j->is_in_over && !buf_len(&j->in) && !j->is_in_told) {
		j->is_in_told = true;
		shutdown(j->line.fd, SHUT_WR);
	}
}

static void move_out(struct joint *j)
{
	ssize_t n = 1;
	char *room;

	while (n > 0 && !j->is_out_over && room_in(&j->out) &&
	       (room = buf_room(&j->out, room_in(&j->out)))) {
		n = upgrade_recv(&j->line, room, room_in(&j->out));
		if (n > 0)
			buf_added(&j->out, (size_t)n);
		j->is_out_over = n == 0 || n == -EPIPE;
	}
	j->has_more = n > 0 && !j->is_out_over;
	n = 1;
	while (n > 0 && buf_len(&j->out) && !j->is_out_deaf) {
		n = send_local(j, buf_at(&j->out), buf_len(&j->out));
		if (n > 0)
			buf_consume(&j->out, (size_t)n);
		j->is_out_deaf = n == -EPIPE;
	}
	if (j->is_out_deaf)
		drop(&j->out);
	if (j->is_out_over && !buf_len(&j->out) && !j->is_out_told) {
		j->is_out_told = true;
		j->due_ms = now_ms() + LINGER_MS;
		shutdown(j->fd, SHUT_WR);
	}
}

/* The server's end is the end of both; what is still sent to it goes nowhere. */
static bool is_done(const struct joint *j)
{
	if (j->is_out_told)
		return j->is_in_over || now_ms() >= j->due_ms;
	/* Who is gone here, and has sent all. */
	return j->is_out_deaf && j->is_in_over && !buf_len(&j->in);
}

static void work(struct tunnel *t, struct joint *j)
{
	if (!j->is_open && !greet(t, j))
		return;
	if (!j->is_open)
		return;
	move_out(j);
	move_in(j);
	j->is_in_deaf = j->is_in_deaf || j->is_out_over;
	if (is_done(j))
		joint_free(t, j);
}

/* --- the loop --- */

struct polls {
	struct pollfd fds[2 + 2 * JOINTS_MAX];
	nfds_t len;
	int timeout_ms;
};

static void await_until(struct polls *p, int64_t due_ms)
{
	int64_t left = due_ms - now_ms();

	left = left < 0 ? 0 : left;
	if (p->timeout_ms < 0 || left < p->timeout_ms)
		p->timeout_ms = (int)left;
}

static void add_joint(struct polls *p, const struct joint *j)
{
	short local = 0, inside = 0;

	if (!j->is_open) {
		inside = POLLIN;
	} else {
		if (!j->is_in_over && room_in(&j->in))
			local |= POLLIN;
		if (buf_len(&j->out))
			local |= POLLOUT;
		if (!j->is_out_over && room_in(&j->out))
			inside |= POLLIN;
		if (buf_len(&j->in))
			inside |= POLLOUT;
		if (j->has_more && room_in(&j->out))
			p->timeout_ms = 0;
	}
	if (j->due_ms)
		await_until(p, j->due_ms);
	/* Without a wish it would still tell of errors, again and again. */
	p->fds[p->len++] = (struct pollfd){local ? j->fd : -1, local, 0};
	p->fds[p->len++] = (struct pollfd){inside ? j->line.fd : -1, inside, 0};
}

static int turn(struct tunnel *t, struct polls *p, int until_fd, struct err *err)
{
	bool has_room = t->joints_len < JOINTS_MAX, is_pausing = now_ms() < t->accepts_at_ms;

	p->len = 2;
	p->timeout_ms = -1;
	p->fds[0] = (struct pollfd){until_fd, POLLIN, 0};
	p->fds[1] = (struct pollfd){has_room && !is_pausing ? t->listener : -1, POLLIN, 0};
	if (is_pausing)
		await_until(p, t->accepts_at_ms);
	list_for_each (node, &t->joints)
		add_joint(p, list_entry(node, struct joint, link));
	if (poll(p->fds, p->len, p->timeout_ms) < 0 && errno != EINTR)
		return err_set(err, -errno, ERR_INTERNAL, "cannot wait: %s", strerror(errno));
	if (p->fds[0].revents)
		return -EINTR;
	list_for_each_safe (node, &t->joints)
		work(t, list_entry(node, struct joint, link));
	if (p->fds[1].revents)
		take_connection(t);
	return 0;
}

int tunnel_serve(struct tunnel *t, int until_fd, struct err *err)
{
	struct polls polls;
	int r = 0;

	while (r == 0)
		r = turn(t, &polls, until_fd, err);
	return r;
}

/* --- the beginning, and the end --- */

static int listen_on(struct tunnel *t, uint16_t *port, struct err *err)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(*port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t size = sizeof(address);
	int yes = 1;

	t->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (t->listener >= 0)
		setsockopt(t->listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (t->listener < 0 || bind(t->listener, (struct sockaddr *)&address, size) < 0 ||
	    listen(t->listener, SOMAXCONN) < 0 ||
	    getsockname(t->listener, (struct sockaddr *)&address, &size) < 0) {
		if (errno == EADDRINUSE && *port)
			return err_set(err, -EADDRINUSE, ERR_CONFLICT,
				       "port %u of this machine is taken: choose another with "
				       "PORT:LOCAL, or PORT:0 for any that is free",
				       *port);
		return err_set(err, -errno, ERR_INTERNAL, "cannot listen on 127.0.0.1:%u: %s",
			       *port, strerror(errno));
	}
	*port = ntohs(address.sin_port);
	return 0;
}

int tunnel_new(struct tunnel **ret, const struct globals *globals, struct tunnel_ends *ends,
	       struct err *err)
{
	struct tunnel *t = calloc(1, sizeof(*t));
	char suffix[32];
	int r;

	if (!t)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	t->globals = globals;
	t->listener = -1;
	list_init(&t->joints);
	snprintf(suffix, sizeof(suffix), "/connect/%u", ends->port);
	r = sandbox_path(ends->id, suffix, t->path, err);
	if (r == 0)
		r = listen_on(t, &ends->local, err);
	if (r < 0)
		tunnel_free(t);
	else
		*ret = t;
	return r;
}

void tunnel_free(struct tunnel *t)
{
	while (!list_is_empty(&t->joints))
		joint_free(t, list_entry(t->joints.next, struct joint, link));
	if (t->listener >= 0)
		close(t->listener);
	free(t);
}
