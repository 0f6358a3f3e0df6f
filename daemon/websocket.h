/*
 * A WebSocket on an upgraded connection. Messages arrive whole, up to `message_max`; pings are
 * answered, a client that breaks the protocol is closed with the code that says so. The connection
 * owns the websocket: it lives until `closed` returns.
 */
#ifndef BERTH_DAEMON_WEBSOCKET_H
#define BERTH_DAEMON_WEBSOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "daemon/exchange.h"

struct websocket;

struct websocket_ops {
	void (*message)(void *arg, bool is_text, struct str bytes); /* text is valid UTF-8 */
	void (*pause)(void *arg); /* the client does not keep up: send no more until resume */
	void (*resume)(void *arg);
	/* The last call. `code` is the peer's close code, 1006 if the connection just ended. */
	void (*closed)(void *arg, uint16_t code);
};

/*
 * Answers 101, or the error that the request deserves: then NULL, and nothing more is called. The
 * handler has answered in both cases.
 */
struct websocket *websocket_accept(struct exchange *x, const struct websocket_ops *ops,
				   size_t message_max, void *arg);

/* 0, or -EPIPE once it is closing, -EMSGSIZE when the unsent bytes would pass CONN_WRITE_HIGH x 2.
 */
int websocket_send(struct websocket *ws, bool is_text, struct str bytes);

/* No more reads from the client until resumed. */
void websocket_pause(struct websocket *ws);
void websocket_resume(struct websocket *ws);

/* Sends a close frame; `closed` comes when the peer has answered it, or after a short while. */
void websocket_close(struct websocket *ws, uint16_t code, struct str reason);

#endif
