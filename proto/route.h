/*
 * The route table's matching. A pattern is a path whose segments are words or "{name}", which takes
 * one segment; a last "{name...}" takes the rest of the path, slashes and all. Captures are raw:
 * they point into the request's path and are not yet percent-decoded. A word is matched byte by
 * byte against the raw path.
 */
#ifndef BERTH_PROTO_ROUTE_H
#define BERTH_PROTO_ROUTE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

#define ROUTE_CAPTURES_MAX 4

struct route_captures {
	struct str items[ROUTE_CAPTURES_MAX];
	size_t len;
};

bool route_matches(const char *pattern, struct str path, struct route_captures *ret);

#endif
