/* Times as people and programs write them: RFC 3339 in UTC, with milliseconds. Reads no clock. */
#ifndef BERTH_PROTO_TIME_TEXT_H
#define BERTH_PROTO_TIME_TEXT_H

#include <stdint.h>

#include "base/str.h"
#include "proto/json.h"

#define TIME_TEXT_SIZE sizeof("2026-01-31T23:59:59.999Z")

/*
 * Writes milliseconds since 1970 as terminated text. -ERANGE for a year that four digits cannot
 * hold (before 0000, after 9999); then `ret` is untouched.
 */
int time_text_format(int64_t unix_ms, char ret[TIME_TEXT_SIZE]);

/* The way back. -EINVAL for anything that time_text_format() would not have written. */
int time_text_parse(struct str text, int64_t *ret_unix_ms);

/*
 * Any time of RFC 3339, as others write it: "2026-01-31T23:59:59Z", with a fraction of a second,
 * with an offset ("+02:00"). What is finer than a millisecond is cut off. -EINVAL, also for a leap
 * second.
 */
int time_text_read(struct str text, int64_t *ret_unix_ms);

/* A field of an object; null for 0. */
void time_text_write(struct json_writer *w, const char *key, int64_t at_ms);

#endif
