/* Conditions and ranges of a GET: what a client has already, and which part it wants. */
#ifndef BERTH_PROTO_HTTP_RANGE_H
#define BERTH_PROTO_HTTP_RANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum http_range_kind {
	HTTP_RANGE_WHOLE, /* none, or none that we serve: other units, several, or nonsense */
	HTTP_RANGE_PART,
	HTTP_RANGE_UNSATISFIABLE,
};

struct http_range {
	uint64_t first, length; /* of HTTP_RANGE_PART: 1 byte or more, within the size */
};

/* A Range header's value, for something of `size` bytes. */
enum http_range_kind http_range_parse(struct str value, uint64_t size, struct http_range *ret);

/*
 * Does If-None-Match name this tag (with its quotes), or "*"? Compared weakly: W/"x" names "x".
 * A list that is not well formed names what stands before the fault.
 */
bool http_etag_listed(struct str list, struct str etag);

#define HTTP_DATE_SIZE sizeof("Sun, 06 Nov 1994 08:49:37 GMT")

/* Seconds since 1970 as HTTP writes them; -ERANGE past the year 9999, and `ret` is untouched. */
int http_date_format(uint64_t unix_s, char ret[HTTP_DATE_SIZE]);

#endif
