#include "proto/json_reader.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "proto/json_raw.h"
#include "proto/units.h"

#define NUMBER_MAX 128 /* characters of one number */
#define FEW_KEYS   8   /* up to here, comparing each with each is cheaper than sorting */

/* clang-format off */
static const char *const type_words[] = {
	[JSON_BOOL]    = "true or false",
	[JSON_INT]     = "an integer",
	[JSON_UINT]    = "an integer",
	[JSON_NUMBER]  = "a number",
	[JSON_SIZE]    = "a size: an integer, or a string such as \"512M\"",
	[JSON_STRING]  = "a string",
	[JSON_BYTES]   = "a string",
	[JSON_STRINGS] = "an array of strings",
	[JSON_TEXTS]   = "an array of strings",
	[JSON_MAP]     = "an object whose values are strings",
	[JSON_CHANGES] = "an object whose values are strings or null",
	[JSON_OBJECT]  = "an object",
	[JSON_OBJECTS] = "an array of objects",
	[JSON_IGNORED] = "a value",
	[JSON_RAW]     = "a value",
};
/* clang-format on */

/* "<path> <what><word>" about the value under way. */
static int refuse_value(struct json_reader *r, const char *what, const char *word)
{
	struct json_path path;

	json_path_of(r, r->depth, &path);
	r->error = err_set(r->err, -EINVAL, ERR_INVALID_REQUEST, "%s %s%s", path.text, what, word);
	return 0;
}

static int refuse_twice(struct json_reader *r, struct str key)
{
	struct json_path path;

	json_path_of_key(r, key, &path);
	r->error = err_set(r->err, -EINVAL, ERR_INVALID_REQUEST, "field \"%s\" is given twice",
			   path.text);
	return 0;
}

static int refuse_too_large(struct json_reader *r)
{
	r->error = err_set(r->err, -EMSGSIZE, ERR_PAYLOAD_TOO_LARGE,
			   "%s needs more memory than one request may take",
			   json_source_name(r->source));
	return 0;
}

static int refuse_too_many(struct json_reader *r)
{
	struct json_path path;

	json_path_of(r, r->depth - 1, &path);
	r->error = err_set(r->err, -EINVAL, ERR_INVALID_REQUEST, "%s has more than %d elements",
			   path.text, JSON_ITEMS_MAX);
	return 0;
}

static struct json_level *top(struct json_reader *r)
{
	return &r->levels[r->depth - 1];
}

/* What the level on top takes next; of an ignored one: anything. */
static enum json_type wanted_type(struct json_reader *r)
{
	switch (top(r)->kind) {
	case JSON_LEVEL_OBJECT:
		return top(r)->field->type;
	case JSON_LEVEL_STRINGS:
		return top(r)->field->type == JSON_TEXTS ? JSON_BYTES : JSON_STRING;
	case JSON_LEVEL_MAP:
		return JSON_STRING;
	case JSON_LEVEL_OBJECTS:
		return JSON_OBJECT;
	default:
		return JSON_IGNORED;
	}
}

static int refuse_type(struct json_reader *r)
{
	return refuse_value(r, "must be ", type_words[wanted_type(r)]);
}

/* Before every value but null: counts the array's element, notes that the field was given. */
static enum json_type take_value(struct json_reader *r)
{
	struct json_level *l = top(r);

	if (l->kind == JSON_LEVEL_OBJECT) {
		if (l->field->given)
			*(bool *)(l->base + l->field->given) = true;
		return l->field->type;
	}
	if (json_level_is_array(l))
		l->count++;
	return wanted_type(r);
}

static struct json_level *push(struct json_reader *r, enum json_level_kind kind)
{
	struct json_level *l;

	assert(r->depth < JSON_DEPTH_MAX);
	l = &r->levels[r->depth++];
	l->kind = kind;
	l->count = 0;
	l->kept_start = r->kept_len;
	return l;
}

static void push_object(struct json_reader *r, const struct json_field *fields, char *base)
{
	struct json_level *l = push(r, JSON_LEVEL_OBJECT);

	l->fields = l->field = fields;
	l->base = base;
	l->seen = 0;
}

static void *target(struct json_reader *r)
{
	return top(r)->base + top(r)->field->offset;
}

/* A terminated copy. */
static bool copy_string(struct json_reader *r, struct str s, struct str *ret)
{
	if (!r->room) {
		r->room = arena_alloc(r->arena, r->text.len);
		if (!r->room)
			return refuse_too_large(r);
		r->room_end = r->room + r->text.len;
	}
	/* In the text it had two quotes, and escapes only ever get shorter. */
	assert(s.len < (size_t)(r->room_end - r->room));
	if (s.len)
		memcpy(r->room, s.at, s.len);
	r->room[s.len] = '\0';
	*ret = (struct str){r->room, s.len};
	r->room += s.len + 1;
	return true;
}

/* One more place in `kept`; NULL without memory. */
static struct str *keep_place(struct json_reader *r)
{
	if (r->kept_len == r->kept_size) {
		struct str *larger = arena_alloc(r->arena, 2 * r->kept_size * sizeof(*larger));

		if (!larger) {
			refuse_too_large(r);
			return NULL;
		}
		memcpy(larger, r->kept, r->kept_len * sizeof(*larger));
		r->kept = larger;
		r->kept_size *= 2;
	}
	return &r->kept[r->kept_len++];
}

static bool keep(struct json_reader *r, struct str s)
{
	struct str *place = keep_place(r);

	return place && copy_string(r, s, place);
}

static int compare_keys(const void *a, const void *b)
{
	const struct str *x = a, *y = b;

	if (x->len != y->len)
		return x->len < y->len ? -1 : 1;
	return memcmp(x->at, y->at, x->len);
}

/*
 * Sorting, unlike hashing, has no bad keys to be found by a client. `stride` is how many struct str
 * one entry has, the key being its first. May change the order of entries.
 */
static const struct str *find_twice(struct str *keys, size_t count, size_t stride)
{
	if (count <= FEW_KEYS) {
		for (size_t i = 1; i < count; i++) {
			for (size_t j = 0; j < i; j++) {
				if (str_eq(keys[i * stride], keys[j * stride]))
					return &keys[i * stride];
			}
		}
		return NULL;
	}
	qsort(keys, count, stride * sizeof(*keys), compare_keys);
	for (size_t i = 1; i < count; i++) {
		if (str_eq(keys[i * stride], keys[(i - 1) * stride]))
			return &keys[i * stride];
	}
	return NULL;
}

void json_reader_init(struct json_reader *r)
{
	r->error = 0;
	r->room = r->room_end = NULL;
	r->kept = r->few;
	r->kept_len = 0;
	r->kept_size = array_len(r->few);
	r->depth = 0;
	r->raw_depth = 0;
}

int json_reader_raw(struct json_reader *r)
{
	take_value(r);
	return copy_string(r, json_raw_text(r), target(r)) && json_raw_flatten(target(r));
}

/* Of JSON_CHANGES. */
static int keep_null(struct json_reader *r)
{
	struct str *place = keep_place(r);

	if (place)
		*place = (struct str){NULL, 0};
	return place != NULL;
}

int json_reader_null(void *reader)
{
	struct json_reader *r = reader;

	if (top(r)->kind == JSON_LEVEL_MAP && top(r)->field->type == JSON_CHANGES)
		return keep_null(r);
	if (r->source->is_file)
		return take_value(r) == JSON_IGNORED ? 1 : refuse_value(r, "must not be ", "null");
	if (top(r)->kind == JSON_LEVEL_OBJECT && !top(r)->field->is_required)
		return 1;
	return take_value(r) == JSON_IGNORED ? 1 : refuse_type(r);
}

int json_reader_bool(void *reader, int value)
{
	struct json_reader *r = reader;
	enum json_type type = take_value(r);

	if (type == JSON_BOOL)
		*(bool *)target(r) = value;
	else if (type != JSON_IGNORED)
		return refuse_type(r);
	return 1;
}

/* -EINVAL if it is no plain integer, -ERANGE if it needs more than 64 bits. */
static int parse_digits(struct str s, uint64_t *ret)
{
	uint64_t value = 0;

	for (size_t i = 0; i < s.len; i++) {
		if (s.at[i] < '0' || s.at[i] > '9')
			return -EINVAL;
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(s.at[i] - '0'), &value))
			return -ERANGE;
	}
	*ret = value;
	return 0;
}

static int read_integer(struct json_reader *r, enum json_type type, struct str s)
{
	bool is_negative = s.at[0] == '-';
	struct str digits = {s.at + is_negative, s.len - is_negative};
	uint64_t value = 0;
	int error = parse_digits(digits, &value);

	/* Only a float has a -0: whoever sends one means something else than an integer. */
	if (error == -EINVAL || (!error && is_negative && value == 0))
		return refuse_type(r);
	if (type != JSON_INT && is_negative)
		return refuse_value(r, "must not be negative", "");
	if (type != JSON_UINT && !error && value > (uint64_t)INT64_MAX + is_negative)
		error = -ERANGE;
	if (error)
		return refuse_value(r, "is out of range", "");
	if (type == JSON_INT)
		*(int64_t *)target(r) = (int64_t)(is_negative ? 0 - value : value);
	else
		*(uint64_t *)target(r) = value;
	return 1;
}

int json_reader_number(void *reader, const char *at, size_t len)
{
	struct json_reader *r = reader;
	enum json_type type = take_value(r);
	char text[NUMBER_MAX + 1];
	double value;

	if (type == JSON_IGNORED)
		return 1;
	if (type != JSON_INT && type != JSON_UINT && type != JSON_NUMBER && type != JSON_SIZE)
		return refuse_type(r);
	if (len > NUMBER_MAX)
		return refuse_value(r, "has too many digits", "");
	if (type != JSON_NUMBER)
		return read_integer(r, type, (struct str){at, len});
	memcpy(text, at, len);
	text[len] = '\0';
	value = strtod(text, NULL);
	if (!isfinite(value))
		return refuse_value(r, "is out of range", "");
	*(double *)target(r) = value;
	return 1;
}

static int read_size(struct json_reader *r, struct str s)
{
	uint64_t bytes;
	int error = size_parse(s, &bytes);

	if (error == -ERANGE)
		return refuse_value(r, "is out of range", "");
	if (error < 0)
		return refuse_type(r);
	*(uint64_t *)target(r) = bytes;
	return 1;
}

int json_reader_string(void *reader, const unsigned char *at, size_t len)
{
	struct json_reader *r = reader;
	struct str s = {(const char *)at, len};
	enum json_type type = take_value(r);

	if (type == JSON_IGNORED)
		return 1;
	if (type == JSON_SIZE)
		return read_size(r, s);
	if (type != JSON_STRING && type != JSON_BYTES)
		return refuse_type(r);
	if (type == JSON_STRING && len && memchr(at, '\0', len))
		return refuse_value(r, "must not hold a NUL character", "");
	if (top(r)->kind == JSON_LEVEL_OBJECT)
		return copy_string(r, s, target(r));
	if (top(r)->count > JSON_ITEMS_MAX)
		return refuse_too_many(r);
	return keep(r, s);
}

/* Elements stay where they are until their number is known. */
static int begin_element(struct json_reader *r)
{
	const struct json_field *field = top(r)->field;
	struct str *place;
	char *element;

	if (top(r)->count > JSON_ITEMS_MAX)
		return refuse_too_many(r);
	place = keep_place(r);
	if (!place)
		return 0;
	element = arena_zalloc(r->arena, field->size);
	if (!element)
		return refuse_too_large(r);
	*place = (struct str){element, field->size};
	push_object(r, field->fields, element);
	return 1;
}

int json_reader_object(void *reader)
{
	struct json_reader *r = reader;
	enum json_type type;

	if (r->depth == 0) {
		push_object(r, r->fields, r->ret);
		return 1;
	}
	type = take_value(r);
	if (top(r)->kind == JSON_LEVEL_OBJECTS)
		return begin_element(r);
	if (type == JSON_OBJECT) {
		push_object(r, top(r)->field->fields, target(r));
	} else if (type == JSON_MAP || type == JSON_CHANGES) {
		const struct json_field *field = top(r)->field;
		char *map = target(r);
		struct json_level *l = push(r, JSON_LEVEL_MAP);

		l->base = map;
		l->field = field;
	} else if (type == JSON_IGNORED) {
		push(r, JSON_LEVEL_IGNORED_OBJECT);
	} else {
		return refuse_type(r);
	}
	return 1;
}

static bool is_named(const struct json_field *field, struct str key)
{
	return strncmp(field->name, key.at, key.len) == 0 && field->name[key.len] == '\0';
}

static int read_field_name(struct json_reader *r, struct str key)
{
	struct json_level *l = top(r);
	size_t i = 0;
	struct json_path path;

	/* A NUL in the key would end strncmp early: no field has one. */
	if (!memchr(key.at, '\0', key.len)) {
		while (l->fields[i].name && !is_named(&l->fields[i], key))
			i++;
		assert(i < JSON_FIELDS_MAX);
		if (l->fields[i].name) {
			if (l->seen & (uint64_t)1 << i)
				return refuse_twice(r, key);
			l->seen |= (uint64_t)1 << i;
			l->field = &l->fields[i];
			r->raw_start = r->position(r->parser);
			return 1;
		}
	}
	for (i = 0; l->fields[i].name; i++) {
		if (l->fields[i].type == JSON_IGNORED && strcmp(l->fields[i].name, "*") == 0) {
			l->field = &l->fields[i];
			return 1;
		}
	}
	json_path_of_key(r, key, &path);
	r->error = err_set(r->err, -EINVAL, ERR_INVALID_REQUEST, "unknown field \"%s\"", path.text);
	return 0;
}

int json_reader_key(void *reader, const unsigned char *at, size_t len)
{
	struct json_reader *r = reader;
	struct json_level *l = top(r);
	struct str key = {len ? (const char *)at : "", len};

	if (l->kind == JSON_LEVEL_OBJECT)
		return read_field_name(r, key);
	if (++l->count > JSON_ITEMS_MAX)
		return refuse_too_many(r);
	if (!keep(r, key))
		return 0;
	if (l->kind == JSON_LEVEL_MAP && memchr(key.at, '\0', len))
		return refuse_value(r, "must not hold a NUL character in its name", "");
	return 1;
}

static int end_fields(struct json_reader *r)
{
	const struct json_level *l = top(r);

	for (size_t i = 0; l->fields[i].name; i++) {
		struct json_path path;

		if (!l->fields[i].is_required || l->seen & (uint64_t)1 << i)
			continue;
		json_path_of_key(r, str_of(l->fields[i].name), &path);
		r->error = err_set(r->err, -EINVAL, ERR_INVALID_REQUEST, "field \"%s\" is missing",
				   path.text);
		return 0;
	}
	return 1;
}

static int end_map(struct json_reader *r)
{
	struct json_level *l = top(r);
	struct json_map *map = (struct json_map *)l->base;
	struct str *kept = r->kept + l->kept_start;

	*map = (struct json_map){.len = l->count};
	if (!l->count)
		return 1;
	map->items = arena_alloc(r->arena, l->count * sizeof(*map->items));
	if (!map->items)
		return refuse_too_large(r);
	for (size_t i = 0; i < l->count; i++)
		map->items[i] = (struct json_pair){kept[2 * i], kept[2 * i + 1]};
	return 1;
}

int json_reader_object_end(void *reader)
{
	struct json_reader *r = reader;
	struct json_level *l = top(r);
	bool is_map = l->kind == JSON_LEVEL_MAP;

	if (l->kind == JSON_LEVEL_OBJECT) {
		if (!end_fields(r))
			return 0;
	} else {
		const struct str *twice;

		if (is_map && !end_map(r))
			return 0;
		twice = find_twice(r->kept + l->kept_start, l->count, is_map ? 2 : 1);
		if (twice)
			return refuse_twice(r, *twice);
	}
	r->kept_len = l->kept_start;
	r->depth--;
	return 1;
}

int json_reader_array(void *reader)
{
	struct json_reader *r = reader;
	enum json_type type = take_value(r);

	if (type == JSON_STRINGS || type == JSON_TEXTS) {
		const struct json_field *field = top(r)->field;
		char *strings = target(r);
		struct json_level *l = push(r, JSON_LEVEL_STRINGS);

		l->base = strings;
		l->field = field;
	} else if (type == JSON_OBJECTS) {
		const struct json_field *field = top(r)->field;
		char *objects = target(r);
		struct json_level *l = push(r, JSON_LEVEL_OBJECTS);

		l->base = objects;
		l->field = field;
	} else if (type == JSON_IGNORED) {
		push(r, JSON_LEVEL_IGNORED_ARRAY);
	} else {
		return refuse_type(r);
	}
	return 1;
}

static int end_strings(struct json_reader *r)
{
	struct json_level *l = top(r);
	struct json_strings *strings = (struct json_strings *)l->base;

	*strings = (struct json_strings){.len = l->count};
	if (!l->count)
		return 1;
	strings->items = arena_alloc(r->arena, l->count * sizeof(struct str));
	if (!strings->items)
		return refuse_too_large(r);
	memcpy(strings->items, r->kept + l->kept_start, l->count * sizeof(struct str));
	return 1;
}

static int end_objects(struct json_reader *r)
{
	struct json_level *l = top(r);
	struct json_objects *objects = (struct json_objects *)l->base;
	size_t size = l->field->size;

	*objects = (struct json_objects){.len = l->count};
	if (!l->count)
		return 1;
	objects->items = arena_alloc(r->arena, l->count * size);
	if (!objects->items)
		return refuse_too_large(r);
	for (size_t i = 0; i < l->count; i++)
		memcpy((char *)objects->items + i * size, r->kept[l->kept_start + i].at, size);
	return 1;
}

int json_reader_array_end(void *reader)
{
	struct json_reader *r = reader;
	struct json_level *l = top(r);

	if (l->kind == JSON_LEVEL_STRINGS && !end_strings(r))
		return 0;
	if (l->kind == JSON_LEVEL_OBJECTS && !end_objects(r))
		return 0;
	r->kept_len = l->kept_start;
	r->depth--;
	return 1;
}
