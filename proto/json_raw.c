#include "proto/json_raw.h"

#include <errno.h>

static bool is_next(const struct json_reader *r)
{
	const struct json_level *l;

	if (!r->depth)
		return false;
	l = &r->levels[r->depth - 1];
	return l->kind == JSON_LEVEL_OBJECT && l->field->type == JSON_RAW;
}

int json_raw_null(void *reader)
{
	struct json_reader *r = reader;

	if (r->raw_depth)
		return 1;
	return is_next(r) ? json_reader_raw(r) : json_reader_null(reader);
}

int json_raw_bool(void *reader, int value)
{
	struct json_reader *r = reader;

	if (r->raw_depth)
		return 1;
	return is_next(r) ? json_reader_raw(r) : json_reader_bool(reader, value);
}

int json_raw_number(void *reader, const char *at, size_t len)
{
	struct json_reader *r = reader;

	if (r->raw_depth)
		return 1;
	return is_next(r) ? json_reader_raw(r) : json_reader_number(reader, at, len);
}

int json_raw_string(void *reader, const unsigned char *at, size_t len)
{
	struct json_reader *r = reader;

	if (r->raw_depth)
		return 1;
	return is_next(r) ? json_reader_raw(r) : json_reader_string(reader, at, len);
}

int json_raw_key(void *reader, const unsigned char *at, size_t len)
{
	const struct json_reader *r = reader;

	return r->raw_depth ? 1 : json_reader_key(reader, at, len);
}

static int begin(struct json_reader *r)
{
	struct json_path path;

	if (++r->raw_depth <= JSON_RAW_DEPTH_MAX)
		return 1;
	json_path_of(r, r->depth, &path);
	r->error = err_set(r->err, -EINVAL, ERR_INVALID_REQUEST,
			   "%s is nested too deeply: it may have %d levels", path.text,
			   JSON_RAW_DEPTH_MAX);
	return 0;
}

static int end(struct json_reader *r)
{
	return --r->raw_depth ? 1 : json_reader_raw(r);
}

int json_raw_object(void *reader)
{
	struct json_reader *r = reader;

	return r->raw_depth || is_next(r) ? begin(r) : json_reader_object(reader);
}

int json_raw_object_end(void *reader)
{
	struct json_reader *r = reader;

	return r->raw_depth ? end(r) : json_reader_object_end(reader);
}

int json_raw_array(void *reader)
{
	struct json_reader *r = reader;

	return r->raw_depth || is_next(r) ? begin(r) : json_reader_array(reader);
}

int json_raw_array_end(void *reader)
{
	struct json_reader *r = reader;

	return r->raw_depth ? end(r) : json_reader_array_end(reader);
}

static bool is_space(char c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

struct str json_raw_text(const struct json_reader *r)
{
	size_t start = r->raw_start, end = r->position(r->parser);

	while (is_space(r->text.at[start]) || r->text.at[start] == ':')
		start++;
	return (struct str){r->text.at + start, end - start};
}

int json_raw_flatten(struct str *value)
{
	char *text = (char *)value->at;

	for (size_t i = 0; i < value->len; i++) {
		if (is_space(text[i]))
			text[i] = ' ';
	}
	return 1;
}
