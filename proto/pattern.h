/*
 * POSIX extended regular expressions, looked for in lines that come byte by byte. Both the pattern
 * and the text come from outside: a search takes time in proportion to text and pattern and no
 * memory beyond its struct, so there are no back-references and the size of a pattern is bounded.
 *
 * Bytes are compared, as in the C locale: "." is one byte, and no byte is a newline. A character of
 * UTF-8 stands for itself, but not within brackets. A backslash makes a special character ordinary;
 * before any other character it is refused, as is all that POSIX leaves undefined.
 */
#ifndef BERTH_PROTO_PATTERN_H
#define BERTH_PROTO_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

#define PATTERN_TEXT_MAX   1024
#define PATTERN_STATES_MAX 2048
#define PATTERN_REPEAT_MAX 255
#define PATTERN_DEPTH_MAX  32

struct pattern;

/* NULL with `err` if it is malformed (ERR_INVALID_REQUEST) or there is no memory. */
struct pattern *pattern_new(struct str text, struct err *err);
void pattern_free(struct pattern *pattern);

/* One line under way. */
struct pattern_search;

struct pattern_search *pattern_search_new(const struct pattern *pattern);
void pattern_search_free(struct pattern_search *search);

/* A new line begins. */
void pattern_search_begin(struct pattern_search *search);
/* Its next bytes, without the newline. */
void pattern_search_feed(struct pattern_search *search, struct str bytes);
/* The line is complete: "$" matches here. */
void pattern_search_end(struct pattern_search *search);

/* Whether it was found in what has come so far: the leftmost place, and there the longest. */
bool pattern_search_found(const struct pattern_search *search, size_t *ret_start, size_t *ret_end);

#endif
