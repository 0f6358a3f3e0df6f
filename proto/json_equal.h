/*
 * Do two JSON texts say the same? Numbers are compared by their value, strings by what they hold,
 * objects in any order of their names.
 *
 *	1 == 1.0 == 10e-1	integers exactly, however long; others as the nearest double
 *	"a" == "\u0061"
 *	{"a": 1, "b": 2} == {"b": 2, "a": 1}
 *
 * Both are texts that a reader has kept of JSON_RAW; anything else is equal to nothing, and so is
 * an object that has a name twice, since nobody knows which of them counts.
 */
#ifndef BERTH_PROTO_JSON_EQUAL_H
#define BERTH_PROTO_JSON_EQUAL_H

#include <stdbool.h>

#include "base/str.h"

/* 1: they do; 0: they do not; -ENOMEM. */
int json_equal(struct str a, struct str b);
/* The same; and how many bytes it has looked at, those that it had to see again counted again. */
int json_equal_seen(struct str a, struct str b, size_t *ret_seen);

#endif
