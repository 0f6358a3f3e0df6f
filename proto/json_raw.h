/*
 * The events of a parser on their way to the reader: those from inside a raw value end here, where
 * its brackets are counted.
 */
#ifndef BERTH_PROTO_JSON_RAW_H
#define BERTH_PROTO_JSON_RAW_H

#include "proto/json_reader.h"

int json_raw_null(void *reader);
int json_raw_bool(void *reader, int value);
int json_raw_number(void *reader, const char *at, size_t len);
int json_raw_string(void *reader, const unsigned char *at, size_t len);
int json_raw_object(void *reader);
int json_raw_key(void *reader, const unsigned char *at, size_t len);
int json_raw_object_end(void *reader);
int json_raw_array(void *reader);
int json_raw_array_end(void *reader);

/* Of the value that has just ended, as it stands. */
struct str json_raw_text(const struct json_reader *r);
/* Takes line breaks out of our copy: these can only be white space in it, for in a string they are
 * no JSON. */
int json_raw_flatten(struct str *value);

#endif
