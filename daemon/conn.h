/*
 * One client connection. Private to the server's own files: server.c, conn.c, conn_output.c and
 * exchange.c; everybody else sees exchanges and streams.
 *
 *	accept ──> IDLE ── first byte ──> HEAD ── checked ──> BODY ── read whole ──> BUSY
 *	                                   └── no body, a streamed one, or refused ──> BUSY
 *	BUSY ── answered ──> FLUSH ── sent ──> IDLE
 *	                       ├── a body is left ──> DRAIN ── read ──> IDLE
 *	                       └── close wanted ──> LINGER ── the client's end ──> CLOSED
 *	IDLE, HEAD, DRAIN ── no more requests, but answers unsent ──> FLUSH
 *	any of them ── error, time-out, nothing left to do ──> CLOSED
 *
 * HEAD collects a head, BODY a buffered body. In BUSY a handler owes the answer, and the bytes of a
 * streamed body flow beside it. FLUSH waits until the answer's bytes are out. DRAIN reads the
 * rest of a refused body so that the connection can be kept; LINGER has sent everything and waits
 * for the client's end, so that no reset overtakes the answer.
 *
 * A struct conn is freed when its handle is closed and no exchange is left, whichever is later.
 */
#ifndef BERTH_DAEMON_CONN_H
#define BERTH_DAEMON_CONN_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

#include "base/buf.h"
#include "base/list.h"
#include "daemon/exchange.h"
#include "daemon/server.h"
#include "daemon/stream.h"
#include "proto/http.h"

/* The most that is ever unsent: a whole answer, or a stream's high mark and overrun. */
#define CONN_OUTPUT_MAX (2 * EXCHANGE_ARENA_MAX)
/* Output smaller than this waits for the end of the input at hand, so that answers share a write.
 */
#define CONN_CORK_MAX 16384

enum conn_state {
	CONN_IDLE,
	CONN_HEAD,
	CONN_BODY,
	CONN_BUSY,
	CONN_FLUSH,
	CONN_DRAIN,
	CONN_LINGER,
	CONN_CLOSED,
	CONN_STATE_COUNT,
};

/* On which terms a connection was let in. */
enum admission {
	ADMIT_TRUSTED, /* whoever can reach the listener may ask */
	ADMIT_TOKEN,   /* each request needs a token, unless its route is open */
	ADMIT_NOT,     /* too many are there: it gets a 503, and time to read it */
	ADMISSION_COUNT,
};

enum answer_framing { ANSWER_SIZED, ANSWER_CHUNKED, ANSWER_UNTIL_CLOSE };

struct answer_header {
	struct answer_header *next;
	const char *name, *value;
};

struct exchange {
	struct conn *conn;
	struct arena arena;
	struct http_head *head;
	const struct route *route;
	struct route_captures captures;

	struct buf buffered;    /* the body of a BODY_BUFFERED route */
	struct stream body;     /* the body of a BODY_STREAMED route, or an upgrade's input */
	uint64_t body_received; /* without framing */
	bool body_wanted;       /* a consumer is attached */
	bool body_complete;     /* everything was read, or there is none */
	bool continue_owed;     /* the client waits for 100 Continue */

	struct stream answer;
	struct answer_header *headers, **headers_tail;
	struct str trailers;
	enum answer_framing framing;
	uint64_t answer_left; /* of a stream whose length was told */
	bool length_known;
	bool is_begun;    /* the answer's head is written */
	bool is_answered; /* nothing more will be written */
	bool is_upgraded;
	bool is_half_open; /* see struct upgrade */
	bool is_gone;      /* on_gone was called, or would have been */
	void (*on_gone)(void *arg);
	void *on_gone_arg;
};

struct conn {
	union {
		uv_handle_t handle;
		uv_stream_t stream;
		uv_tcp_t tcp;
		uv_pipe_t pipe;
	} uv;
	struct server *server;
	struct list link;    /* server's connections */
	struct list timeout; /* one of the server's queues, by state */
	uint64_t deadline_ms;
	enum conn_state state;

	struct http_parser parser;
	struct buf ahead;  /* read, but not parsed yet */
	struct buf output; /* not handed to the kernel yet */
	struct buf flying; /* handed to uv_write */
	uv_write_t write;
	unsigned hung;      /* looks at a client that is gone, and whose bytes nobody takes */
	size_t unsent_seen; /* when a slow client's progress was last looked at */

	struct exchange *exchange;
	enum admission admission;
	bool is_known; /* it has shown a valid token */
	bool is_reading;
	bool is_processing; /* conn_process() is on the stack: leave the rest to it */
	bool is_corked;     /* exchange_cork() */
	bool is_flying;
	bool proceed_wanted; /* conn_proceed_soon() */
	bool close_wanted;   /* after the answer at hand */
	bool is_eof;         /* the client sends no more */
	bool is_garbled;     /* the request's framing is lost: what still comes is dropped */
	bool is_broken;      /* nothing can be sent any more: conn_expire() cuts it soon */
	bool is_handle_closed;
	char peer[INET6_ADDRSTRLEN]; /* of exchange_peer(); "": not asked for yet, or none */
};

/* conn.c */
/* -ENOMEM: it still waits to be accepted, and the listener hears of no other until it is. */
int conn_accept(struct server *server, uv_stream_t *listener, enum admission admission);
/* The state has changed from outside of conn_process(): go on with what there is to do. */
void conn_proceed(struct conn *c);
/* The same on the loop's next turn, for callers that must not be called back at once. */
void conn_proceed_soon(struct conn *c);
/* Ends the connection now; a handler that still owes an answer is told. */
void conn_cut(struct conn *c);
/* Its time is up. */
void conn_expire(struct conn *c);
/* Nothing can be written any more; from within a call of the producer's, so only noted. */
void conn_broken(struct conn *c);

/* conn_output.c */
/* Writes now what the kernel takes and keeps the rest. */
void conn_output(struct conn *c, const uv_buf_t *parts, unsigned count);
void conn_flush(struct conn *c);
/* From a pipe to the kernel, if nothing is before it; how much, without waiting. */
size_t conn_move(struct conn *c, int pipe_fd, size_t max);
static inline size_t conn_unsent(const struct conn *c)
{
	return buf_len(&c->output) + buf_len(&c->flying);
}

/* dispatch.c */
/* Finds the request's route and checks the request against it and its listener. */
int dispatch_check(struct exchange *x, struct err *err);
/* Its body comes before its handler, and is not there yet. */
bool dispatch_reads_first(const struct exchange *x);
/* Calls the handler. */
void dispatch_serve(struct exchange *x);

/* exchange.c */
/* NULL without memory. The arena is taken over. `head` is NULL for a request that has none. */
struct exchange *exchange_new(struct conn *c, struct arena *arena, struct http_head *head);
void exchange_free(struct exchange *x);
/* The client is gone: tells whoever needs to know, once. */
void exchange_gone(struct exchange *x, int status);
/* HEAD: once the answer's head is out, nobody wants the rest of a stream. */
void exchange_skip_body(struct exchange *x);
/* Begins an answer whose head is formatted. Without one (at is NULL) there was no memory for it, or
 * nobody is there to read it. */
struct stream *exchange_begin(struct exchange *x, struct str head,
			      const struct stream_producer *producer, void *arg);
/* Nothing more will be written, and nobody is called any more. */
void exchange_answered(struct exchange *x);
/* Whether the connection can be kept after this answer. */
void exchange_decide_close(struct exchange *x);
/* Sends 100 Continue if the client waits for it. */
void exchange_continue(struct exchange *x);

/* server.c */
/* Puts the connection where its state's time limit is watched. */
void server_watch(struct conn *c);
/* Has conn_expire() called on the loop's next turn. */
void server_watch_now(struct conn *c);
void server_conn_added(struct conn *c);
/* It has its descriptor. */
void server_conn_opened(struct conn *c);
/* The handle of a connection that this listener will accept. */
int server_init_peer(uv_stream_t *listener, uv_handle_t *peer);
void server_conn_removed(struct conn *c);
/* An answer with this status begins. */
void server_count_answer(struct server *server, int status);
/* The current Date header's value. */
struct str server_date(struct server *server);
const struct server_config *server_config(const struct server *server);
bool server_is_draining(const struct server *server);
char *server_read_buffer(struct server *server);

#endif
