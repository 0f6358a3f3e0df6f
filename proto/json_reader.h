/*
 * From JSON's events to a struct, by a table of fields. The functions have the shape of an event
 * parser's callbacks: 0 stops the parse, and then `error` and the caller's struct err say why. The
 * parser must send well-formed events of one object that json_scan() has passed: nesting and the
 * sum of all strings are bounded by it.
 *
 *	{                         levels: OBJECT
 *	  "limits": {             levels: OBJECT, OBJECT
 *	    "pids": 5 },
 *	  "env": {                levels: OBJECT, MAP       kept: key, value, key, value ...
 *	    "A": "b" },
 *	  "argv": [               levels: OBJECT, STRINGS   kept: value, value ...
 *	    "true" ],
 *	  "list": [               levels: OBJECT, OBJECTS   kept: where each element is
 *	    { "a": 1 } ],         levels: ..., OBJECT
 *	  "mounts": [             levels: OBJECT, IGNORED_ARRAY
 *	    { "a": 1 } ] }        levels: ..., IGNORED_OBJECT   kept: key, key ...
 *
 * What is in a raw value makes no levels: only how deep it is is counted, to know its end.
 *
 * `kept` is one stack for all levels; a level takes its part off when it ends.
 */
#ifndef BERTH_PROTO_JSON_READER_H
#define BERTH_PROTO_JSON_READER_H

#include <stddef.h>
#include <stdint.h>

#include "proto/json.h"
#include "proto/json_scan.h"

#define JSON_FIELDS_MAX 64 /* of one table: one bit each in `seen` */
#define JSON_KEPT_FEW   32

enum json_level_kind {
	JSON_LEVEL_OBJECT,
	JSON_LEVEL_STRINGS,
	JSON_LEVEL_OBJECTS,
	JSON_LEVEL_MAP,
	JSON_LEVEL_IGNORED_OBJECT,
	JSON_LEVEL_IGNORED_ARRAY,
};

struct json_level {
	enum json_level_kind kind;
	uint32_t count;    /* of elements or keys so far */
	size_t kept_start; /* where its part of `kept` begins */
	char *base;        /* the struct; of STRINGS, OBJECTS and MAP: the value to fill */
	const struct json_field *fields; /* of OBJECT, as what follows */
	const struct json_field *field;  /* whose value comes next; of OBJECTS: its own */
	uint64_t seen;
};

struct json_reader {
	/* Set by the caller before json_reader_init(). */
	struct arena *arena;
	const struct json_source *source;
	struct str text; /* the object's own */
	/* How much of it the parser has taken: up to the end of what the event is about. */
	size_t (*position)(void *parser);
	void *parser;
	const struct json_field *fields;
	void *ret;
	struct err *err;

	int error;
	char *room, *room_end; /* for all strings: no text holds more than its own length */
	struct str *kept;
	size_t kept_len, kept_size;
	size_t depth;
	size_t raw_start;   /* of a raw value: behind its name */
	unsigned raw_depth; /* brackets of it that are open */
	struct json_level levels[JSON_DEPTH_MAX];
	struct str few[JSON_KEPT_FEW]; /* what `kept` is until it has to grow */
};

void json_reader_init(struct json_reader *r);

static inline bool json_level_is_array(const struct json_level *l)
{
	return l->kind == JSON_LEVEL_STRINGS || l->kind == JSON_LEVEL_OBJECTS ||
	       l->kind == JSON_LEVEL_IGNORED_ARRAY;
}

#define JSON_PATH_MAX 240

/* "limits.memory", "argv[3]": which value an error is about. */
struct json_path {
	char text[JSON_PATH_MAX];
	size_t len;
};

/* Of the value under way on the first `depth` levels; of a key in the newest level. */
void json_path_of(const struct json_reader *r, size_t depth, struct json_path *ret);
void json_path_of_key(const struct json_reader *r, struct str key, struct json_path *ret);

/* A raw value has come to its end. */
int json_reader_raw(struct json_reader *r);

int json_reader_null(void *reader);
int json_reader_bool(void *reader, int value);
int json_reader_number(void *reader, const char *at, size_t len);
int json_reader_string(void *reader, const unsigned char *at, size_t len);
int json_reader_object(void *reader);
int json_reader_key(void *reader, const unsigned char *at, size_t len);
int json_reader_object_end(void *reader);
int json_reader_array(void *reader);
int json_reader_array_end(void *reader);

#endif
