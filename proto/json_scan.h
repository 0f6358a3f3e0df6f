/*
 * The look at a JSON text before the parser sees it. It refuses what yajl would let pass (half
 * surrogate pairs, weak UTF-8, \v and \f as white space, an unfinished string behind the value) and
 * bounds what yajl would need: the nesting, and the longest string that has to be unescaped.
 */
#ifndef BERTH_PROTO_JSON_SCAN_H
#define BERTH_PROTO_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

struct json_frame {
	struct str object;  /* from its first bracket to the one that closes it */
	size_t escaped_max; /* raw bytes of the longest string with escapes; 0: there is none */
};

/* A text, and how sentences speak about it. */
struct json_source {
	struct str text;
	bool is_file; /* "it" with lines and columns; else "the body" with bytes */
};

struct json_place {
	char text[64];
};

const char *json_source_name(const struct json_source *source);
/* Of the byte at `offset`: "byte 7", or "line 1, column 8". */
struct json_place json_source_place(const struct json_source *source, size_t offset);

/* What is inside the brackets may still be no JSON. */
int json_scan(const struct json_source *source, struct json_frame *ret, struct err *err);

#endif
