/* What stands in brackets in a pattern: "[a-z_]", "[^[:space:]]". */
#ifndef BERTH_PROTO_PATTERN_BRACKET_H
#define BERTH_PROTO_PATTERN_BRACKET_H

#include "base/err.h"
#include "base/str.h"
#include "proto/pattern_code.h"

/* Takes it from the front of `rest`, which begins with its "[". */
int pattern_bracket_read(struct str *rest, struct pattern_set *ret, struct err *err);

#endif
