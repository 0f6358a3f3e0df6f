/*
 * HTTP/1.1 requests: hostile bytes in, facts out. No I/O, no clock.
 *
 *	bytes ── http_head_feed ──> HTTP_DONE: a whole head ── http_head_parse ──> struct http_head
 *	bytes ── http_body_feed ──> data callbacks ... HTTP_DONE: the next head may follow
 *
 * A head is collected until its empty line, scanned for what llhttp's strict mode lets pass, and
 * only then parsed, so a request means the same however its bytes were cut. After an error the
 * connection's framing is lost: answer and close.
 */
#ifndef BERTH_PROTO_HTTP_H
#define BERTH_PROTO_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <llhttp.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define HTTP_HEAD_MAX       (32 * 1024) /* request line and headers */
#define HTTP_HEADERS_MAX    100
#define HTTP_TRAILER_MAX    (8 * 1024) /* all trailer fields together */
#define HTTP_CHUNK_LINE_MAX 256        /* size and extensions of one chunk */

enum http_method {
	HTTP_METHOD_GET,
	HTTP_METHOD_HEAD,
	HTTP_METHOD_POST,
	HTTP_METHOD_PUT,
	HTTP_METHOD_DELETE,
	HTTP_METHOD_PATCH,
	HTTP_METHOD_OPTIONS,
	HTTP_METHOD_OTHER, /* well formed, but nothing that we route */
};

struct http_header {
	struct str name, value;
};

/* The last one is of responses only. */
enum http_framing { HTTP_NO_BODY, HTTP_SIZED, HTTP_CHUNKED, HTTP_UNTIL_CLOSE };

struct http_head {
	enum http_method method;
	struct str method_name;
	struct str path;  /* raw, begins with "/" (or is "*" for OPTIONS) */
	struct str query; /* raw, without the "?"; at == NULL if there is none */
	struct str host;  /* the one Host header; empty for HTTP/1.0 without it */
	int minor;        /* 1 or 0 */
	bool keep_alive;
	bool expects_continue; /* and there is a body to wait for */
	bool has_upgrade;      /* Connection: upgrade and an Upgrade header */
	enum http_framing framing;
	uint64_t content_length; /* of HTTP_SIZED */
	struct http_header *headers;
	size_t headers_len;
};

enum http_result { HTTP_MORE, HTTP_DONE, HTTP_BAD };

struct http_parser {
	llhttp_t llhttp;     /* of a chunked body */
	struct buf kept;     /* of a head that came in pieces */
	uint64_t body_left;  /* of a sized body or the chunk under way */
	uint32_t line_bytes; /* of the chunk line or the trailers under way */
	uint8_t framing_state;
	bool is_response; /* what is fed: an answer's errors are not the client's */
	/*
	 * Where the trailer lines of a chunked body go as they were sent, "Name: value\r\n" each;
	 * all of them are there when the message is done. NULL: they are dropped. Its limit is
	 * HTTP_TRAILER_MAX or more.
	 */
	struct buf *trailers;
	bool is_bodiless; /* the response answers HEAD */
};

void http_parser_init(struct http_parser *p);
void http_parser_close(struct http_parser *p);
/* Nothing was fed of the next message. */
bool http_parser_is_idle(const struct http_parser *p);

/*
 * Takes bytes from the front of `in`. HTTP_DONE: `ret` is the whole head with its empty line; it
 * points into `in`'s bytes or into the parser and holds until it was parsed or the next feed. One
 * empty line in front of a request is skipped. HTTP_BAD: ERR_HEAD_TOO_LARGE, or ERR_INVALID_REQUEST
 * for bytes that can no longer become a request (told at once, not only when the head is complete).
 */
enum http_result http_head_feed(struct http_parser *p, struct str *in, struct str *ret,
				struct err *err);

/*
 * Copies the head into the arena and says what it means. ERR_INVALID_REQUEST, ERR_HEAD_TOO_LARGE
 * (too many headers), ERR_HTTP_VERSION, ERR_UNSUPPORTED (a transfer coding that we do not speak),
 * ERR_EXPECTATION_FAILED.
 */
int http_head_parse(struct http_parser *p, struct arena *arena, struct str bytes,
		    struct http_head **ret, struct err *err);

typedef void http_data_fn(void *arg, const char *bytes, size_t len);

/*
 * Takes the body's bytes from the front of `in` and hands them on without their framing. HTTP_DONE
 * at the end of the message; what follows in `in` is left there. To be called only if the head's
 * framing is not HTTP_NO_BODY.
 */
enum http_result http_body_feed(struct http_parser *p, struct str *in, http_data_fn *data,
				void *arg, struct err *err);

/* The first header of that name, case ignored; NULL if there is none. */
const struct str *http_header_find(const struct http_head *head, struct str name);

/* Is `token` a member of a comma-separated list such as Connection's? Case is ignored. */
bool http_list_has(struct str list, struct str token);

const char *http_status_text(int status);

#endif
