/*
 * HTTP/1.x responses, as servers inside sandboxes give them: hostile bytes in, facts out. No I/O,
 * no clock. They are held to the same rules as requests (proto/http.h), so that nothing a server
 * says can be taken for something else by whoever reads what is passed on.
 *
 *	bytes ── http_response_feed ──> HTTP_DONE: a whole head ── http_response_parse ──> facts
 *	bytes ── http_body_feed ──> data callbacks ... HTTP_DONE: the next response may follow
 *
 * A body of HTTP_UNTIL_CLOSE is everything that comes until the end of the connection; it is not
 * fed. After an error the connection's framing is lost.
 */
#ifndef BERTH_PROTO_HTTP_RESPONSE_H
#define BERTH_PROTO_HTTP_RESPONSE_H

#include "proto/http.h"

struct http_response {
	int status; /* 100 to 999 */
	int minor;  /* 1 or 0 */
	struct str reason;
	bool keep_alive; /* after this response another request may be sent */
	bool is_upgrade; /* 101: from here on it is not HTTP any more */
	bool has_length; /* Content-Length was given, also where it frames nothing (HEAD, 304) */
	enum http_framing framing;
	uint64_t content_length;
	struct http_header *headers;
	size_t headers_len;
};

/*
 * As http_head_feed(), for a parser that http_parser_init() has made or whose message is done; but
 * no empty line is skipped, and errors are those of http_response_parse().
 */
enum http_result http_response_feed(struct http_parser *p, struct str *in, struct str *ret,
				    struct err *err);

/*
 * Copies the head into the arena and says what it means. If it answers HEAD, p->is_bodiless is
 * set. Errors are
 * ERR_EXEC_TRANSPORT_ERROR (what it is not), with a sentence that says what is wrong with it, and
 * ERR_UNAVAILABLE (no memory). Behind HTTP_UNTIL_CLOSE and an upgrade no other can be fed.
 */
int http_response_parse(struct http_parser *p, struct arena *arena, struct str bytes,
			struct http_response **ret, struct err *err);

/* The first header of that name, case ignored; NULL if there is none. */
const struct str *http_response_find(const struct http_response *response, struct str name);

#endif
