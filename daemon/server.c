#include "daemon/server.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include "base/log.h"
#include "daemon/conn.h"

#define BACKLOG         1024
#define PROBE_MS        1000  /* how often a client that is not read from is looked at */
#define TURNED_AWAY_MS  500   /* for a client that is turned away to read why */
#define SPARED_MIN      16    /* connections that listeners with tokens leave to the others */
#define NEAR_LIMIT      4     /* descriptors that are left when it is said */
#define COMPLAINT_MS    10000 /* between two log lines about the same trouble */
#define DATE_HEADER_LEN 29

/*
 * Each state's time limit is one constant, so its connections stand in order of their deadlines:
 * watching one is an append, and only the queues' heads are ever looked at.
 */
enum queue {
	QUEUE_NOW,
	QUEUE_IDLE,
	QUEUE_HEAD,
	QUEUE_BODY,
	QUEUE_WRITE,
	QUEUE_LINGER,
	QUEUE_TURNED_AWAY,
	QUEUE_PROBE,
	QUEUE_COUNT
};

struct listener {
	union {
		uv_handle_t handle;
		uv_stream_t stream;
		uv_tcp_t tcp;
		uv_pipe_t pipe;
	} uv;
	struct list link;
	struct server *server;
	enum admission admission;
	struct { /* see shed() */
		union {
			uv_handle_t handle;
			uv_stream_t stream;
			uv_tcp_t tcp;
			uv_pipe_t pipe;
		} uv;
		bool is_busy, has_next, is_last;
	} spare;
};

struct server {
	struct server_config config;
	struct list listeners;
	struct list conns;
	unsigned admitted[ADMISSION_COUNT]; /* how many of them on which terms */
	struct list queues[QUEUE_COUNT];
	unsigned limits_ms[QUEUE_COUNT];
	uv_timer_t timer; /* at `armed_for`, when the first deadline passes */
	uint64_t armed_for;
	uv_timer_t grace;
	bool is_draining;
	unsigned handles_open;
	void (*drained)(void *arg);
	void *drained_arg;
	uint64_t answers[SERVER_CLASSES];
	uint64_t complained_at;
	uint64_t date_made_at;
	char date[DATE_HEADER_LEN + 1];
	char read_buffer[CONN_READ_MAX];
};

const struct server_config *server_config(const struct server *server)
{
	return &server->config;
}

void *server_arg(struct server *server)
{
	return server->config.arg;
}

bool server_is_draining(const struct server *server)
{
	return server->is_draining;
}

unsigned server_connections(const struct server *server)
{
	return server->admitted[ADMIT_TRUSTED] + server->admitted[ADMIT_TOKEN];
}

uint64_t server_answers(const struct server *server, unsigned class)
{
	return server->answers[class];
}

void server_count_answer(struct server *server, int status)
{
	server->answers[(unsigned)status / 100 % SERVER_CLASSES]++;
}

char *server_read_buffer(struct server *server)
{
	return server->read_buffer;
}

struct str server_date(struct server *server)
{
	uint64_t now = uv_now(server->config.loop);
	struct timespec wall;
	struct tm utc;

	/* The loop's clock is free; half a second is closer than the header can say. */
	if (!server->date[0] || now - server->date_made_at >= 500) {
		clock_gettime(CLOCK_REALTIME_COARSE, &wall);
		gmtime_r(&wall.tv_sec, &utc);
		strftime(server->date, sizeof(server->date), "%a, %d %b %Y %H:%M:%S GMT", &utc);
		server->date_made_at = now;
	}
	return (struct str){server->date, DATE_HEADER_LEN};
}

/* --- time limits --- */

static void on_timer(uv_timer_t *timer);

static void arm(struct server *server, uint64_t deadline)
{
	uint64_t now = uv_now(server->config.loop);

	if (uv_is_active((uv_handle_t *)&server->timer) && server->armed_for <= deadline)
		return;
	server->armed_for = deadline;
	uv_timer_start(&server->timer, on_timer, deadline > now ? deadline - now : 0, 0);
}

static void on_timer(uv_timer_t *timer)
{
	struct server *server = container_of(timer, struct server, timer);
	uint64_t now = uv_now(server->config.loop), first = UINT64_MAX;

	for (unsigned i = 0; i < QUEUE_COUNT; i++) {
		struct list *queue = &server->queues[i];

		while (!list_is_empty(queue)) {
			struct conn *c = list_entry(queue->next, struct conn, timeout);

			if (c->deadline_ms > now) {
				first = c->deadline_ms < first ? c->deadline_ms : first;
				break;
			}
			list_remove(&c->timeout);
			conn_expire(c);
		}
	}
	if (first != UINT64_MAX)
		arm(server, first);
}

static enum queue queue_of(const struct conn *c)
{
	if (c->admission == ADMIT_NOT)
		return QUEUE_TURNED_AWAY;
	switch (c->state) {
	case CONN_IDLE:
		return c->admission == ADMIT_TOKEN && !c->is_known ? QUEUE_HEAD : QUEUE_IDLE;
	case CONN_HEAD:
		return QUEUE_HEAD;
	case CONN_BODY:
		return QUEUE_BODY;
	case CONN_FLUSH:
		return QUEUE_WRITE;
	case CONN_DRAIN:
	case CONN_LINGER:
		return QUEUE_LINGER;
	case CONN_BUSY:
		return c->is_reading ? QUEUE_COUNT : QUEUE_PROBE;
	case CONN_CLOSED:
	case CONN_STATE_COUNT:
		break;
	}
	return QUEUE_COUNT;
}

static void watch(struct conn *c, enum queue queue)
{
	struct server *server = c->server;

	c->deadline_ms = uv_now(server->config.loop) + server->limits_ms[queue];
	list_move(&server->queues[queue], &c->timeout);
	arm(server, c->deadline_ms);
}

void server_watch(struct conn *c)
{
	enum queue queue = queue_of(c);

	if (c->state == CONN_CLOSED)
		list_remove(&c->timeout);
	else if (c->is_broken || c->proceed_wanted)
		return; /* stays where server_watch_now() put it */
	else if (queue == QUEUE_COUNT)
		list_remove(&c->timeout);
	else
		watch(c, queue);
}

void server_watch_now(struct conn *c)
{
	watch(c, QUEUE_NOW);
}

/* --- connections --- */

static void handle_closed(struct server *server)
{
	if (--server->handles_open == 0 && server->drained)
		server->drained(server->drained_arg);
}

static void on_handle_closed(uv_handle_t *handle)
{
	handle_closed(handle->data);
}

static void check_drained(struct server *server)
{
	/* By number: cut_all() empties the list for a while. */
	if (!server->is_draining || server_connections(server) || server->admitted[ADMIT_NOT] ||
	    !list_is_empty(&server->listeners))
		return;
	if (uv_is_closing((uv_handle_t *)&server->timer))
		return;
	uv_close((uv_handle_t *)&server->timer, on_handle_closed);
	uv_close((uv_handle_t *)&server->grace, on_handle_closed);
}

void server_conn_added(struct conn *c)
{
	list_append(&c->server->conns, &c->link);
	c->server->admitted[c->admission]++;
}

void server_conn_removed(struct conn *c)
{
	list_remove(&c->link);
	list_remove(&c->timeout);
	c->server->admitted[c->admission]--;
	check_drained(c->server);
}

static bool may_complain(struct server *server)
{
	uint64_t now = uv_now(server->config.loop);

	if (server->complained_at && now - server->complained_at < COMPLAINT_MS)
		return false;
	server->complained_at = now;
	return true;
}

/* Of those that are turned away only so many linger: the oldest goes before its time. */
static int turn_away(struct server *server, uv_stream_t *listener)
{
	struct list *queue = &server->queues[QUEUE_TURNED_AWAY];

	if (server->admitted[ADMIT_NOT] >= server->config.limits.turned_away &&
	    !list_is_empty(queue))
		conn_cut(list_entry(queue->next, struct conn, timeout));
	if (may_complain(server))
		log_warn("connection refused: too many are open connections=%u with_token=%u "
			 "max_connections=%u",
			 server_connections(server), server->admitted[ADMIT_TOKEN],
			 server->config.limits.connections);
	return conn_accept(server, listener, ADMIT_NOT);
}

/* See struct server_limits. */
static bool is_full(const struct server *server, enum admission admission)
{
	unsigned limit = server->config.limits.connections, spared = limit / 4;

	if (spared < SPARED_MIN)
		spared = SPARED_MIN < limit / 2 ? SPARED_MIN : limit / 2;
	return server_connections(server) >= limit ||
	       (admission == ADMIT_TOKEN && server->admitted[ADMIT_TOKEN] >= limit - spared);
}

/*
 * Out of descriptors libuv accepts and closes without a word to us. Descriptors are given out
 * lowest first: a high number tells that the limit is near, whoever has taken the others.
 */
void server_conn_opened(struct conn *c)
{
	struct rlimit limit;
	uv_os_fd_t fd;

	if (uv_fileno(&c->uv.handle, &fd) < 0 || getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	if ((rlim_t)fd + NEAR_LIMIT >= limit.rlim_cur && may_complain(c->server))
		log_warn(
			"almost out of file descriptors: new connections will be closed unanswered "
			"RLIMIT_NOFILE=%llu connections=%u",
			(unsigned long long)limit.rlim_cur, server_connections(c->server));
}

int server_init_peer(uv_stream_t *listener, uv_handle_t *peer)
{
	return listener->type == UV_TCP ? uv_tcp_init(listener->loop, (uv_tcp_t *)peer)
					: uv_pipe_init(listener->loop, (uv_pipe_t *)peer, 0);
}

static void on_connection(uv_stream_t *stream, int status);
static void free_listener(struct listener *l);

static void on_shed(uv_handle_t *handle)
{
	struct listener *l = container_of(handle, struct listener, spare.uv.handle);

	l->spare.is_busy = false;
	if (l->spare.is_last) {
		free_listener(l);
	} else if (l->spare.has_next && !uv_is_closing(&l->uv.handle)) {
		l->spare.has_next = false;
		on_connection(&l->uv.stream, 0);
	}
}

/*
 * There is no memory for a connection: it is accepted all the same, and closed, because libuv tells
 * of no other before. If that happens again before it is closed, the next one waits for that.
 */
static void shed(struct listener *l)
{
	if (may_complain(l->server))
		log_error("connections are closed unanswered: out of memory");
	if (l->spare.is_busy) {
		l->spare.has_next = true;
		return;
	}
	if (server_init_peer(&l->uv.stream, &l->spare.uv.handle) < 0)
		return;
	l->spare.is_busy = true;
	uv_accept(&l->uv.stream, &l->spare.uv.stream);
	uv_close(&l->spare.uv.handle, on_shed);
}

static void on_connection(uv_stream_t *stream, int status)
{
	struct listener *l = container_of(stream, struct listener, uv.stream);
	int r;

	if (status < 0) {
		if (may_complain(l->server))
			log_error("cannot accept connections: %s", uv_strerror(status));
		return;
	}
	r = is_full(l->server, l->admission) ? turn_away(l->server, stream)
					     : conn_accept(l->server, stream, l->admission);
	if (r < 0)
		shed(l);
}

/* --- listeners --- */

static void free_listener(struct listener *l)
{
	struct server *server = l->server;

	list_remove(&l->link);
	free(l);
	check_drained(server);
}

static void on_listener_closed(uv_handle_t *handle)
{
	struct listener *l = container_of(handle, struct listener, uv.handle);

	if (l->spare.is_busy)
		l->spare.is_last = true;
	else
		free_listener(l);
}

/* One that could not be opened is closing already. */
static void close_listener(struct listener *l)
{
	if (!uv_is_closing(&l->uv.handle))
		uv_close(&l->uv.handle, on_listener_closed);
}

static int open_listener(struct listener *l, int fd, int family)
{
	uv_loop_t *loop = l->server->config.loop;
	int r;

	if (family == AF_UNIX) {
		uv_pipe_init(loop, &l->uv.pipe, 0);
		r = uv_pipe_open(&l->uv.pipe, fd);
	} else {
		uv_tcp_init(loop, &l->uv.tcp);
		r = uv_tcp_open(&l->uv.tcp, fd);
	}
	if (r < 0)
		close(fd);
	else
		r = uv_listen(&l->uv.stream, BACKLOG, on_connection);
	return r;
}

int server_listen(struct server *server, int fd, bool needs_token, struct err *err)
{
	struct sockaddr_storage address;
	socklen_t len = sizeof(address);
	struct listener *l;
	int r;

	if (getsockname(fd, (struct sockaddr *)&address, &len) < 0) {
		r = -errno;
		close(fd);
		return err_set(err, r, ERR_INTERNAL, "file descriptor %d is no socket", fd);
	}
	l = calloc(1, sizeof(*l));
	if (!l) {
		close(fd);
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	}
	l->server = server;
	l->admission = needs_token ? ADMIT_TOKEN : ADMIT_TRUSTED;
	list_append(&server->listeners, &l->link);
	r = open_listener(l, fd, address.ss_family);
	if (r < 0) {
		close_listener(l);
		return err_set(err, r, ERR_INTERNAL, "cannot listen: %s", uv_strerror(r));
	}
	return 0;
}

/* --- life --- */

int server_new(struct server **ret, const struct server_config *config)
{
	const struct server_limits *limits = &config->limits;
	struct server *server = calloc(1, sizeof(*server));

	if (!server)
		return -ENOMEM;
	server->config = *config;
	list_init(&server->listeners);
	list_init(&server->conns);
	for (unsigned i = 0; i < QUEUE_COUNT; i++)
		list_init(&server->queues[i]);
	server->limits_ms[QUEUE_IDLE] = limits->idle_timeout_ms;
	server->limits_ms[QUEUE_HEAD] = limits->head_timeout_ms;
	server->limits_ms[QUEUE_BODY] = limits->body_timeout_ms;
	server->limits_ms[QUEUE_WRITE] = limits->write_timeout_ms;
	server->limits_ms[QUEUE_LINGER] = limits->linger_timeout_ms;
	server->limits_ms[QUEUE_TURNED_AWAY] = TURNED_AWAY_MS;
	server->limits_ms[QUEUE_PROBE] = PROBE_MS;
	uv_timer_init(config->loop, &server->timer);
	uv_timer_init(config->loop, &server->grace);
	server->timer.data = server->grace.data = server;
	server->handles_open = 2;
	*ret = server;
	return 0;
}

/* A handler that is told of one client may answer others as well, and so free any of the list. */
static void cut_all(struct server *server)
{
	struct list left;

	list_init(&left);
	while (!list_is_empty(&server->conns))
		list_move(&left, server->conns.next);
	while (!list_is_empty(&left)) {
		struct conn *c = list_entry(left.next, struct conn, link);

		list_move(&server->conns, &c->link);
		conn_cut(c);
	}
}

static void on_grace_over(uv_timer_t *timer)
{
	struct server *server = timer->data;

	if (server_connections(server))
		log_warn("%u connections cut: they did not finish in time",
			 server_connections(server));
	cut_all(server);
}

void server_drain(struct server *server, unsigned grace_ms, void (*done)(void *arg), void *arg)
{
	server->drained = done;
	server->drained_arg = arg;
	if (!server->is_draining) {
		server->is_draining = true;
		list_for_each_safe (node, &server->listeners)
			close_listener(list_entry(node, struct listener, link));
		list_for_each_safe (node, &server->conns) {
			struct conn *c = list_entry(node, struct conn, link);

			if (c->state == CONN_IDLE)
				conn_proceed(c);
		}
	}
	if (!grace_ms)
		cut_all(server);
	else
		uv_timer_start(&server->grace, on_grace_over, grace_ms, 0);
	check_drained(server);
}

void server_free(struct server *server)
{
	assert(list_is_empty(&server->conns) && server->handles_open == 0);
	free(server);
}
