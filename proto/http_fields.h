/*
 * Private to proto/http*.c: the header lines of a head that our scan let pass, and what those that
 * concern us say, before it is judged.
 */
#ifndef BERTH_PROTO_HTTP_FIELDS_H
#define BERTH_PROTO_HTTP_FIELDS_H

#include "proto/http_scan.h"

struct http_fields {
	const struct http_start *start;
	size_t hidden; /* bytes at the head's front in whose place llhttp is shown GET */

	struct http_header *headers;
	size_t headers_len;
	struct str host, length, coding;
	unsigned hosts, lengths, codings;
	bool has_close, has_keep_alive, has_upgrade, has_protocol;
	bool has_continue, has_other_expectation;
};

/* Cuts `head` into headers, which are made in the arena, with llhttp's second opinion on it. */
int http_fields_parse(struct http_fields *f, struct arena *arena, struct str head, struct err *err);

/* How the body is framed, if Transfer-Encoding or Content-Length say so; else both are left. */
int http_fields_framing(const struct http_fields *f, enum http_framing *framing, uint64_t *length,
			struct err *err);

#endif
