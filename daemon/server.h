/*
 * The HTTP server: listeners, connections, limits. It owns every connection; handlers see only
 * exchanges. One loop thread; several servers (API, previews) may share a loop.
 */
#ifndef BERTH_DAEMON_SERVER_H
#define BERTH_DAEMON_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uv.h>

#include "base/err.h"
#include "base/str.h"
#include "daemon/exchange.h"

/* What a connection may hold in memory; see also proto/http.h. */
#define CONN_READ_MAX   (64 * 1024)  /* one read; one buffer per server */
#define CONN_AHEAD_MAX  (64 * 1024)  /* pipelined bytes kept while an answer is owed */
#define CONN_WRITE_HIGH (64 * 1024)  /* unsent bytes at which a producer is paused */
#define CONN_WRITE_LOW  (16 * 1024)  /* and resumed */
#define CONN_DRAIN_MAX  (256 * 1024) /* of a refused body that are read for politeness */

/*
 * Whoever reaches a listener with tokens can open connections without having one. So all of its
 * kind together may take only part of `connections`: they leave a quarter, but at least 16 and at
 * most half, to listeners without tokens, such as the Unix socket. And a connection that has not
 * shown a valid token yet may be idle only for `head_timeout_ms`.
 */
struct server_limits {
	unsigned connections;       /* more are answered 503 and closed */
	unsigned turned_away;       /* of those, how many may be reading their 503 */
	unsigned head_timeout_ms;   /* from a head's first byte to its last */
	unsigned body_timeout_ms;   /* for the whole of a buffered body */
	unsigned idle_timeout_ms;   /* a kept-alive connection without a request */
	unsigned write_timeout_ms;  /* a complete answer of which nothing is taken */
	unsigned linger_timeout_ms; /* waiting for the client's close after an early refusal */
};

#define SERVER_LIMITS_DEFAULT                                                                      \
	((struct server_limits){                                                                   \
		.connections = 8192,                                                               \
		.turned_away = 64,                                                                 \
		.head_timeout_ms = 10000,                                                          \
		.body_timeout_ms = 60000,                                                          \
		.idle_timeout_ms = 75000,                                                          \
		.write_timeout_ms = 60000,                                                         \
		.linger_timeout_ms = 2000,                                                         \
	})

struct server_config {
	uv_loop_t *loop;
	const struct route *routes; /* ends with a pattern of NULL */
	const struct route *any;    /* instead of them: takes whatever comes; or NULL */
	const char *nothing_here;   /* the sentence for a path that no route has */
	struct server_limits limits;
	/* Asked for each request on a listener that needs a token, unless its route is open. */
	bool (*authorize)(void *arg, struct str token);
	void *arg; /* for authorize, and server_arg() */
};

struct server;

int server_new(struct server **ret, const struct server_config *config);

/* What the owner passed in server_config. */
void *server_arg(struct server *server);

/*
 * Serves a bound socket; listens if it does not yet. Owns the fd from here on, also on failure.
 * SOCK_STREAM, AF_UNIX or AF_INET(6).
 */
int server_listen(struct server *server, int fd, bool needs_token, struct err *err);

/*
 * Stops accepting, closes idle connections, lets the others finish their exchange, cuts what is
 * left after `grace_ms`, then calls `done` on the loop. A second call with grace 0 cuts at once.
 */
void server_drain(struct server *server, unsigned grace_ms, void (*done)(void *arg), void *arg);

/* After `done`. */
void server_free(struct server *server);

/* Without those that are being turned away. */
unsigned server_connections(const struct server *server);

#define SERVER_CLASSES 6 /* first digits of a status, from 1 to 5 */

/* How many answers of this class were begun. */
uint64_t server_answers(const struct server *server, unsigned class);

#endif
