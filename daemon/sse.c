#include "daemon/sse.h"

#include <errno.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "proto/sse.h"

#define EVENT_MAX (17 * 1024 * 1024) /* one event as bytes on the wire: a result of a context */

static void on_silence(uv_timer_t *timer)
{
	struct sse *sse = container_of(timer, struct sse, heartbeat);

	/* A client that is behind has bytes coming anyway. */
	if (!sse->stream->is_paused)
		stream_push(sse->stream, SSE_HEARTBEAT.at, SSE_HEARTBEAT.len);
}

static void on_pause(void *arg)
{
	struct sse *sse = arg;

	sse->config.producer->pause(sse->config.arg);
}

static void on_resume(void *arg)
{
	struct sse *sse = arg;

	sse->config.producer->resume(sse->config.arg);
}

static void on_abort(void *arg)
{
	struct sse *sse = arg;

	sse->stream = NULL; /* it dies with the exchange */
	uv_timer_stop(&sse->heartbeat);
	sse->config.producer->abort(sse->config.arg);
}

static const struct stream_producer producer = {on_pause, on_resume, on_abort};

static void on_timer_closed(uv_handle_t *handle)
{
	struct sse *sse = container_of((uv_timer_t *)handle, struct sse, heartbeat);

	sse->config.closed(sse->config.arg);
}

int sse_start(struct sse *sse, struct exchange *x, const struct sse_config *config)
{
	sse->config = *config;
	uv_timer_init(config->loop, &sse->heartbeat);
	exchange_header(x, "Cache-Control", "no-store");
	sse->stream = exchange_respond(x, 200, "text/event-stream", &producer, sse);
	if (!sse->stream)
		return -EPIPE;
	return uv_timer_start(&sse->heartbeat, on_silence, config->heartbeat_ms,
			      config->heartbeat_ms);
}

int sse_send(struct sse *sse, struct str event, struct str id, struct str data)
{
	struct buf bytes;
	int r;

	if (!sse->stream)
		return -EPIPE;
	buf_init(&bytes, EVENT_MAX);
	r = sse_format(&bytes, event, id, data);
	if (r == 0) {
		uv_timer_again(&sse->heartbeat);
		stream_push(sse->stream, buf_at(&bytes), buf_len(&bytes));
	}
	buf_close(&bytes);
	return r;
}

void sse_end(struct sse *sse)
{
	struct stream *stream = sse->stream;

	sse->stream = NULL;
	uv_close((uv_handle_t *)&sse->heartbeat, on_timer_closed);
	if (stream)
		stream_end(stream, 0);
}
