/*
 * An answer that is a stream of server-sent events. A comment line goes out after 15 s of silence,
 * so that no proxy calls the connection idle. The embedding object owns the struct sse; after
 * sse_end() or the gone callback nothing is written any more.
 */
#ifndef BERTH_DAEMON_SSE_H
#define BERTH_DAEMON_SSE_H

#include <stdbool.h>

#include <uv.h>

#include "base/str.h"
#include "daemon/exchange.h"

#define SSE_HEARTBEAT_MS 15000

struct sse {
	struct stream *stream;
	uv_timer_t heartbeat;
	void (*closed)(void *arg);
	void *arg;
};

/*
 * Answers 200 with text/event-stream. `producer` is told to pause when the client does not keep up
 * and to abort when it is gone; `closed` is called once after sse_end(), when the struct may be
 * freed.
 */
void sse_start(struct sse *sse, struct exchange *x, const struct stream_producer *producer,
	       void (*closed)(void *arg), void *arg);
int sse_send(struct sse *sse, struct str event, struct str id, struct str data);
void sse_end(struct sse *sse);

#endif
