#include "daemon/conn.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/log.h"

#define BIT(state) (1u << (state))
#define HUNG_MAX   60 /* looks, of one second each */

/* clang-format off */
static const char *const names[CONN_STATE_COUNT] = {
	"idle", "head", "body", "busy", "flush", "drain", "linger", "closed",
};

static const unsigned moves[CONN_STATE_COUNT] = {
	[CONN_IDLE]   = BIT(CONN_HEAD) | BIT(CONN_BODY) | BIT(CONN_BUSY) | BIT(CONN_FLUSH) |
			BIT(CONN_CLOSED),
	[CONN_HEAD]   = BIT(CONN_BODY) | BIT(CONN_BUSY) | BIT(CONN_FLUSH) | BIT(CONN_CLOSED),
	[CONN_BODY]   = BIT(CONN_BUSY) | BIT(CONN_CLOSED),
	[CONN_BUSY]   = BIT(CONN_FLUSH) | BIT(CONN_CLOSED),
	[CONN_FLUSH]  = BIT(CONN_IDLE) | BIT(CONN_DRAIN) | BIT(CONN_LINGER) | BIT(CONN_CLOSED),
	[CONN_DRAIN]  = BIT(CONN_IDLE) | BIT(CONN_FLUSH) | BIT(CONN_CLOSED),
	[CONN_LINGER] = BIT(CONN_CLOSED),
	[CONN_CLOSED] = 0,
};
/* clang-format on */

static void enter(struct conn *c, enum conn_state state)
{
	assert(moves[c->state] & BIT(state));
	log_debug("conn=%p %s -> %s", (void *)c, names[c->state], names[state]);
	c->state = state;
	server_watch(c);
}

/* --- the end --- */

static void release(struct conn *c)
{
	assert(c->state == CONN_CLOSED);
	if (c->exchange && c->exchange->is_answered) {
		exchange_free(c->exchange);
		c->exchange = NULL;
	}
	if (c->exchange || !c->is_handle_closed)
		return;
	http_parser_close(&c->parser);
	buf_close(&c->ahead);
	buf_close(&c->output);
	buf_close(&c->flying);
	server_conn_removed(c);
	free(c);
}

static void on_closed(uv_handle_t *handle)
{
	struct conn *c = container_of(handle, struct conn, uv.handle);

	c->is_handle_closed = true;
	release(c);
}

void conn_cut(struct conn *c)
{
	bool is_unserved = c->state == CONN_BODY;

	if (c->state == CONN_CLOSED)
		return;
	enter(c, CONN_CLOSED);
	uv_close(&c->uv.handle, on_closed);
	if (!c->exchange)
		return;
	if (is_unserved)
		c->exchange->is_answered = true; /* no handler has seen it yet */
	exchange_gone(c->exchange, -ECONNRESET);
}

void conn_broken(struct conn *c)
{
	if (c->state == CONN_CLOSED || c->is_broken)
		return;
	c->is_broken = true;
	server_watch_now(c);
}

/* --- input --- */

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
	struct conn *c = container_of(handle, struct conn, uv.handle);

	*ret = uv_buf_init(server_read_buffer(c->server), CONN_READ_MAX);
}

static void on_read(uv_stream_t *stream, ssize_t nread, const uv_buf_t *buf);

static void set_reading(struct conn *c, bool wanted)
{
	wanted = wanted && !c->is_eof && c->state != CONN_CLOSED;
	if (wanted == c->is_reading)
		return;
	c->is_reading = wanted;
	if (!wanted)
		uv_read_stop(&c->uv.stream);
	else if (uv_read_start(&c->uv.stream, on_alloc, on_read) < 0)
		conn_broken(c);
	if (c->state == CONN_BUSY)
		server_watch(c); /* without reads, the client's end must be looked for */
}

/* Answers a request that has no exchange yet, or whose body was still being read. The caller
 * proceeds. */
static void refuse(struct conn *c, const struct err *err)
{
	bool was_processing = c->is_processing;

	c->is_garbled = true;
	c->close_wanted = true;
	if (!c->exchange) {
		struct arena arena;

		arena_init(&arena, EXCHANGE_ARENA_MAX);
		c->exchange = exchange_new(c, &arena, NULL);
		if (!c->exchange) {
			conn_cut(c);
			return;
		}
	}
	if (c->admission == ADMIT_NOT)
		exchange_header(c->exchange, "Retry-After", "1");
	enter(c, CONN_BUSY);
	c->is_processing = true;
	exchange_reply_err(c->exchange, err);
	c->is_processing = was_processing;
}

static void flush(struct conn *c)
{
	c->unsent_seen = SIZE_MAX;
	enter(c, CONN_FLUSH);
}

/* Nothing more is read from this client, but what it was answered still goes out. */
static void leave(struct conn *c)
{
	c->close_wanted = true;
	if (conn_unsent(c))
		flush(c);
	else
		conn_cut(c);
}

static void serve(struct conn *c)
{
	enter(c, CONN_BUSY);
	dispatch_serve(c->exchange);
}

static void begin(struct conn *c, struct str bytes)
{
	struct arena arena;
	struct http_head *head;
	struct err err;

	arena_init(&arena, EXCHANGE_ARENA_MAX);
	if (http_head_parse(&c->parser, &arena, bytes, &head, &err) < 0) {
		arena_close(&arena);
		refuse(c, &err);
		return;
	}
	c->exchange = exchange_new(c, &arena, head);
	if (!c->exchange) {
		conn_cut(c);
		return;
	}
	if (dispatch_check(c->exchange, &err) < 0) {
		enter(c, CONN_BUSY);
		exchange_reply_err(c->exchange, &err);
	} else if (dispatch_reads_first(c->exchange)) {
		enter(c, CONN_BODY);
		exchange_continue(c->exchange);
	} else {
		serve(c);
	}
}

static bool step_head(struct conn *c, struct str *in)
{
	struct str bytes;
	struct err err;

	if (!in->len) {
		if (c->is_eof || (c->state == CONN_IDLE && server_is_draining(c->server)))
			leave(c);
		return c->state == CONN_FLUSH;
	}
	switch (http_head_feed(&c->parser, in, &bytes, &err)) {
	case HTTP_MORE:
		if (c->state == CONN_IDLE)
			enter(c, CONN_HEAD);
		return c->is_eof;
	case HTTP_BAD:
		refuse(c, &err);
		return true;
	case HTTP_DONE:
		begin(c, bytes);
		return true;
	}
	return false;
}

static void on_body(void *arg, const char *bytes, size_t len)
{
	struct conn *c = arg;
	struct exchange *x = c->exchange;

	if (__builtin_add_overflow(x->body_received, len, &x->body_received))
		x->body_received = UINT64_MAX;
	if (c->state == CONN_BODY && x->body_received <= x->route->body_max) {
		if (buf_append(&x->buffered, bytes, len) < 0)
			x->body_received = UINT64_MAX; /* told as too large, below */
	} else if (c->state == CONN_BUSY && x->body_wanted) {
		stream_push(&x->body, bytes, len);
	}
}

static void body_done(struct conn *c)
{
	c->exchange->body_complete = true;
	if (c->state == CONN_BODY)
		serve(c);
}

/* A body whose framing is wrong: nothing after it can be trusted. */
static void body_bad(struct conn *c, const struct err *err)
{
	c->is_garbled = true;
	c->close_wanted = true;
	if (c->state == CONN_BODY)
		refuse(c, err);
	else if (c->state == CONN_DRAIN)
		flush(c);
	else if (c->exchange->body_wanted)
		stream_end(&c->exchange->body, -EBADMSG);
}

static bool body_is_too_large(const struct exchange *x)
{
	size_t max = x->conn->state == CONN_DRAIN ? CONN_DRAIN_MAX : x->route->body_max;

	return max && x->body_received > max;
}

static void body_too_large(struct conn *c)
{
	struct err err;

	c->is_garbled = true;
	c->close_wanted = true;
	if (c->state == CONN_DRAIN) {
		flush(c);
	} else if (c->state == CONN_BUSY) {
		stream_end(&c->exchange->body, -EFBIG);
	} else {
		err_set(&err, -EFBIG, ERR_PAYLOAD_TOO_LARGE,
			"the body is larger than this route takes (%zu bytes)",
			c->exchange->route->body_max);
		refuse(c, &err);
	}
}

/* Without input there is only one thing that may still have to be said. */
static bool step_body_end(struct conn *c)
{
	struct exchange *x = c->exchange;

	if (c->state == CONN_BUSY && x->body_wanted && !x->body.is_over) {
		if (x->body_complete || (c->is_eof && x->is_upgraded))
			stream_end(&x->body, 0);
		else if (c->is_eof)
			stream_end(&x->body, -ECONNRESET);
		return x->body.is_over;
	}
	if (c->is_eof && c->state == CONN_BODY)
		conn_cut(c);
	else if (c->is_eof && c->state == CONN_DRAIN)
		leave(c);
	return c->state == CONN_FLUSH;
}

static bool step_body(struct conn *c, struct str *in)
{
	struct exchange *x = c->exchange;
	struct str part = {in->at, in->len < CONN_READ_MAX ? in->len : CONN_READ_MAX};
	enum http_result result = HTTP_MORE;
	struct err err;

	if (x->body_complete || !in->len)
		return step_body_end(c);
	if (c->state == CONN_BUSY && (!x->body_wanted || x->body.is_paused))
		return false;
	/* No more at once than a consumer that is full has to take: STREAM_OVERRUN_MAX. */
	*in = (struct str){in->at + part.len, in->len - part.len};
	if (x->is_upgraded) {
		stream_push(&x->body, part.at, part.len);
		return true;
	}
	result = http_body_feed(&c->parser, &part, on_body, c, &err);
	*in = (struct str){part.at, in->len + part.len};
	switch (result) {
	case HTTP_BAD:
		body_bad(c, &err);
		return true;
	case HTTP_DONE:
		if (body_is_too_large(x))
			body_too_large(c);
		else
			body_done(c);
		return true;
	case HTTP_MORE:
		if (body_is_too_large(x))
			body_too_large(c);
		return true;
	}
	return false;
}

static void next_request(struct conn *c)
{
	exchange_free(c->exchange);
	c->exchange = NULL;
	http_parser_init(&c->parser);
	enter(c, CONN_IDLE);
}

static void linger(struct conn *c)
{
	uv_os_fd_t fd;

	/* The client sees the end of the answer and closes; until then its bytes are dropped. */
	if (uv_fileno(&c->uv.handle, &fd) < 0 || shutdown(fd, SHUT_WR) < 0 || c->is_eof)
		conn_cut(c);
	else
		enter(c, CONN_LINGER);
}

static bool step_flush(struct conn *c)
{
	if (c->close_wanted) {
		conn_flush(c);
		if (conn_unsent(c))
			return false;
		linger(c);
	} else if (conn_unsent(c) > CONN_WRITE_LOW) {
		return false;
	} else if (!c->exchange->body_complete) {
		c->exchange->body_received = 0;
		enter(c, CONN_DRAIN);
	} else {
		next_request(c);
	}
	return true;
}

/* Does one thing; false if there is nothing to do before something else happens. */
static bool step(struct conn *c, struct str *in)
{
	if (c->is_garbled || c->is_broken)
		in->len = 0;
	if (c->is_broken)
		return false;
	switch (c->state) {
	case CONN_IDLE:
	case CONN_HEAD:
		return step_head(c, in);
	case CONN_BODY:
		return step_body(c, in);
	case CONN_BUSY:
		exchange_skip_body(c->exchange);
		if (!c->exchange->is_answered)
			return step_body(c, in);
		flush(c);
		return true;
	case CONN_FLUSH:
		return step_flush(c);
	case CONN_DRAIN:
		if (!c->exchange->body_complete)
			return step_body(c, in);
		next_request(c);
		return true;
	case CONN_LINGER:
	case CONN_CLOSED:
	case CONN_STATE_COUNT:
		in->len = 0;
		break;
	}
	return false;
}

static void process(struct conn *c, struct str *in)
{
	c->is_processing = true;
	while (step(c, in))
		;
	c->is_processing = false;
	conn_flush(c);
}

void conn_proceed(struct conn *c)
{
	struct str in = {buf_at(&c->ahead), buf_len(&c->ahead)};

	if (c->is_processing)
		return;
	if (c->state == CONN_CLOSED) {
		if (c->exchange)
			exchange_gone(c->exchange, -ECONNRESET); /* who came late to the body */
		release(c);
		return;
	}
	process(c, &in);
	if (c->state == CONN_CLOSED)
		return;
	buf_consume(&c->ahead, buf_len(&c->ahead) - in.len);
	if (!in.len)
		buf_close(&c->ahead); /* idle connections hold no memory */
	set_reading(c, buf_len(&c->ahead) < CONN_AHEAD_MAX);
}

void conn_proceed_soon(struct conn *c)
{
	if ((c->is_processing && c->state != CONN_CLOSED) || c->proceed_wanted)
		return;
	c->proceed_wanted = true;
	server_watch_now(c);
}

static void on_input(struct conn *c, struct str in)
{
	if (buf_len(&c->ahead)) {
		/* Never fails for size: reading stops at CONN_AHEAD_MAX. */
		if (buf_append_str(&c->ahead, in) < 0)
			conn_cut(c);
		else
			conn_proceed(c);
		return;
	}
	process(c, &in);
	if (c->state == CONN_CLOSED || !in.len)
		return;
	if (buf_append_str(&c->ahead, in) < 0)
		conn_cut(c);
	else
		set_reading(c, buf_len(&c->ahead) < CONN_AHEAD_MAX);
}

/*
 * No more bytes will come. A client that has only closed its sending side still gets its answers,
 * also to what it has sent before and what waits in `ahead`.
 */
static void on_eof(struct conn *c)
{
	c->is_eof = true;
	set_reading(c, false);
	if (c->state == CONN_BUSY && !c->exchange->is_upgraded)
		exchange_gone(c->exchange, -ECONNRESET);
	if (c->state == CONN_LINGER)
		conn_cut(c);
	conn_proceed(c);
}

static void on_read(uv_stream_t *stream, ssize_t nread, const uv_buf_t *buf)
{
	struct conn *c = container_of(stream, struct conn, uv.stream);

	if (nread > 0)
		on_input(c, (struct str){buf->base, (size_t)nread});
	else if (nread == UV_EOF)
		on_eof(c);
	else if (nread < 0)
		conn_cut(c);
}

/* --- time --- */

static bool is_lost(const struct exchange *x, short events)
{
	/* What it has sent before it went away is still to be read, but not for ever. */
	if (x->is_half_open && !x->body.is_over)
		return events & POLLERR || (events & POLLHUP && ++x->conn->hung >= HUNG_MAX);
	return events & (POLLHUP | POLLERR) || (events && x->is_upgraded && !x->body.is_over);
}

/* Reading is stopped, so only a look tells whether the client is still there. */
static void look_for_peer(struct conn *c)
{
	struct exchange *x = c->exchange;
	struct pollfd p = {.events = POLLRDHUP};
	uv_os_fd_t fd;

	if (uv_fileno(&c->uv.handle, &fd) == 0) {
		p.fd = fd;
		poll(&p, 1, 0);
	}
	server_watch(c);
	if (is_lost(x, p.revents)) {
		conn_cut(c);
	} else if (p.revents && !x->is_upgraded) {
		/* It sends no more: it may be gone, or wait for its answer, as after on_eof(). */
		exchange_gone(x, -ECONNRESET);
		conn_proceed(c);
	}
}

static size_t unsent_by_kernel(const struct conn *c)
{
	return uv_stream_get_write_queue_size(&c->uv.stream);
}

void conn_expire(struct conn *c)
{
	struct err err;

	if (c->is_broken && c->state != CONN_CLOSED) {
		conn_cut(c);
	} else if (c->proceed_wanted) {
		c->proceed_wanted = false;
		server_watch(c);
		conn_proceed(c);
	} else if (c->state == CONN_HEAD || c->state == CONN_BODY) {
		err_set(&err, -ETIMEDOUT, ERR_REQUEST_TIMEOUT,
			"the request's %s did not arrive in time",
			c->state == CONN_HEAD ? "head" : "body");
		refuse(c, &err);
		conn_proceed(c);
	} else if (c->state == CONN_BUSY) {
		look_for_peer(c);
	} else if (c->state == CONN_FLUSH && unsent_by_kernel(c) < c->unsent_seen) {
		c->unsent_seen = unsent_by_kernel(c);
		server_watch(c); /* slow, but it takes bytes */
	} else {
		conn_cut(c);
	}
}

/* --- the beginning --- */

/* The client may not have written yet: LINGER reads its request, so that no reset takes the 503. */
static void turn_away(struct conn *c)
{
	struct err err;

	err_set(&err, -EAGAIN, ERR_UNAVAILABLE, "too many connections: close some and try again");
	refuse(c, &err);
	conn_proceed(c);
}

int conn_accept(struct server *server, uv_stream_t *listener, enum admission admission)
{
	struct conn *c = calloc(1, sizeof(*c));

	if (!c || server_init_peer(listener, &c->uv.handle) < 0) {
		free(c);
		return -ENOMEM;
	}
	c->server = server;
	c->admission = admission;
	c->state = CONN_IDLE;
	list_init(&c->link);
	list_init(&c->timeout);
	http_parser_init(&c->parser);
	buf_init(&c->ahead, 2 * CONN_AHEAD_MAX);
	buf_init(&c->output, CONN_OUTPUT_MAX);
	buf_init(&c->flying, CONN_OUTPUT_MAX);
	server_conn_added(c);
	if (uv_accept(listener, &c->uv.stream) < 0) {
		conn_cut(c);
		return 0;
	}
	server_conn_opened(c);
	if (listener->type == UV_TCP) {
		uv_tcp_nodelay(&c->uv.tcp, 1);
		uv_tcp_keepalive(&c->uv.tcp, 1, 60);
	}
	server_watch(c);
	if (admission == ADMIT_NOT)
		turn_away(c);
	set_reading(c, true);
	return 0;
}
