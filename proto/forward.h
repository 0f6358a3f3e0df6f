/*
 * Heads on their way through the preview proxy: what of a client's request goes to the server
 * inside, and what of its answer goes back. Facts in, bytes out; no I/O.
 *
 *	client ─ struct http_head ─> forward_request ─ a head ────────> server inside
 *	client <─ header lines ─ forward_response <─ struct http_response ─
 *
 * Each side frames its own messages, so nothing that is meant for one connection only passes:
 * Connection and what it names, Transfer-Encoding, Upgrade, TE and their like. Names are compared
 * without regard to case, and to "-" and "_", which are the same to a server that makes variables
 * of them.
 *
 * All of them return 0, or -EMSGSIZE past the limit of `out` (or of what Connection may name),
 * -ENOMEM, or -EINVAL for a value that would not stay on its line; then `out` is as it was.
 */
#ifndef BERTH_PROTO_FORWARD_H
#define BERTH_PROTO_FORWARD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "proto/http_response.h"

#define FORWARD_NAMES_MAX 32 /* headers that one message's Connection may name */

struct forward_request {
	const struct http_head *head;
	struct str client_address; /* as text, without a port */
	bool is_https;             /* how the client came */
	uint16_t port;             /* and to which one; 0: the scheme's own */
};

/* It asks for another protocol, and that is passed on. */
bool forward_is_upgrade(const struct http_head *head);

/*
 * The whole head, with its empty line: the client's headers in their order, then Host, what we say
 * about the client (nothing of the kind that it said itself passes), the framing and, if it wants
 * one, the upgrade.
 */
int forward_request(struct buf *out, const struct forward_request *f);

struct forward_back {
	uint16_t port;     /* the exposed one, by which the server may know itself */
	struct str scheme; /* of the preview: "http" or "https" */
	struct str host;   /* of the preview, with its port if it has one; empty: not known */
	bool keep_length;  /* Content-Length passes, as there is no body (HEAD, 304) */
};

/*
 * Header lines only, "Name: value\r\n" each, without an empty one behind them. Location and
 * Content-Location that name the server by a local address become those of the preview. Of an
 * upgrade Connection and Upgrade are there too; the framing never is, but for keep_length.
 */
int forward_response(struct buf *out, const struct http_response *r, const struct forward_back *b);

/* Trailer lines, as a parser keeps them, without those that may not stand behind a body. */
int forward_trailers(struct buf *out, struct str lines);

#endif
