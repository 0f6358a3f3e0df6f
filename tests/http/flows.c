#include "tests/http/testd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/sse.h"
#include "daemon/websocket.h"

/* The body comes back as the answer; whichever side is full stops the other. */
struct echo {
	struct exchange *x;
	struct stream *out;
};

static void echo_pause(void *arg)
{
	struct echo *echo = arg;

	exchange_body_pause(echo->x);
}

static void echo_resume(void *arg)
{
	struct echo *echo = arg;

	exchange_body_resume(echo->x);
}

static void on_abort(void *arg)
{
	struct exchange *x = arg;

	testd_of(x)->aborted++;
}

static void echo_abort(void *arg)
{
	struct echo *echo = arg;

	on_abort(echo->x);
}

static void echo_data(void *arg, const char *bytes, size_t len)
{
	struct echo *echo = arg;

	stream_push(echo->out, bytes, len);
}

static void echo_end(void *arg, int status)
{
	struct echo *echo = arg;

	if (status < 0)
		testd_of(echo->x)->cut_bodies++;
	stream_end(echo->out, status);
}

void handle_echo(struct exchange *x)
{
	static const struct stream_producer producer = {echo_pause, echo_resume, echo_abort};
	static const struct stream_consumer consumer = {echo_data, echo_end};
	struct echo *echo = arena_zalloc(exchange_arena(x), sizeof(*echo));

	if (!echo)
		abort();
	echo->x = x;
	exchange_body(x, &consumer, echo);
	echo->out = exchange_respond(x, 200, "application/octet-stream", &producer, echo);
}

/* Counts the body and answers at its end; with ?ms= it takes it only after that while. */
struct discard {
	struct exchange *x;
	uint64_t bytes;
};

static void discard_data(void *arg, const char *bytes, size_t len)
{
	struct discard *discard = arg;

	discard->bytes += len;
}

static void discard_end(void *arg, int status)
{
	struct discard *discard = arg;
	struct err err;
	char text[32];

	if (status < 0) {
		testd_of(discard->x)->cut_bodies++;
		err_set(&err, status,
			status == -EFBIG ? ERR_PAYLOAD_TOO_LARGE : ERR_INVALID_REQUEST,
			"the body did not come whole");
		exchange_reply_err(discard->x, &err);
		return;
	}
	snprintf(text, sizeof(text), "%llu\n", (unsigned long long)discard->bytes);
	exchange_reply(discard->x, 200, "text/plain", str_of(text));
}

static void discard_begin(struct discard *discard)
{
	static const struct stream_consumer consumer = {discard_data, discard_end};

	exchange_body(discard->x, &consumer, discard);
}

/* The timer outlives the exchange by its close. */
struct late {
	uv_timer_t timer;
	struct discard *discard;
};

static void on_late_closed(uv_handle_t *handle)
{
	free(handle->data);
}

static void on_late_timer(uv_timer_t *timer)
{
	struct late *late = timer->data;

	discard_begin(late->discard);
	uv_close((uv_handle_t *)timer, on_late_closed);
}

static void discard_later(struct discard *discard, uint64_t wait_ms)
{
	struct late *late = calloc(1, sizeof(*late));

	if (!late)
		abort();
	late->discard = discard;
	late->timer.data = late;
	uv_timer_init(&testd_of(discard->x)->loop, &late->timer);
	uv_timer_start(&late->timer, on_late_timer, wait_ms, 0);
}

void handle_discard(struct exchange *x)
{
	struct discard *discard = arena_zalloc(exchange_arena(x), sizeof(*discard));
	uint64_t wait_ms = query_number(x, "ms", 0);

	if (!discard)
		abort();
	discard->x = x;
	if (wait_ms)
		discard_later(discard, wait_ms);
	else
		discard_begin(discard);
}

/* As many bytes as asked for; byte n is n modulo 251. */
struct big {
	struct exchange *x;
	struct stream *out;
	uint64_t left;
	bool is_paused, is_over;
	char block[251 * 200];
};

static void big_pump(struct big *big)
{
	while (big->left > 0 && !big->is_paused && !big->is_over) {
		size_t len = big->left < sizeof(big->block) ? big->left : sizeof(big->block);

		big->left -= len;
		stream_push(big->out, big->block, len);
	}
	if (big->left == 0 && !big->is_over) {
		big->is_over = true;
		stream_end(big->out, 0);
	}
}

static void big_pause(void *arg)
{
	struct big *big = arg;

	big->is_paused = true;
}

static void big_resume(void *arg)
{
	struct big *big = arg;

	big->is_paused = false;
	big_pump(big);
}

static void big_abort(void *arg)
{
	struct big *big = arg;

	big->is_over = true;
	on_abort(big->x);
}

void handle_big(struct exchange *x)
{
	static const struct stream_producer producer = {big_pause, big_resume, big_abort};
	struct big *big = arena_zalloc(exchange_arena(x), sizeof(*big));

	if (!big)
		abort();
	for (size_t i = 0; i < sizeof(big->block); i++)
		big->block[i] = (char)(i % 251);
	big->x = x;
	big->left = query_number(x, "bytes", 1024);
	if (query_number(x, "sized", 0))
		exchange_length(x, big->left);
	big->out = exchange_respond(x, 200, "application/octet-stream", &producer, big);
	if (big->out)
		big_pump(big);
}

static void ignore(void *arg)
{
}

/* An answer that fails halfway; with a length, by ending before it. */
void handle_cut(struct exchange *x)
{
	static const struct stream_producer producer = {ignore, ignore, on_abort};
	uint64_t length = query_number(x, "length", 0);
	struct stream *out;

	if (length)
		exchange_length(x, length);
	out = exchange_respond(x, 200, "text/plain", &producer, x);
	if (!out)
		return;
	stream_push(out, "begun", 5);
	stream_end(out, length ? 0 : -EIO);
}

/* `count` events, one per `interval_ms`; with an interval of 0 as fast as the client reads. */
struct events {
	struct testd *testd;
	struct sse sse;
	uv_timer_t timer;
	uint64_t sent, count, interval_ms;
	unsigned closing; /* handles of ours that are not closed yet */
	bool is_paused, is_over;
};

static void events_release(struct events *e)
{
	if (--e->closing == 0)
		free(e);
}

static void on_events_closed(void *arg)
{
	events_release(arg);
}

static void on_events_timer_closed(uv_handle_t *handle)
{
	events_release(handle->data);
}

static void events_end(struct events *e)
{
	if (e->is_over)
		return;
	e->is_over = true;
	e->closing = 2;
	uv_close((uv_handle_t *)&e->timer, on_events_timer_closed);
	sse_end(&e->sse);
}

static void events_send(struct events *e)
{
	char id[32], data[64];

	snprintf(id, sizeof(id), "%llu", (unsigned long long)e->sent);
	snprintf(data, sizeof(data), "event %s\nof %llu", id, (unsigned long long)e->count);
	e->sent++;
	sse_send(&e->sse, STR("tick"), str_of(id), str_of(data));
}

static void on_events_timer(uv_timer_t *timer)
{
	struct events *e = timer->data;

	do {
		if (e->sent < e->count && !e->is_paused && !e->is_over)
			events_send(e);
	} while (e->interval_ms == 0 && e->sent < e->count && !e->is_paused && !e->is_over);
	if (e->sent == e->count)
		events_end(e);
}

static void events_pause(void *arg)
{
	struct events *e = arg;

	e->is_paused = true;
}

static void events_resume(void *arg)
{
	struct events *e = arg;

	e->is_paused = false;
	if (!e->is_over)
		uv_timer_start(&e->timer, on_events_timer, 0, e->interval_ms);
}

static void events_abort(void *arg)
{
	struct events *e = arg;

	e->testd->aborted++;
	events_end(e);
}

void handle_sse(struct exchange *x)
{
	static const struct stream_producer producer = {events_pause, events_resume, events_abort};
	struct events *e = calloc(1, sizeof(*e));
	unsigned heartbeat_ms = (unsigned)query_number(x, "heartbeat_ms", SSE_HEARTBEAT_MS);
	int r;

	if (!e)
		abort();
	e->testd = testd_of(x);
	e->count = query_number(x, "count", 3);
	e->interval_ms = query_number(x, "interval_ms", 1);
	e->timer.data = e;
	uv_timer_init(&e->testd->loop, &e->timer);
	r = sse_start(&e->sse, x,
		      &(struct sse_config){
			      .loop = &e->testd->loop,
			      .heartbeat_ms = heartbeat_ms,
			      .producer = &producer,
			      .closed = on_events_closed,
			      .arg = e,
		      });
	if (r < 0)
		events_end(e);
	else
		uv_timer_start(&e->timer, on_events_timer, e->interval_ms, e->interval_ms);
}

/* Messages come back as they were; with ?length=1 only how long they were. */
struct ws {
	struct testd *testd;
	struct websocket *socket;
	bool wants_length;
};

static void ws_message(void *arg, bool is_text, struct str bytes)
{
	struct ws *ws = arg;
	char text[32];
	int r;

	if (str_eq(bytes, STR("close 4001"))) {
		websocket_close(ws->socket, 4001, STR("as asked"));
		return;
	}
	if (ws->wants_length) {
		snprintf(text, sizeof(text), "%zu", bytes.len);
		bytes = str_of(text);
	}
	r = websocket_send(ws->socket, ws->wants_length || is_text, bytes);
	if (r == -ENOBUFS)
		websocket_close(ws->socket, 1011, STR("cannot keep up"));
}

static void ws_pause(void *arg)
{
	struct ws *ws = arg;

	websocket_pause(ws->socket);
}

static void ws_resume(void *arg)
{
	struct ws *ws = arg;

	websocket_resume(ws->socket);
}

static void ws_closed(void *arg, uint16_t code)
{
	struct ws *ws = arg;

	ws->testd->websockets--;
	ws->testd->close_code = code;
	free(ws);
}

void handle_ws(struct exchange *x)
{
	static const struct websocket_ops ops = {ws_message, ws_pause, ws_resume, ws_closed};
	struct ws *ws = calloc(1, sizeof(*ws));

	if (!ws)
		abort();
	ws->testd = testd_of(x);
	ws->wants_length = query_number(x, "length", 0) != 0;
	ws->socket = websocket_accept(x, &ops, TESTD_MESSAGE_MAX, ws);
	if (ws->socket)
		ws->testd->websockets++;
	else
		free(ws);
}
