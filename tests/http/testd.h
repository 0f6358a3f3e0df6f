/*
 * The test server: the daemon library with routes that no real daemon has, so that the suites can
 * reach every corner of the HTTP server. testd.c owns the state; its handlers live in routes.c
 * (whole answers) and flows.c (streams, events, WebSockets).
 */
#ifndef BERTH_TESTS_TESTD_H
#define BERTH_TESTS_TESTD_H

#include <stdint.h>

#include <uv.h>

#include "daemon/exchange.h"
#include "daemon/server.h"

#define TESTD_MESSAGE_MAX (1024 * 1024) /* of a WebSocket */

struct testd {
	uv_loop_t loop;
	uv_signal_t terminate;
	struct server *server;
	unsigned grace_ms;
	const char *token; /* that TCP needs; NULL: none */
	/* What GET /stats tells. */
	unsigned handled;    /* POST /count: a smuggled request would show here */
	unsigned gone;       /* on_gone callbacks */
	unsigned slow;       /* GET /slow that are under way */
	unsigned aborted;    /* answers whose client went away */
	unsigned cut_bodies; /* streamed bodies that ended with an error */
	unsigned websockets; /* open */
	unsigned close_code; /* of the last WebSocket */
};

struct testd *testd_of(struct exchange *x);

/* An unsigned number of the query; `fallback` if it is missing or nonsense. */
uint64_t query_number(struct exchange *x, const char *name, uint64_t fallback);

handler_fn handle_buffered, handle_json, handle_count, handle_refuse, handle_stats, handle_empty,
	handle_not_modified, handle_path, handle_slow, handle_ok;
handler_fn handle_echo, handle_discard, handle_big, handle_cut, handle_sse, handle_ws;

#endif
