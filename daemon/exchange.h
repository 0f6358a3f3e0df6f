/*
 * One request and its answer, as a handler sees them. The connection owns the exchange: it lives
 * from the complete head until the answer is complete, and its arena dies with it.
 *
 * A handler is called once, on the loop, after the checks (route, access, limits). It answers
 * exactly once, now or later: with one of the exchange_reply calls, by exchange_respond() and the
 * end of that stream, or by an upgrade. After answering it must not touch the exchange again.
 *
 * A client that goes away is told through `on_gone`, the body's end (-ECONNRESET) and the answer's
 * abort; the handler must still answer (or end its stream), which then goes nowhere.
 */
#ifndef BERTH_DAEMON_EXCHANGE_H
#define BERTH_DAEMON_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "daemon/stream.h"
#include "proto/http.h"
#include "proto/json.h"
#include "proto/route.h"

#define EXCHANGE_ARENA_MAX (16 * 1024 * 1024)

struct exchange;
struct server;

typedef void handler_fn(struct exchange *x);

enum route_body {
	BODY_NONE,     /* a body is refused */
	BODY_EMPTY,    /* so is one that says anything: who always sends JSON sends {} */
	BODY_BUFFERED, /* read whole, up to body_max, before the handler is called */
	BODY_STREAMED, /* the handler takes it from exchange_body() */
};

struct route {
	enum http_method method; /* GET answers HEAD too */
	const char *pattern;
	handler_fn *handle;
	enum route_body body;
	size_t body_max; /* 0 for a streamed body: no limit */
	bool is_open;    /* needs no token */
};

struct arena *exchange_arena(struct exchange *x);
struct server *exchange_server(struct exchange *x);
const struct http_head *exchange_head(struct exchange *x);
const struct route_captures *exchange_captures(struct exchange *x);

/* The body of a BODY_BUFFERED route. */
struct str exchange_buffered(struct exchange *x);

/*
 * The body of a BODY_STREAMED route: the handler becomes its consumer. To be called before the
 * answer begins (a client may wait for 100 Continue); bytes flow when the handler has returned. A
 * handler that answers without calling it refuses the body.
 */
void exchange_body(struct exchange *x, const struct stream_consumer *consumer, void *arg);
void exchange_body_pause(struct exchange *x);
void exchange_body_resume(struct exchange *x);

/* Called at most once, when the client is gone and the answer is still owed. */
void exchange_on_gone(struct exchange *x, void (*gone)(void *arg), void *arg);

/* Adds a header to the answer; before replying or responding. Value without line breaks. */
void exchange_header(struct exchange *x, const char *name, const char *value);

/* A whole answer. The body is copied. */
void exchange_reply(struct exchange *x, int status, const char *type, struct str body);
/* A whole answer without a body (204, 304). */
void exchange_reply_empty(struct exchange *x, int status);
/* Ends the writer and sends what it holds. */
void exchange_reply_json(struct exchange *x, int status, struct json_writer *w);
/* {"error": sentence, "code": code}, with the code's status. */
void exchange_reply_err(struct exchange *x, const struct err *err);
void exchange_reply_error(struct exchange *x, int error, enum err_code code, const char *sentence);
void exchange_reply_no_memory(struct exchange *x);
/* The client is gone: what is still owed to it. */
void exchange_reply_gone(struct exchange *x);

/*
 * The answer that exchange_respond() begins will have exactly this many bytes. A stream that ends
 * earlier cuts the connection; more than that must not be pushed.
 */
void exchange_length(struct exchange *x, uint64_t length);

/*
 * Begins an answer whose length is not known, unless exchange_length() told it. The handler is the
 * stream's producer and pushes into it, then ends it; a status other than 0 cuts the connection, so
 * that the client sees it was not complete. The answer to HEAD has no body: its producer is aborted
 * when the handler has returned. NULL: the client is gone and the exchange is over; nothing more
 * will be called.
 */
struct stream *exchange_respond(struct exchange *x, int status, const char *type,
				const struct stream_producer *producer, void *arg);

/* An answer that another server gave: passed on as it is, but for what concerns this connection. */
struct relay {
	int status; /* 101: the connection is handed over as by exchange_upgrade() */
	struct str reason;
	struct str lines; /* "Name: value\r\n" each, without those of framing and connection */
	enum http_framing framing; /* of the body; the lines say what has to be said of none */
	uint64_t length;
};

/*
 * As exchange_respond(). With HTTP_NO_BODY the answer is complete but for stream_end(). What comes
 * between cork and uncork goes out as one, if it is not much.
 */
struct stream *exchange_relay(struct exchange *x, const struct relay *relay,
			      const struct stream_producer *producer, void *arg);
/* The consumer of an upgraded connection's input, before exchange_relay() with a status of 101. */
void exchange_take_over(struct exchange *x, const struct stream_consumer *consumer, void *arg);
/* A head of 1xx, before the answer; nothing for a client of HTTP/1.0. */
void exchange_interim(struct exchange *x, const struct relay *relay);
/* What goes behind the last chunk, before stream_end(). */
void exchange_trailers(struct exchange *x, struct str lines);
void exchange_cork(struct exchange *x);
/* Also when it was answered meanwhile, but not later. */
void exchange_uncork(struct exchange *x);

/* The client's address without its port, "" where there is none: a Unix socket. */
const char *exchange_peer(struct exchange *x);
/* Nothing can be said any more: the client sees that its answer was cut. Instead of an answer. */
void exchange_cut(struct exchange *x);

/* Both directions of a connection that speaks another protocol from here on. */
struct upgrade {
	const char *protocol;                   /* the Upgrade header's value */
	const struct stream_consumer *consumer; /* of what the client sends */
	const struct stream_producer *producer; /* of what it gets */
	void *arg;                              /* for both */
	/* Whoever sends no more may still read, and what it sent before counts: it is not cut for
	 * that while its input is paused. */
	bool is_half_open;
};

/*
 * Answers 101 (with the headers added so far) and hands the connection over. The client's end of
 * file is the input's end; ending the returned stream closes the connection, which is then the
 * last that is heard of it. NULL as for exchange_respond().
 */
struct stream *exchange_upgrade(struct exchange *x, const struct upgrade *upgrade);

#endif
