/*
 * Every type, nested. What parses must be text, must come back from the writer, and must then parse
 * to the same.
 */
#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "proto/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct part {
	bool b, b_given;
	int64_t i;
	uint64_t u, z;
	double d;
	struct str s, y;
	struct json_strings l;
	struct json_map m;
	struct json_objects a;
};

struct element {
	struct str s;
	struct json_strings l;
};

static const struct json_field element_fields[] = {
	{"s", JSON_STRING, offsetof(struct element, s), true},
	{"l", JSON_STRINGS, offsetof(struct element, l)},
	{NULL},
};

struct whole {
	struct part p;
	struct {
		struct part p;
		struct {
			struct part p;
		} o;
	} o;
};

#define PART_FIELDS                                                                                \
	{"b", JSON_BOOL, offsetof(struct part, b), false, offsetof(struct part, b_given)},         \
		{"i", JSON_INT, offsetof(struct part, i)},                                         \
		{"u", JSON_UINT, offsetof(struct part, u)},                                        \
		{"z", JSON_SIZE, offsetof(struct part, z)},                                        \
		{"d", JSON_NUMBER, offsetof(struct part, d)},                                      \
		{"s", JSON_STRING, offsetof(struct part, s)},                                      \
		{"y", JSON_BYTES, offsetof(struct part, y)},                                       \
		{"l", JSON_STRINGS, offsetof(struct part, l)},                                     \
		{"m", JSON_MAP, offsetof(struct part, m)},                                         \
		{"a", JSON_OBJECTS, offsetof(struct part, a), .fields = element_fields,            \
		 .size = sizeof(struct element)},                                                  \
	{                                                                                          \
		"x", JSON_IGNORED, 0                                                               \
	}

static const struct json_field last_fields[] = {
	PART_FIELDS,
	{"r", JSON_IGNORED, 0, true},
	{NULL},
};

static const struct json_field middle_fields[] = {
	PART_FIELDS,
	{"o", JSON_OBJECT, sizeof(struct part), .fields = last_fields},
	{NULL},
};

static const struct json_field fields[] = {
	PART_FIELDS,
	{"o", JSON_OBJECT, sizeof(struct part), .fields = middle_fields},
	{NULL},
};

static void write_text(struct json_writer *w, const char *key, struct str s)
{
	assert(utf8_is_valid(s) && (!s.at || s.at[s.len] == '\0'));
	json_key(w, key);
	json_str(w, s);
}

static void write_strings(struct json_writer *w, const struct json_strings *l)
{
	json_key(w, "l");
	json_array(w);
	for (size_t i = 0; i < l->len; i++) {
		assert(strlen(l->items[i].at) == l->items[i].len);
		json_str(w, l->items[i]);
	}
	json_array_end(w);
}

static void write_objects(struct json_writer *w, const struct json_objects *a)
{
	const struct element *elements = a->items;

	json_key(w, "a");
	json_array(w);
	for (size_t i = 0; i < a->len; i++) {
		json_object(w);
		write_text(w, "s", elements[i].s);
		write_strings(w, &elements[i].l);
		json_object_end(w);
	}
	json_array_end(w);
}

/* An optional string that was not there stays away. */
static void write_part(struct json_writer *w, const struct part *p)
{
	json_key(w, "b");
	json_bool(w, p->b);
	json_key(w, "i");
	json_int(w, p->i);
	json_key(w, "u");
	json_int(w, (int64_t)(p->u & INT64_MAX));
	assert(p->z <= INT64_MAX);
	json_key(w, "z");
	json_int(w, (int64_t)p->z);
	json_key(w, "d");
	json_double(w, p->d);
	if (p->s.at) {
		assert(strlen(p->s.at) == p->s.len);
		write_text(w, "s", p->s);
	}
	if (p->y.at)
		write_text(w, "y", p->y);
	write_strings(w, &p->l);
	write_objects(w, &p->a);
	json_key(w, "m");
	json_object(w);
	for (size_t i = 0; i < p->m.len; i++) {
		assert(strlen(p->m.items[i].key.at) == p->m.items[i].key.len);
		json_key_str(w, p->m.items[i].key);
		json_str(w, p->m.items[i].value);
	}
	json_object_end(w);
}

static void write_whole(struct buf *out, const struct whole *v, bool is_pretty)
{
	struct json_writer w;

	json_writer_init(&w, is_pretty);
	json_object(&w);
	write_part(&w, &v->p);
	json_key(&w, "o");
	json_object(&w);
	write_part(&w, &v->o.p);
	json_key(&w, "o");
	json_object(&w);
	write_part(&w, &v->o.o.p);
	json_key(&w, "r");
	json_null(&w);
	json_object_end(&w);
	json_object_end(&w);
	json_object_end(&w);
	assert(json_writer_end(&w, out) == 0);
	json_writer_close(&w);
}

static void write_again(const struct whole *first, bool is_pretty)
{
	struct whole second = {0};
	struct buf text, again;
	struct arena arena;
	struct err err;

	buf_init(&text, 1 << 26);
	buf_init(&again, 1 << 26);
	arena_init(&arena, 1 << 26);
	write_whole(&text, first, is_pretty);
	assert(json_parse(&arena, (struct str){buf_at(&text), buf_len(&text)}, fields, &second,
			  &err) == 0);
	write_whole(&again, &second, is_pretty);
	assert(buf_len(&text) == buf_len(&again) &&
	       memcmp(buf_at(&text), buf_at(&again), buf_len(&text)) == 0);
	arena_close(&arena);
	buf_close(&text);
	buf_close(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = {(const char *)data, size};
	struct whole value = {0};
	struct arena arena;
	struct err err = {0};
	int r;

	arena_init(&arena, 1 << 20);
	r = json_parse(&arena, text, fields, &value, &err);
	assert((r == 0) == (err.code == ERR_NONE) && (r == 0) == (err.sentence[0] == '\0'));
	for (const char *at = err.sentence; *at; at++)
		assert(*at >= ' ' && *at < 0x7f);
	if (r == 0) {
		write_again(&value, false);
		write_again(&value, true);
	}
	arena_close(&arena);
	/* An arena that is nearly too small for anything. */
	arena_init(&arena, 2048);
	value = (struct whole){0};
	r = json_parse(&arena, text, fields, &value, NULL);
	arena_close(&arena);
	return 0;
}
