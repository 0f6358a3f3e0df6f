/* The WebSocket handshake (RFC 6455, section 4.2) and close codes; frames are wslay's work. */
#ifndef BERTH_PROTO_WEBSOCKET_H
#define BERTH_PROTO_WEBSOCKET_H

#include "base/err.h"
#include "proto/http.h"

#define WEBSOCKET_ACCEPT_LEN 28

/*
 * Checks the request (GET, HTTP/1.1, Upgrade: websocket, version 13, a key of 16 bytes) and writes
 * the terminated Sec-WebSocket-Accept value. A request for another version is ERR_UPGRADE_REQUIRED.
 */
int websocket_accept_key(const struct http_head *head, char ret[WEBSOCKET_ACCEPT_LEN + 1],
			 struct err *err);

/* What a server must answer to this key, terminated. */
void websocket_accept_for(struct str key, char ret[WEBSOCKET_ACCEPT_LEN + 1]);

#endif
