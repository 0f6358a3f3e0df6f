/*
 * The look at a JSON text before the parser sees it. It refuses what yajl would let pass (half
 * surrogate pairs, weak UTF-8, \v and \f as white space, an unfinished string behind the value) and
 * bounds what yajl would need: the nesting, and the longest string that has to be unescaped.
 */
#ifndef BERTH_PROTO_JSON_SCAN_H
#define BERTH_PROTO_JSON_SCAN_H

#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

struct json_frame {
	struct str object;  /* from its first bracket to the one that closes it */
	size_t escaped_max; /* raw bytes of the longest string with escapes; 0: there is none */
};

/* What is inside the brackets may still be no JSON. */
int json_scan(struct str text, struct json_frame *ret, struct err *err);

#endif
