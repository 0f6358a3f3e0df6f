/*
 * JSON in and out. Input is described by a table of fields and lands in a struct; unknown,
 * duplicate, missing and mistyped fields are errors that name the field ("limits.memory must be a
 * string"). Nesting is at most JSON_DEPTH_MAX, text is checked to be UTF-8, and everything that is
 * kept comes from the caller's arena, whose limit bounds it.
 *
 * This is the only header behind which yajl stands.
 */
#ifndef BERTH_PROTO_JSON_H
#define BERTH_PROTO_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "proto/utf8.h"

#define JSON_DEPTH_MAX 32
/* Of one JSON_RAW: whoever tells it puts up to four levels around it, and can be read, too. */
#define JSON_RAW_DEPTH_MAX (JSON_DEPTH_MAX - 4)
#define JSON_ITEMS_MAX     65536              /* elements of one array or map */
#define JSON_TEXT_MAX      (64 * 1024 * 1024) /* of what a writer writes */

enum json_type {
	JSON_BOOL,    /* bool */
	JSON_INT,     /* int64_t */
	JSON_UINT,    /* uint64_t */
	JSON_NUMBER,  /* double, finite */
	JSON_SIZE,    /* uint64_t: bytes as an integer, or "512M" as size_parse() reads it */
	JSON_STRING,  /* struct str, terminated, without NUL bytes */
	JSON_BYTES,   /* struct str, terminated, may hold NUL bytes (written as \u0000) */
	JSON_STRINGS, /* struct json_strings: an array of JSON_STRING */
	JSON_TEXTS,   /* the same, of JSON_BYTES */
	JSON_MAP,     /* struct json_map: an object whose values are JSON_STRING */
	JSON_CHANGES, /* the same, but a value may be null: its `at` is NULL */
	JSON_OBJECT,  /* a struct in place, described by `fields` */
	JSON_OBJECTS, /* struct json_objects: an array of structs of `size`, each by `fields` */
	/* Any value; checked to be JSON and dropped. Under the name "*": all fields that the table
	 * does not name, for a reader of answers, whose writer may be newer. */
	JSON_IGNORED,
	/* Any value, null too: struct str, its own text, terminated and without line breaks. What
	 * is in it is checked to be JSON of at most JSON_RAW_DEPTH_MAX levels, and no more: names
	 * may be there twice. */
	JSON_RAW,
};

struct json_strings {
	struct str *items;
	size_t len;
};

struct json_objects {
	void *items; /* zeroed before they are filled */
	size_t len;
};

struct json_pair {
	struct str key, value;
};

struct json_map {
	struct json_pair *items; /* in the order given; no key twice */
	size_t len;
};

/*
 * `offset` is where the value goes; `given`, if not 0, is the offset of a bool that is set when the
 * field was there. null counts as not given, unless the field is required.
 */
struct json_field {
	const char *name;
	enum json_type type;
	size_t offset;
	bool is_required;
	size_t given;
	const struct json_field *fields; /* of JSON_OBJECT(S); ends with a name of NULL */
	size_t size;                     /* of one element of JSON_OBJECTS */
};

/*
 * Fills `ret`, which the caller has set to the defaults. The table ends with a name of NULL. On
 * failure (ERR_INVALID_REQUEST, or ERR_PAYLOAD_TOO_LARGE when the arena's limit is met) the
 * struct's contents are undefined.
 */
int json_parse(struct arena *arena, struct str text, const struct json_field *fields, void *ret,
	       struct err *err);

/*
 * The same for a file that a person writes: the sentences speak of "it" (say first which file) and
 * of lines and columns, and null is an error, since nothing that stands there may be ignored.
 */
int json_parse_file(struct arena *arena, struct str text, const struct json_field *fields,
		    void *ret, struct err *err);

/*
 * The writer keeps its text until json_writer_end(). Errors stick: write everything, then ask. A
 * string that is not UTF-8 is an error of the caller's making (-EILSEQ): encode it first. A number
 * that is not finite is -EDOM, a call out of place -EINVAL, too much text -EMSGSIZE. The generator
 * lives inside the struct, which must stay where it is from init to close.
 */
struct json_writer {
	void *gen;
	int error;
	unsigned depth;
	uint32_t objects; /* a bit per level, the newest is the lowest: is it an object? */
	bool has_key;     /* and no value for it yet */
	bool is_begun;
	struct buf text;
	size_t memory_used;
	void *memory[96]; /* of the generator */
};

int json_writer_init(struct json_writer *w, bool is_pretty);
void json_writer_close(struct json_writer *w);

void json_object(struct json_writer *w);
void json_object_end(struct json_writer *w);
void json_array(struct json_writer *w);
void json_array_end(struct json_writer *w);
void json_key(struct json_writer *w, const char *key);
void json_key_str(struct json_writer *w, struct str key);
void json_text(struct json_writer *w, const char *text);
void json_str(struct json_writer *w, struct str s);
void json_int(struct json_writer *w, int64_t value);
void json_double(struct json_writer *w, double value);
void json_bool(struct json_writer *w, bool value);
void json_null(struct json_writer *w);
/* One value as it stands: only ever what a reader has kept of JSON_RAW. */
void json_raw(struct json_writer *w, struct str text);
/* A member, unless its text is empty. */
void json_str_if_any(struct json_writer *w, const char *key, struct str s);
void json_raw_if_any(struct json_writer *w, const char *key, struct str text);

/* Appends what was written to `out` and leaves the writer without text. 0, or the first error. */
int json_writer_end(struct json_writer *w, struct buf *out);

#endif
