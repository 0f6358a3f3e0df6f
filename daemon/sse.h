/*
 * An answer that is a stream of server-sent events. A comment line goes out after a while of
 * silence, so that no proxy calls the connection idle.
 *
 * Whoever embeds the struct sse is the producer: it is told to pause when the client does not keep
 * up, and to abort when it is gone. In both cases, aborted or finished, it calls sse_end() once;
 * then `closed` comes, and the struct may be freed.
 */
#ifndef BERTH_DAEMON_SSE_H
#define BERTH_DAEMON_SSE_H

#include <stdbool.h>

#include <uv.h>

#include "base/str.h"
#include "daemon/exchange.h"

#define SSE_HEARTBEAT_MS 15000

struct sse_config {
	uv_loop_t *loop;
	unsigned heartbeat_ms;
	const struct stream_producer *producer;
	void (*closed)(void *arg);
	void *arg; /* for the producer and `closed` */
};

struct sse {
	struct sse_config config;
	struct stream *stream; /* NULL once nobody listens */
	uv_timer_t heartbeat;
};

/* Answers 200 with text/event-stream. -EPIPE if the client is already gone: then sse_end() too. */
int sse_start(struct sse *sse, struct exchange *x, const struct sse_config *config);

/* -EPIPE when nobody listens, -EMSGSIZE for an event over 17 MiB, -EINVAL for a bad name. */
int sse_send(struct sse *sse, struct str event, struct str id, struct str data);

void sse_end(struct sse *sse);

#endif
