#include "daemon/upstream.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "daemon/port.h"
#include "daemon/port_connect.h"
#include "daemon/registry.h"

#define READ_SIZE      (64 * 1024)
#define READS_PER_TURN 4   /* so that one flood does not starve the others */
#define READS_LAST     128 /* more than a socket holds */

struct upstream {
	struct list link; /* sandbox's */
	struct list idle; /* port's, while it is kept */
	struct sandbox *sb;
	struct port *port; /* NULL: it is not kept */
	uint16_t number;
	const struct upstream_ops *ops; /* NULL: it is kept, or closed */
	void *arg;

	struct port_connect connect;
	int fd; /* -1: none yet, or closed */
	uv_poll_t poll;
	int watched;      /* events of it */
	uv_timer_t timer; /* until it is connected, and while it is kept */
	unsigned handles; /* open ones of both */
	uint64_t kept_ms; /* since when, by the loop's clock */
	struct buf unsent;
	int error; /* what it broke of, if that is not for reading to find out */
	bool is_connected;
	bool is_asking_again; /* as soon as the poll handle is free */
	bool is_second;       /* it was refused late, and asked for again */
	bool is_paused;
	bool is_full;   /* its writer waits for room */
	bool is_behind; /* and knows that not all is out */
	bool is_ended;  /* nothing more comes */
	bool is_broken; /* nothing more goes */
	bool is_shut;   /* nothing more will be written */
	bool is_closed;
};

static void on_poll(uv_poll_t *poll, int status, int events);
static void on_timer(uv_timer_t *timer);

static uv_loop_t *loop_of(const struct upstream *u)
{
	return u->timer.loop;
}

/* --- its end --- */

static void release(struct upstream *u)
{
	if (--u->handles == 0)
		free(u);
}

static void ask_again(struct upstream *u);

static void on_poll_closed(uv_handle_t *handle)
{
	struct upstream *u = container_of((uv_poll_t *)handle, struct upstream, poll);

	if (u->is_asking_again)
		ask_again(u);
	release(u);
}

static void on_timer_closed(uv_handle_t *handle)
{
	release(container_of((uv_timer_t *)handle, struct upstream, timer));
}

static void unkeep(struct upstream *u)
{
	if (list_is_empty(&u->idle))
		return;
	list_remove(&u->idle);
	u->port->idle_len--;
	ports_kept(u->sb)->len--;
}

/* The handle goes before the number has another owner. */
static void drop_socket(struct upstream *u)
{
	if (u->fd < 0)
		return;
	uv_close((uv_handle_t *)&u->poll, on_poll_closed);
	port_connect_close(take_fd(&u->fd));
}

void upstream_close(struct upstream *u)
{
	u->is_closed = true;
	u->is_asking_again = false;
	u->ops = NULL;
	unkeep(u);
	list_remove(&u->link);
	port_connect_cancel(&u->connect);
	drop_socket(u);
	uv_close((uv_handle_t *)&u->timer, on_timer_closed);
	buf_close(&u->unsent);
}

/* --- what is waited for --- */

static void watch(struct upstream *u)
{
	int events = 0;

	if (u->fd < 0)
		return;
	if (u->is_connected && !u->is_paused && !u->is_ended)
		events |= UV_READABLE;
	if (!u->is_connected || buf_len(&u->unsent))
		events |= UV_WRITABLE;
	if (events == u->watched)
		return;
	u->watched = events;
	uv_poll_start(&u->poll, events, on_poll); /* none: it stops */
}

/* --- writing --- */

/* EPIPE says nothing against what it has sent before: its end will be found behind that. */
static void break_off(struct upstream *u, int error)
{
	u->is_broken = true;
	if (!u->error && error != EPIPE)
		u->error = -error;
	buf_close(&u->unsent);
}

/* Once it is lost, what is left of it outlives its sandbox. */
static bool has_sandbox(const struct upstream *u)
{
	return !list_is_empty(&u->link);
}

/* How much the socket took. */
static size_t send_now(struct upstream *u, const uv_buf_t *parts, unsigned count)
{
	struct msghdr message = {
		.msg_iov = (struct iovec *)parts, /* libuv promises that */
		.msg_iovlen = count < IOV_MAX ? count : IOV_MAX,
	};
	ssize_t n = sendmsg(u->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0 && errno != EAGAIN && errno != EINTR && errno != ENOBUFS)
		break_off(u, errno); /* reading comes to that, too, and tells it */
	if (n > 0 && has_sandbox(u))
		u->sb->usage.rx_bytes += (uint64_t)n;
	return n > 0 ? (size_t)n : 0;
}

static void shut_if_due(struct upstream *u)
{
	if (u->is_shut && u->is_connected && !u->is_broken && !buf_len(&u->unsent))
		shutdown(u->fd, SHUT_WR);
}

static void flush(struct upstream *u)
{
	uv_buf_t all = uv_buf_init((char *)buf_at(&u->unsent), (unsigned)buf_len(&u->unsent));

	if (all.len) {
		size_t sent = send_now(u, &all, 1);

		buf_consume(&u->unsent, u->is_broken ? 0 : sent);
	}
	if (!buf_len(&u->unsent))
		buf_close(&u->unsent); /* one that is kept holds no memory for it */
	shut_if_due(u);
}

static void tell_room(struct upstream *u)
{
	if (!u->is_full || buf_len(&u->unsent) >= UPSTREAM_WRITE_LOW)
		return;
	u->is_full = false;
	if (u->ops && u->ops->room)
		u->ops->room(u->arg);
}

static void tell_sent(struct upstream *u)
{
	tell_room(u);
	if (!u->is_behind || buf_len(&u->unsent))
		return;
	u->is_behind = false;
	if (u->ops && u->ops->sent)
		u->ops->sent(u->arg);
}

size_t upstream_write(struct upstream *u, const uv_buf_t *parts, unsigned count)
{
	size_t sent = 0;

	if (u->is_broken)
		return 0;
	if (u->is_connected && !buf_len(&u->unsent))
		sent = send_now(u, parts, count);
	for (unsigned i = 0; i < count && !u->is_broken; i++) {
		size_t skip = sent < parts[i].len ? sent : parts[i].len;

		sent -= skip;
		if (buf_append(&u->unsent, parts[i].base + skip, parts[i].len - skip) < 0) {
			break_off(u, ENOBUFS);
			if (u->fd >= 0)
				shutdown(u->fd, SHUT_RDWR); /* so that its owner hears of it */
		}
	}
	u->is_full = u->is_full || buf_len(&u->unsent) >= UPSTREAM_WRITE_HIGH;
	u->is_behind = buf_len(&u->unsent) > 0;
	watch(u);
	return buf_len(&u->unsent);
}

void upstream_shutdown(struct upstream *u)
{
	u->is_shut = true;
	shut_if_due(u);
}

/* --- reading --- */

static void end(struct upstream *u, int status)
{
	u->is_ended = true;
	if (status < 0)
		break_off(u, -status);
	watch(u);
	if (u->ops)
		u->ops->end(u->arg, status);
	else
		upstream_close(u); /* kept, but not by its server */
}

/* How much came; 0: nothing more is there now. */
static size_t read_once(struct upstream *u)
{
	char bytes[READ_SIZE];
	ssize_t n = recv(u->fd, bytes, sizeof(bytes), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n > 0 && has_sandbox(u))
		u->sb->usage.tx_bytes += (uint64_t)n;
	if (n <= 0)
		end(u, n < 0 ? -errno : u->error);
	else if (u->ops)
		u->ops->data(u->arg, bytes, (size_t)n);
	else
		upstream_close(u); /* nobody has asked */
	return n > 0 ? (size_t)n : 0;
}

static bool is_reading(const struct upstream *u)
{
	return !u->is_closed && !u->is_paused && !u->is_ended;
}

/* What did not fill the room was all: another call would only say so. */
static void read_some(struct upstream *u)
{
	size_t n = READ_SIZE;

	for (int i = 0; i < READS_PER_TURN && n == READ_SIZE && is_reading(u); i++)
		n = read_once(u);
}

/* Of one that nothing more comes from. */
static void read_rest(struct upstream *u)
{
	size_t n = 1;

	for (int i = 0; i < READS_LAST && n && is_reading(u); i++)
		n = read_once(u);
}

void upstream_pause(struct upstream *u)
{
	u->is_paused = true;
	watch(u);
}

void upstream_resume(struct upstream *u)
{
	u->is_paused = false;
	watch(u);
}

/* --- connecting --- */

static void fail(struct upstream *u, int error)
{
	const struct upstream_ops *ops = take(u->ops);

	u->is_asking_again = false;
	uv_timer_stop(&u->timer);
	port_connect_cancel(&u->connect);
	drop_socket(u);
	break_off(u, -error);
	ops->connected(u->arg, error);
}

static void connected(struct upstream *u)
{
	u->is_connected = true;
	uv_timer_stop(&u->timer);
	flush(u);
	watch(u);
	u->ops->connected(u->arg, 0);
	tell_sent(u);
}

/* It was on its way when init handed it out, so nobody was asked at ::1. */
static void ask_again(struct upstream *u)
{
	u->is_asking_again = false;
	if (port_connect(u->sb, &u->connect, u->number) < 0)
		fail(u, -ECONNREFUSED);
}

static void on_connecting(struct upstream *u)
{
	socklen_t size = sizeof(int);
	int error = 0;

	if (getsockopt(u->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
		error = errno;
	if (!error) {
		connected(u);
	} else if (error == ECONNREFUSED && !u->is_second) {
		u->is_second = u->is_asking_again = true;
		drop_socket(u);
	} else {
		fail(u, -error);
	}
}

static bool is_established(int fd)
{
	struct sockaddr_storage peer;
	socklen_t size = sizeof(peer);

	return getpeername(fd, (struct sockaddr *)&peer, &size) == 0;
}

static void on_socket(struct port_connect *c, int result, const struct port_listening *listening)
{
	struct upstream *u = container_of(c, struct upstream, connect);
	int r = result < 0 ? result : u->error;

	if (r == 0)
		r = uv_poll_init(loop_of(u), &u->poll, result);
	if (r < 0) {
		if (result >= 0)
			port_connect_close(result);
		fail(u, r);
		return;
	}
	u->fd = result;
	u->watched = 0;
	u->handles++;
	if (is_established(u->fd))
		connected(u);
	else
		watch(u);
}

/* --- events --- */

/* The poll has stopped. What came before it broke is still to be read. */
static void on_error(struct upstream *u)
{
	socklen_t size = sizeof(int);
	int error = 0;

	u->watched = 0;
	if (!u->is_connected)
		return; /* that is an answer */
	if (getsockopt(u->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
		error = errno;
	/* None: somebody inside plays with it, and it would be so for ever. */
	if (error) {
		break_off(u, error);
		return;
	}
	/* A write that failed a moment ago has taken the error with it; what the server said before
	 * it closed is still there. */
	if (u->is_broken)
		read_rest(u);
	break_off(u, EPROTO);
	if (!u->is_closed && !u->is_ended && !u->is_paused)
		end(u, u->error);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct upstream *u = container_of(poll, struct upstream, poll);

	if (status < 0) {
		events = UV_READABLE | UV_WRITABLE;
		on_error(u);
	}
	if (u->is_closed)
		return;
	if (!u->is_connected) {
		on_connecting(u);
		return;
	}
	if (events & UV_WRITABLE) {
		flush(u);
		tell_sent(u);
	}
	if (events & UV_READABLE)
		read_some(u);
	if (!u->is_closed)
		watch(u);
}

/* It is not set anew for each time that it is kept: it finds out when it fires. */
static void on_timer(uv_timer_t *timer)
{
	struct upstream *u = container_of(timer, struct upstream, timer);
	uint64_t rested = uv_now(timer->loop) - u->kept_ms;

	if (!u->is_connected)
		fail(u, -ETIMEDOUT);
	else if (list_is_empty(&u->idle))
		return;
	else if (rested >= UPSTREAM_IDLE_MS)
		upstream_close(u);
	else
		uv_timer_start(timer, on_timer, UPSTREAM_IDLE_MS - rested, 0);
}

/* --- opening and keeping --- */

/* What has come since its last message, and was not heard of yet, is nobody's answer. */
static bool is_silent(const struct upstream *u)
{
	char byte;

	return recv(u->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/* The one that was used last: the others come of age meanwhile. */
static struct upstream *take_kept(struct port *port, const struct upstream_ops *ops, void *arg)
{
	while (port && !list_is_empty(&port->idle)) {
		struct upstream *u = list_entry(port->idle.prev, struct upstream, idle);

		if (!is_silent(u)) {
			upstream_close(u);
			continue;
		}
		unkeep(u);
		u->ops = ops;
		u->arg = arg;
		return u;
	}
	return NULL;
}

static struct upstream *make(struct sandbox *sb, struct port *port, uint16_t number)
{
	struct upstream *u = calloc(1, sizeof(*u));

	if (!u)
		return NULL;
	u->sb = sb;
	u->port = port;
	u->number = number;
	u->fd = -1;
	u->handles = 1;
	u->connect.done = on_socket;
	buf_init(&u->unsent, UPSTREAM_WRITE_MAX);
	list_init(&u->link);
	list_init(&u->idle);
	list_append(&sb->upstreams, &u->link);
	uv_timer_init(registry_loop(sb->registry), &u->timer);
	return u;
}

struct upstream *upstream_open(struct sandbox *sb, struct port *port, uint16_t number,
			       const struct upstream_ops *ops, void *arg)
{
	struct upstream *u = take_kept(port, ops, arg);

	return u ? u : upstream_open_new(sb, port, number, ops, arg);
}

struct upstream *upstream_open_new(struct sandbox *sb, struct port *port, uint16_t number,
				   const struct upstream_ops *ops, void *arg)
{
	struct upstream *u = make(sb, port, number);
	int r;

	if (!u) {
		errno = ENOMEM;
		return NULL;
	}
	r = port_connect(sb, &u->connect, number);
	if (r < 0) {
		upstream_close(u);
		errno = -r;
		return NULL;
	}
	u->ops = ops;
	u->arg = arg;
	uv_timer_start(&u->timer, on_timer, UPSTREAM_CONNECT_MS, 0);
	return u;
}

bool upstream_is_open(const struct upstream *u)
{
	return u->is_connected && !u->is_broken;
}

void upstream_keep(struct upstream *u)
{
	/* Without a port it may be without a sandbox, too. */
	if (!u->port || !u->is_connected || u->is_ended || u->is_broken || u->is_shut ||
	    buf_len(&u->unsent) || u->port->idle_len >= UPSTREAM_IDLE_MAX ||
	    ports_kept(u->sb)->len >= ports_kept(u->sb)->max) {
		upstream_close(u);
		return;
	}
	u->ops = NULL;
	u->is_full = u->is_behind = false;
	list_append(&u->port->idle, &u->idle);
	u->port->idle_len++;
	ports_kept(u->sb)->len++;
	u->kept_ms = uv_now(loop_of(u));
	if (!uv_is_active((uv_handle_t *)&u->timer))
		uv_timer_start(&u->timer, on_timer, UPSTREAM_IDLE_MS, 0);
	upstream_resume(u);
}

void upstream_drop_idle(struct port *port)
{
	while (!list_is_empty(&port->idle))
		upstream_close(list_entry(port->idle.next, struct upstream, idle));
	list_for_each (node, &port->sb->upstreams) {
		struct upstream *u = list_entry(node, struct upstream, link);

		if (u->port == port)
			u->port = NULL;
	}
}

static void lose(struct upstream *u)
{

	if (!u->ops) {
		if (!list_is_empty(&u->idle))
			upstream_close(u);
		return; /* or it has failed, and is about to be closed */
	}
	if (!u->is_connected) {
		fail(u, -ECONNRESET);
		return;
	}
	read_rest(u);
	if (!u->is_closed && u->ops && !u->is_ended)
		end(u, -ECONNRESET);
}

void upstream_lose_all(struct sandbox *sb)
{
	struct list all;

	/* Whoever is told of one may close others. */
	list_init(&all);
	while (!list_is_empty(&sb->upstreams))
		list_move(&all, sb->upstreams.next);
	while (!list_is_empty(&all)) {
		struct upstream *u = list_entry(all.next, struct upstream, link);

		list_remove(&u->link);
		u->port = list_is_empty(&u->idle) ? NULL : u->port;
		lose(u);
	}
}
