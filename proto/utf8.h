/* Is it text? UTF-8 as Unicode defines it: no surrogates, no overlong forms, nothing above
 * U+10FFFF. */
#ifndef BERTH_PROTO_UTF8_H
#define BERTH_PROTO_UTF8_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

bool utf8_is_valid(struct str s);

/* How many bytes at the front are valid: s.len, or where the first bad or unfinished character is.
 */
size_t utf8_valid_len(struct str s);

#endif
