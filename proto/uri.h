/* Percent-encoding and query strings. Decoding happens once; results are raw bytes. */
#ifndef BERTH_PROTO_URI_H
#define BERTH_PROTO_URI_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

/* -EINVAL for a bad escape, -ENOMEM. The result is terminated and may hold NUL bytes. */
int uri_decode(struct arena *arena, struct str raw, struct str *ret);

/*
 * The value of `name` in a raw query ("a=1&b=%20"), decoded, "+" being a space. Returns 1 if it is
 * there (without "=": an empty value), 0 if not, -EINVAL for a bad escape or a name given twice.
 */
int uri_query(struct arena *arena, struct str query, struct str name, struct str *ret);

/* The first name in a raw query that is none of `known` (up to a NULL), as it stands there: 1. */
int uri_query_stranger(struct str query, const char *const *known, struct str *ret);

/* What a flag of a query says: 1 for "", "1" and "true", 0 for "0" and "false", else -EINVAL. */
int uri_flag(struct str value);

#endif
