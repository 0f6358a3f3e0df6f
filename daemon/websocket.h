/*
 * A WebSocket on an upgraded connection. Messages arrive whole, up to `message_max`; pings are
 * answered, a client that breaks the protocol is closed with the code that says so. The websocket
 * belongs to its exchange and must not be touched after `closed`.
 */
#ifndef BERTH_DAEMON_WEBSOCKET_H
#define BERTH_DAEMON_WEBSOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "daemon/exchange.h"

#define WEBSOCKET_QUEUE_MAX (256 * 1024) /* unsent, beside the connection's own high mark */

struct websocket;

struct websocket_ops {
	void (*message)(void *arg, bool is_text, struct str bytes); /* text is valid UTF-8 */
	void (*pause)(void *arg); /* the client does not keep up: send no more until resume */
	void (*resume)(void *arg);
	/* The last call. `code`: the peer's close code, ours if we closed, 1006 if it just ended.
	 */
	void (*closed)(void *arg, uint16_t code);
};

/*
 * Answers 101, or the error that the request deserves: then NULL, and nothing is called. The
 * handler has answered in both cases.
 */
struct websocket *websocket_accept(struct exchange *x, const struct websocket_ops *ops,
				   size_t message_max, void *arg);

/*
 * 0, -EPIPE once it is closing, -ENOBUFS when WEBSOCKET_QUEUE_MAX would be passed, -ENOMEM. If it
 * calls `pause`, and that calls websocket_close(), `closed` comes before this returns -EPIPE.
 */
int websocket_send(struct websocket *ws, bool is_text, struct str bytes);

/* No more messages until resumed, but for what has been read (STREAM_OVERRUN_MAX bytes). */
void websocket_pause(struct websocket *ws);
void websocket_resume(struct websocket *ws);

/*
 * Sends a close frame, behind what is on its way already, and closes: what is still queued is
 * dropped. `closed` may come before this returns.
 */
void websocket_close(struct websocket *ws, uint16_t code, struct str reason);

#endif
