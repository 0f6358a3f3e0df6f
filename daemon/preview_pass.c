/* The bytes of a visit: the request to the server inside, and its answer back. */
#include <errno.h>

#include "base/cleanup.h"
#include "daemon/head_writer.h"
#include "daemon/preview_state.h"
#include "daemon/registry.h"
#include "daemon/sandbox_sleep.h"
#include "proto/api_error.h"
#include "proto/forward.h"

#define HEAD_MAX (2 * HTTP_HEAD_MAX)

/* Bytes flow: that is activity, and one that was frozen meanwhile goes on. */
static void touch(struct visit *v)
{
	activity_touch(v->sb);
	if (v->sb->state == SANDBOX_FROZEN)
		sandbox_wake(v->sb);
}

static uint64_t now_of(const struct visit *v)
{
	return uv_now(registry_loop(v->sb->registry));
}

/* --- the request --- */

static void wait_for_room(struct visit *v)
{
	v->is_server_full = true;
	visit_hold(v);
	exchange_body_pause(v->x);
}

static void body_data(void *arg, const char *bytes, size_t len)
{
	struct visit *v = arg;
	bool is_chunked = exchange_head(v->x)->framing == HTTP_CHUNKED;
	char line[20];
	struct head_writer w = {line};
	uv_buf_t parts[3];
	size_t unsent;

	v->bytes_in += len;
	v->port->counts.bytes_in += len;
	touch(v);
	if (!v->upstream || !len)
		return;
	put_hex(&w, len);
	put(&w, STR("\r\n"));
	parts[0] = uv_buf_init(line, (unsigned)(w.at - line));
	parts[1] = uv_buf_init((char *)bytes, (unsigned)len);
	parts[2] = uv_buf_init("\r\n", 2);
	unsent = is_chunked ? upstream_write(v->upstream, parts, 3)
			    : upstream_write(v->upstream, parts + 1, 1);
	if (unsent >= UPSTREAM_WRITE_HIGH)
		wait_for_room(v);
}

static void body_end(void *arg, int status)
{
	struct visit *v = arg;
	uv_buf_t last = uv_buf_init("0\r\n\r\n", 5);
	struct stream *answer = v->answer;
	struct err err;

	if (status == 0) {
		if (v->upstream && exchange_head(v->x)->framing == HTTP_CHUNKED)
			upstream_write(v->upstream, &last, 1);
		v->is_sent = true;
	} else if (answer) {
		visit_end(v);
		stream_end(answer, status);
	} else {
		err_set(&err, status, ERR_INVALID_REQUEST,
			"the request's body was cut short or is "
			"malformed");
		visit_fail(v, &err);
	}
}

static const struct stream_consumer body_consumer = {body_data, body_end, NULL};

void visit_ask(struct visit *v)
{
	const struct http_head *head = exchange_head(v->x);
	struct forward_request forward = {
		.head = head,
		.client_address = str_of(exchange_peer(v->x)),
		.is_https = v->berthd->preview_url.is_https,
		.port = v->berthd->preview_url.port,
	};
	struct buf bytes;
	uv_buf_t part;
	struct err err;

	buf_init(&bytes, HEAD_MAX);
	if (forward_request(&bytes, &forward) < 0) {
		buf_close(&bytes);
		err_set(&err, -EMSGSIZE, ERR_HEAD_TOO_LARGE,
			"the request's head is too large to be passed on");
		visit_fail(v, &err);
		return;
	}
	v->state = VISIT_ASKED;
	v->asked_ms = now_of(v);
	visit_stop_waiting(v); /* how long the server takes is its own affair */
	part = uv_buf_init((char *)buf_at(&bytes), (unsigned)buf_len(&bytes));
	upstream_write(v->upstream, &part, 1);
	buf_close(&bytes);
	if (!v->is_sent)
		exchange_body(v->x, &body_consumer, v);
}

/* --- the answer --- */

static void bad_gateway(struct visit *v, const char *what)
{
	struct stream *answer = v->answer;
	struct err err;

	if (answer) {
		visit_end(v);
		stream_end(answer, -EBADMSG);
		return;
	}
	err_set(&err, -EBADMSG, ERR_BAD_GATEWAY, "the server on port %u %s", v->port->number, what);
	visit_fail(v, &err);
}

/*
 * A kept connection on which no answer has begun: it was closed in the moment in which it was
 * taken, or what comes is what the server had yet to say behind an earlier answer. Such a request
 * may be made again.
 */
static bool is_in_doubt(const struct visit *v)
{
	return v->state == VISIT_ASKED && v->is_kept && !v->response &&
	       now_of(v) - v->asked_ms < PREVIEW_STALE_MS;
}

static void ask_anew(struct visit *v)
{
	v->is_retried = true;
	upstream_close(take(v->upstream));
	visit_connect(v);
}

static void bad_answer(struct visit *v, const struct err *why)
{
	struct err err = *why;

	if (is_in_doubt(v)) {
		ask_anew(v);
		return;
	}
	err_wrap(&err, -EBADMSG, "gives an answer that cannot be passed on");
	bad_gateway(v, err.sentence);
}

static void answer_pause(void *arg)
{
	struct visit *v = arg;

	v->is_client_full = true;
	visit_hold(v);
	upstream_pause(v->upstream);
}

static void answer_resume(void *arg)
{
	struct visit *v = arg;

	v->is_client_full = false;
	visit_hold(v);
	upstream_resume(v->upstream);
}

static void answer_abort(void *arg)
{
	visit_end(arg);
}

static const struct stream_producer answer_producer = {answer_pause, answer_resume, answer_abort};

/* What the client says to a server that has switched protocols. */
static void tunnel_data(void *arg, const char *bytes, size_t len)
{
	struct visit *v = arg;
	uv_buf_t part = uv_buf_init((char *)bytes, (unsigned)len);

	v->bytes_in += len;
	v->port->counts.bytes_in += len;
	touch(v);
	if (upstream_write(v->upstream, &part, 1) >= UPSTREAM_WRITE_HIGH)
		wait_for_room(v);
}

static void tunnel_end(void *arg, int status)
{
	struct visit *v = arg;
	struct stream *answer = v->answer;

	if (status == 0) {
		touch(v);
		upstream_shutdown(v->upstream);
		return;
	}
	visit_end(v);
	stream_end(answer, status);
}

static const struct stream_consumer tunnel_consumer = {tunnel_data, tunnel_end, NULL};

static int make_lines(struct visit *v, struct buf *lines)
{
	const struct http_head *head = exchange_head(v->x);
	const struct http_response *r = v->response;
	struct forward_back back = {
		.keep_length = r->framing == HTTP_NO_BODY && r->has_length && r->status != 204,
		.port = v->port->number,
		.scheme = v->berthd->preview_url.is_https ? STR("https") : STR("http"),
		.host = head->host,
	};

	return forward_response(lines, r, &back);
}

static void finish_answer(struct visit *v, bool has_more)
{
	struct stream *answer = v->answer;
	struct buf trailers;

	buf_init(&trailers, HTTP_TRAILER_MAX);
	if (buf_len(&v->trailers) &&
	    forward_trailers(&trailers,
			     (struct str){buf_at(&v->trailers), buf_len(&v->trailers)}) == 0)
		exchange_trailers(v->x, (struct str){buf_at(&trailers), buf_len(&trailers)});
	buf_close(&trailers);
	/* A server that gives HEAD a body says more than its answer, maybe only later: that must
	 * not be what another visitor gets. */
	if (v->response->keep_alive && v->is_sent && !has_more && !v->parser.is_bodiless)
		upstream_keep(take(v->upstream));
	visit_end(v);
	stream_end(answer, 0);
}

/* The lines of 1xx are passed on; 100 itself was said by us, when the body was wanted. */
static void pass_interim(struct visit *v, const struct relay *relay)
{
	if (++v->interim > PREVIEW_INTERIM || v->interim_bytes > HTTP_HEAD_MAX)
		bad_gateway(v, "gives only answers that announce another");
	else if (relay->status != 100)
		exchange_interim(v->x, relay);
}

static void begin_answer(struct visit *v, const struct relay *relay)
{
	bool is_tunnel = relay->status == 101;

	if (is_tunnel)
		exchange_take_over(v->x, &tunnel_consumer, v);
	v->status = relay->status;
	v->answer = exchange_relay(v->x, relay, &answer_producer, v);
	if (!v->answer) { /* nobody is there any more, and nothing more is called */
		v->status = 0;
		visit_end(v);
		return;
	}
	v->state = is_tunnel ? VISIT_TUNNEL : VISIT_ANSWERING;
	visit_hold(v);
}

static void take_head(struct visit *v, struct str bytes)
{
	struct http_response *r;
	struct relay relay;
	struct buf lines;
	struct err err;

	if (http_response_parse(&v->parser, exchange_arena(v->x), bytes, &v->response, &err) < 0) {
		bad_answer(v, &err);
		return;
	}
	r = v->response;
	v->interim_bytes += r->status < 200 ? bytes.len : 0; /* the arena keeps them all */
	if (r->is_upgrade && !v->is_upgrade) {
		bad_gateway(v, "switches protocols though nobody asked for it");
		return;
	}
	buf_init(&lines, HEAD_MAX);
	if (make_lines(v, &lines) < 0) {
		buf_close(&lines);
		bad_gateway(v, "answers with a head that is too large");
		return;
	}
	relay = (struct relay){r->status,
			       r->reason,
			       {buf_at(&lines), buf_len(&lines)},
			       r->framing,
			       r->content_length};
	if (r->status < 200 && !r->is_upgrade)
		pass_interim(v, &relay);
	else
		begin_answer(v, &relay);
	buf_close(&lines);
}

static void push(void *arg, const char *bytes, size_t len)
{
	struct visit *v = arg;

	v->bytes_out += len;
	v->port->counts.bytes_out += len;
	if (v->answer)
		stream_push(v->answer, bytes, len);
}

static void take_body(struct visit *v, struct str *in)
{
	enum http_result result = HTTP_DONE;
	struct err err;

	if (v->response->framing == HTTP_UNTIL_CLOSE) {
		push(v, in->at, in->len);
		in->len = 0;
		return;
	}
	if (v->response->framing != HTTP_NO_BODY)
		result = http_body_feed(&v->parser, in, push, v, &err);
	if (result == HTTP_BAD)
		bad_answer(v, &err);
	else if (result == HTTP_DONE)
		finish_answer(v, in->len > 0);
}

static void take_input(struct visit *v, struct str in)
{
	struct str head;
	struct err err;

	while (v->state == VISIT_ASKED && in.len) {
		switch (http_response_feed(&v->parser, &in, &head, &err)) {
		case HTTP_MORE:
			return;
		case HTTP_BAD:
			bad_answer(v, &err);
			return;
		case HTTP_DONE:
			take_head(v, head);
		}
	}
	if (v->state == VISIT_ANSWERING && (in.len || v->response->framing == HTTP_NO_BODY))
		take_body(v, &in);
	else if (v->state == VISIT_TUNNEL && in.len)
		push(v, in.at, in.len);
}

/* --- from the upstream --- */

static void on_connected(void *arg, int error)
{
	struct visit *v = arg;

	if (error == 0) {
		visit_ask(v);
		return;
	}
	upstream_close(take(v->upstream));
	visit_refused(v, error);
}

static void on_data(void *arg, const char *bytes, size_t len)
{
	struct visit *v = arg;
	struct exchange *x = v->x;

	touch(v);
	exchange_cork(x);
	take_input(v, (struct str){bytes, len});
	exchange_uncork(x);
}

static void on_end(void *arg, int status)
{
	struct visit *v = arg;
	struct stream *answer = v->answer;
	bool is_whole = status == 0 && (v->state == VISIT_TUNNEL ||
					(v->response && v->response->framing == HTTP_UNTIL_CLOSE));

	if (is_in_doubt(v) && http_parser_is_idle(&v->parser)) {
		ask_anew(v);
	} else if (!answer && v->sb->state != SANDBOX_RUNNING && v->sb->state != SANDBOX_FROZEN) {
		visit_stopped(v);
	} else if (!answer) {
		bad_gateway(v, "closed the connection without an answer");
	} else {
		visit_end(v);
		stream_end(answer, is_whole ? 0 : -ECONNRESET);
	}
}

static void on_room(void *arg)
{
	struct visit *v = arg;

	v->is_server_full = false;
	visit_hold(v);
	exchange_body_resume(v->x);
}

const struct upstream_ops visit_upstream_ops = {on_connected, on_data, on_end, on_room};
