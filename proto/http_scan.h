/*
 * Private to proto/http*.c: which bytes may stand where, our scan of a complete head, and where a
 * parser stands between two feeds. Requests and responses are read by the same code; what differs
 * is the first line, what sentences call the message, and the code of its errors.
 */
#ifndef BERTH_PROTO_HTTP_SCAN_H
#define BERTH_PROTO_HTTP_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "proto/http.h"

enum http_byte {
	HTTP_BYTE_TOKEN = 1,   /* of a method or a field name */
	HTTP_BYTE_VALUE = 2,   /* of a field value: visible, space, tab, above 0x7f */
	HTTP_BYTE_VISIBLE = 4, /* 0x21 to 0x7e */
	HTTP_BYTE_HOST = 8,    /* of a host name */
};

extern const uint8_t http_bytes[256];

static inline bool http_byte_is(char c, enum http_byte kind)
{
	return http_bytes[(uint8_t)c] & kind;
}

/*
 * struct http_parser's framing_state.
 *
 *	START ─> FIRST ─> LINE ─> LINE_LF ─> LINE_START ─> LAST_LF ─> START, or a body's first state
 *	                   ^─────────────────────┘
 *	SIZED ─> START
 *	CHUNKED ─> SIZE [─> EXTENSION] ─> SIZE_LF ─> DATA ─> DATA_CR ─> DATA_LF ─> SIZE
 *	                                     └─> TRAILER_START ─> TRAILER_LAST_LF ─> START
 *	TRAILER_START ─> TRAILER_NAME ─> TRAILER_VALUE ─> TRAILER_LF ─> TRAILER_START
 */
enum http_state {
	STATE_START,      /* between two messages */
	STATE_START_LF,   /* an empty line in front of the request: its CR was there */
	STATE_FIRST,      /* the message's first byte comes now */
	STATE_LINE,       /* within a line of the head */
	STATE_LINE_LF,    /* the line's CR was there */
	STATE_LINE_START, /* the next line's first byte comes now */
	STATE_LAST_LF,    /* the empty line's CR was there */
	STATE_SIZED,      /* from here on: bodies */
	STATE_CHUNKED,    /* nothing of it read yet */
	STATE_SIZE,
	STATE_EXTENSION,
	STATE_SIZE_LF,
	STATE_DATA,
	STATE_DATA_CR,
	STATE_DATA_LF,
	STATE_TRAILER_START,
	STATE_TRAILER_NAME,
	STATE_TRAILER_VALUE,
	STATE_TRAILER_LF,
	STATE_TRAILER_LAST_LF,
	STATE_BROKEN, /* the framing is lost */
};

/* A head's first line: that of a request or that of a response. */
struct http_start {
	bool is_response;
	struct str method, target;
	int status;
	struct str reason;
	int minor;
	size_t headers_len; /* lines that follow it */
};

static inline const char *http_noun(bool is_response)
{
	return is_response ? "response" : "request";
}

/*
 * Errors are set with the codes of requests; in those of responses this puts the one that says that
 * it is the server's fault.
 */
void http_blame(bool is_response, struct err *err);

/* The framing is lost: says why, and holds no memory any more. Returns HTTP_BAD. */
__attribute__((format(printf, 4, 5))) enum http_result
http_refuse(struct http_parser *p, enum err_code code, struct err *err, const char *format, ...);

/* http_head_feed() and http_response_feed(), by p->is_response. */
enum http_result http_feed(struct http_parser *p, struct str *in, struct str *ret, struct err *err);

/* The head was parsed, and that is how its body ends: a place to feed it from. */
void http_begin_body(struct http_parser *p, enum http_framing framing, uint64_t length);

/*
 * Refuses what llhttp's strict mode lets pass, in the first line and in every header line. `head`
 * ends with its empty line. Of `start` is_response is given.
 */
int http_scan_head(struct str head, struct http_start *start, struct err *err);

/* A host name, an IPv4 address or a bracketed IPv6 address, and maybe a port. */
bool http_is_host(struct str host);

const struct str *http_headers_find(const struct http_header *headers, size_t len, struct str name);

struct str http_trim(struct str s);

/* Every byte is one of that kind. */
bool http_is_all(struct str s, enum http_byte kind);

#endif
