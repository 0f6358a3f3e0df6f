#include "daemon/exchange.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "daemon/conn.h"
#include "daemon/head_writer.h"
#include "proto/api_error.h"

#define STATUS_LINE_MAX 64

/* What a request that could not be read is taken for. */
static const struct http_head no_head = {.method = HTTP_METHOD_OTHER, .minor = 1};

static void body_pause(void *arg)
{
	/* conn_process() looks at is_paused; reading goes on until CONN_AHEAD_MAX. */
}

static void body_resume(void *arg)
{
	struct exchange *x = arg;

	x->conn->hung = 0;
	conn_proceed_soon(x->conn);
}

static void body_abort(void *arg)
{
	/* The rest is drained when the answer is complete. */
}

static const struct stream_producer body_producer = {body_pause, body_resume, body_abort};

struct exchange *exchange_new(struct conn *c, struct arena *arena, struct http_head *head)
{
	struct exchange *x = arena_zalloc(arena, sizeof(*x));

	if (!x) {
		arena_close(arena);
		return NULL;
	}
	x->conn = c;
	x->arena = *arena;
	x->head = head ? head : (struct http_head *)&no_head;
	x->body_complete = x->head->framing == HTTP_NO_BODY;
	x->continue_owed = x->head->expects_continue && !x->body_complete;
	x->body.producer = &body_producer;
	x->body.producer_arg = x;
	x->headers_tail = &x->headers;
	return x;
}

void exchange_free(struct exchange *x)
{
	struct arena arena = x->arena; /* which holds x itself */

	buf_close(&x->buffered);
	arena_close(&arena);
}

static void tell_gone(struct exchange *x, int status)
{
	bool is_first = !x->is_gone;

	x->is_gone = true;
	/* As long as the connection is there, bytes may wait in front of the body's end. */
	if (!x->is_answered && x->body_wanted && (x->is_begun || x->conn->state == CONN_CLOSED))
		stream_end(&x->body, x->body_complete ? 0 : status);
	if (x->is_answered)
		return;
	if (x->is_begun) {
		x->is_answered = true;
		conn_broken(x->conn); /* half an answer: nothing can follow it */
		stream_abort(&x->answer);
	} else if (is_first && x->on_gone) {
		x->on_gone(x->on_gone_arg);
	}
}

void exchange_gone(struct exchange *x, int status)
{
	struct conn *c = x->conn;
	bool was_processing = c->is_processing;

	/* Whoever is told may answer: the exchange must outlive that. */
	c->is_processing = true;
	tell_gone(x, status);
	c->is_processing = was_processing;
}

void exchange_continue(struct exchange *x)
{
	uv_buf_t line = uv_buf_init("HTTP/1.1 100 Continue\r\n\r\n", 25);

	if (!x->continue_owed)
		return;
	x->continue_owed = false;
	conn_output(x->conn, &line, 1);
	conn_flush(x->conn);
}

/* --- the request --- */

struct arena *exchange_arena(struct exchange *x)
{
	return &x->arena;
}

struct server *exchange_server(struct exchange *x)
{
	return x->conn->server;
}

const struct http_head *exchange_head(struct exchange *x)
{
	return x->head;
}

const struct route_captures *exchange_captures(struct exchange *x)
{
	return &x->captures;
}

struct str exchange_buffered(struct exchange *x)
{
	return (struct str){buf_at(&x->buffered), buf_len(&x->buffered)};
}

void exchange_body(struct exchange *x, const struct stream_consumer *consumer, void *arg)
{
	assert(x->route->body == BODY_STREAMED && !x->body_wanted && !x->is_begun);
	x->body.consumer = consumer;
	x->body.consumer_arg = arg;
	x->body_wanted = true;
	exchange_continue(x);
	conn_proceed_soon(x->conn); /* a handler that comes later finds bytes waiting */
}

void exchange_body_pause(struct exchange *x)
{
	stream_pause(&x->body);
}

void exchange_body_resume(struct exchange *x)
{
	stream_resume(&x->body);
}

void exchange_on_gone(struct exchange *x, void (*gone)(void *arg), void *arg)
{
	x->on_gone = gone;
	x->on_gone_arg = arg;
}

/* --- the answer --- */

void exchange_header(struct exchange *x, const char *name, const char *value)
{
	struct answer_header *h = arena_alloc(&x->arena, sizeof(*h));

	assert(!x->is_begun && !strpbrk(value, "\r\n"));
	if (!h)
		return; /* the arena is full of the request: an optional header is the least loss */
	*h = (struct answer_header){NULL, name, value};
	*x->headers_tail = h;
	x->headers_tail = &h->next;
}

/* A rest this small is cheaper to read and drop than a new connection. */
static bool can_drain(const struct exchange *x)
{
	return !x->continue_owed && x->head->framing == HTTP_SIZED &&
	       x->head->content_length - x->body_received <= CONN_DRAIN_MAX;
}

void exchange_decide_close(struct exchange *x)
{
	struct conn *c = x->conn;

	c->close_wanted = c->close_wanted || !x->head->keep_alive || x->is_upgraded ||
			  x->framing == ANSWER_UNTIL_CLOSE || server_is_draining(c->server) ||
			  (x->framing == ANSWER_SIZED && !x->body_complete && !can_drain(x));
}

static size_t head_size(const struct exchange *x, struct str type)
{
	size_t size = STATUS_LINE_MAX + 256 + type.len; /* our own headers are short and fixed */

	for (const struct answer_header *h = x->headers; h; h = h->next)
		size += strlen(h->name) + strlen(h->value) + 4;
	return size;
}

/* The head's bytes, in the arena. `size` is the body's; an upgrade and 204/304 have none. */
static struct str format_head(struct exchange *x, int status, struct str type, uint64_t size)
{
	char *start = arena_alloc(&x->arena, head_size(x, type));
	struct head_writer w = {start};
	bool has_body = status >= 200 && status != 204 && status != 304;

	if (!start)
		return (struct str){NULL, 0};
	server_count_answer(x->conn->server, status);
	exchange_decide_close(x);
	put(&w, STR("HTTP/1.1 "));
	put_uint(&w, (unsigned)status);
	put(&w, STR(" "));
	put(&w, str_of(http_status_text(status)));
	put(&w, STR("\r\n"));
	put_header(&w, STR("Date"), server_date(x->conn->server));
	if (has_body && type.len)
		put_header(&w, STR("Content-Type"), type);
	if (has_body && x->framing == ANSWER_SIZED) {
		put(&w, STR("Content-Length: "));
		put_uint(&w, size);
		put(&w, STR("\r\n"));
	} else if (has_body && x->framing == ANSWER_CHUNKED) {
		put_header(&w, STR("Transfer-Encoding"), STR("chunked"));
	}
	if (x->conn->close_wanted && !x->is_upgraded)
		put_header(&w, STR("Connection"), STR("close"));
	for (const struct answer_header *h = x->headers; h; h = h->next)
		put_header(&w, str_of(h->name), str_of(h->value));
	put(&w, STR("\r\n"));
	return (struct str){start, (size_t)(w.at - start)};
}

static uv_buf_t as_buf(struct str s)
{
	return uv_buf_init((char *)s.at, (unsigned)s.len);
}

void exchange_answered(struct exchange *x)
{
	x->is_answered = true;
	x->body.is_over = true;
	x->answer.is_over = true;
	if (!x->body_complete && !can_drain(x))
		x->conn->close_wanted = true;
	/* Never from here: whoever answers may be in the middle of something, and the connection's
	 * next request could come upon it. */
	conn_proceed_soon(x->conn);
}

static void send_whole(struct exchange *x, int status, struct str type, struct str body)
{
	uv_buf_t parts[2];
	struct str head;

	assert(!x->is_begun && !x->is_answered);
	x->is_begun = true;
	head = format_head(x, status, type, body.len);
	if (!head.at) {
		conn_broken(x->conn);
	} else {
		parts[0] = as_buf(head);
		parts[1] = as_buf(body);
		conn_output(x->conn, parts, x->head->method == HTTP_METHOD_HEAD ? 1 : 2);
	}
	exchange_answered(x);
}

void exchange_reply(struct exchange *x, int status, const char *type, struct str body)
{
	send_whole(x, status, str_of(type), body);
}

void exchange_reply_empty(struct exchange *x, int status)
{
	send_whole(x, status, (struct str){NULL, 0}, (struct str){NULL, 0});
}

void exchange_reply_json(struct exchange *x, int status, struct json_writer *w)
{
	struct buf out;
	struct err err;

	buf_init(&out, EXCHANGE_ARENA_MAX);
	if (json_writer_end(w, &out) < 0) {
		err_set(&err, -ENOMEM, ERR_INTERNAL, "the answer could not be written as JSON");
		exchange_reply_err(x, &err);
	} else {
		exchange_reply(x, status, "application/json",
			       (struct str){buf_at(&out), buf_len(&out)});
	}
	buf_close(&out);
}

void exchange_reply_err(struct exchange *x, const struct err *err)
{
	struct buf out;
	struct str body = STR("{\"error\":\"out of memory\",\"code\":\"internal\"}");

	buf_init(&out, 8 * sizeof(err->sentence));
	if (api_error_write(&out, err) == 0)
		body = (struct str){buf_at(&out), buf_len(&out)};
	if (err->code == ERR_CAPACITY_EXCEEDED)
		exchange_header(x, "Retry-After", "1");
	exchange_reply(x, api_status(err->code), "application/json", body);
	buf_close(&out);
}

void exchange_reply_error(struct exchange *x, int error, enum err_code code, const char *sentence)
{
	struct err err;

	err_set(&err, error, code, "%s", sentence);
	exchange_reply_err(x, &err);
}

void exchange_reply_no_memory(struct exchange *x)
{
	exchange_reply_error(x, -ENOMEM, ERR_INTERNAL, "out of memory");
}

void exchange_reply_gone(struct exchange *x)
{
	exchange_reply_error(x, -ECONNRESET, ERR_REQUEST_TIMEOUT, "the client went away");
}

/* --- an answer in pieces --- */

static void answer_data(void *arg, const char *bytes, size_t len)
{
	struct exchange *x = arg;
	char line[20];
	struct head_writer w = {line};
	uv_buf_t parts[3];

	if (x->head->method == HTTP_METHOD_HEAD) {
		stream_pause(&x->answer); /* nothing else would stop it before its abort */
		return;
	}
	parts[1] = as_buf((struct str){bytes, len});
	if (x->length_known) {
		assert(len <= x->answer_left);
		x->answer_left -= len;
	}
	if (x->framing != ANSWER_CHUNKED) {
		conn_output(x->conn, parts + 1, 1);
		return;
	}
	put_hex(&w, len);
	put(&w, STR("\r\n"));
	parts[0] = uv_buf_init(line, (unsigned)(w.at - line));
	parts[2] = uv_buf_init("\r\n", 2);
	conn_output(x->conn, parts, 3);
}

static size_t answer_move(void *arg, int pipe_fd, size_t max)
{
	struct exchange *x = arg;
	size_t moved;

	if (x->framing != ANSWER_SIZED || x->head->method == HTTP_METHOD_HEAD)
		return 0;
	moved = conn_move(x->conn, pipe_fd, max < x->answer_left ? max : (size_t)x->answer_left);
	x->answer_left -= moved;
	return moved;
}

static void answer_end(void *arg, int status)
{
	struct exchange *x = arg;
	uv_buf_t last[] = {uv_buf_init("0\r\n", 3), as_buf(x->trailers), uv_buf_init("\r\n", 2)};
	bool is_short = x->answer_left > 0 && x->head->method != HTTP_METHOD_HEAD;

	if (status < 0 || is_short) {
		/* What is cut short must look so: without the last chunk, by a reset if need be. */
		conn_flush(x->conn);
		conn_broken(x->conn);
	} else if (x->framing == ANSWER_CHUNKED && x->head->method != HTTP_METHOD_HEAD) {
		conn_output(x->conn, last, array_len(last));
	}
	exchange_answered(x);
}

void exchange_skip_body(struct exchange *x)
{
	struct stream answer = x->answer;

	if (!x->is_begun || x->is_answered || x->head->method != HTTP_METHOD_HEAD)
		return;
	exchange_answered(x);
	stream_abort(&answer);
}

static const struct stream_consumer answer_consumer = {answer_data, answer_end, answer_move};

struct stream *exchange_begin(struct exchange *x, struct str head,
			      const struct stream_producer *producer, void *arg)
{
	uv_buf_t part;

	assert(!x->is_begun && !x->is_answered);
	if (!head.at) {
		conn_broken(x->conn);
		exchange_answered(x);
		return NULL;
	}
	x->is_begun = true;
	part = as_buf(head);
	conn_output(x->conn, &part, 1);
	/* Only now: a producer that does not know its stream yet must not be called. */
	x->answer = (struct stream){producer, &answer_consumer, arg, x, false, false};
	if (x->head->method == HTTP_METHOD_HEAD)
		conn_proceed_soon(x->conn);
	return &x->answer;
}

static struct stream *begin_answer(struct exchange *x, int status, const char *type,
				   const struct stream_producer *producer, void *arg)
{
	struct str head = x->is_gone ? (struct str){NULL, 0}
				     : format_head(x, status, str_of(type), x->answer_left);

	return exchange_begin(x, head, producer, arg);
}

void exchange_length(struct exchange *x, uint64_t length)
{
	x->length_known = true;
	x->answer_left = length;
}

struct stream *exchange_respond(struct exchange *x, int status, const char *type,
				const struct stream_producer *producer, void *arg)
{
	if (!x->length_known)
		x->framing = x->head->minor ? ANSWER_CHUNKED : ANSWER_UNTIL_CLOSE;
	return begin_answer(x, status, type, producer, arg);
}

struct stream *exchange_upgrade(struct exchange *x, const struct upgrade *upgrade)
{
	assert(!x->body_wanted);
	exchange_header(x, "Connection", "Upgrade");
	exchange_header(x, "Upgrade", upgrade->protocol);
	x->is_upgraded = true;
	x->is_half_open = upgrade->is_half_open;
	x->framing = ANSWER_UNTIL_CLOSE;
	x->body.consumer = upgrade->consumer;
	x->body.consumer_arg = upgrade->arg;
	x->body_wanted = true;
	x->body_complete = false;
	conn_proceed_soon(x->conn); /* it may have spoken already */
	return begin_answer(x, 101, "", upgrade->producer, upgrade->arg);
}
