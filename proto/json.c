#include "proto/json.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <yajl/yajl_gen.h>
#include <yajl/yajl_parse.h>

#include "proto/json_raw.h"
#include "proto/json_reader.h"
#include "proto/json_scan.h"

/*
 * yajl does not check what its allocator returns, so the parser's memory is set aside before it
 * starts: what json_scan() measured bounds it, and a wrong bound is our bug (hence the asserts).
 */
#define PARSER_FIXED   1536 /* handle, lexer, their buffers' heads, 128 bytes of states: ~500 */
#define UNESCAPE_FIRST 2048 /* yajl's first buffer for an unescaped string; then it doubles */

struct parser_memory {
	char *at, *end;
	char *newest;
};

static void *parser_alloc(void *arg, size_t size)
{
	struct parser_memory *m = arg;

	size = (size + 15) & ~(size_t)15;
	assert(size <= (size_t)(m->end - m->at));
	m->newest = m->at;
	m->at += size;
	return m->newest;
}

static void *parser_realloc(void *arg, void *old, size_t size)
{
	struct parser_memory *m = arg;

	if (!old)
		return parser_alloc(m, size);
	/* Only the buffer for unescaped strings grows, and nothing is made after it. */
	assert(old == m->newest && size <= (size_t)(m->end - m->newest));
	m->at = m->newest + size;
	return old;
}

static void memory_free(void *arg, void *old)
{
}

static const yajl_callbacks callbacks = {
	.yajl_null = json_raw_null,
	.yajl_boolean = json_raw_bool,
	.yajl_number = json_raw_number,
	.yajl_string = json_raw_string,
	.yajl_start_map = json_raw_object,
	.yajl_map_key = json_raw_key,
	.yajl_end_map = json_raw_object_end,
	.yajl_start_array = json_raw_array,
	.yajl_end_array = json_raw_array_end,
};

static size_t position(void *parser)
{
	return yajl_get_bytes_consumed(parser);
}

static int run_parser(struct json_reader *reader, struct str object, struct parser_memory *memory)
{
	const struct json_source *source = reader->source;
	size_t start = (size_t)(object.at - source->text.at);
	yajl_alloc_funcs funcs = {parser_alloc, parser_realloc, memory_free, memory};
	yajl_handle parser = yajl_alloc(&callbacks, &funcs, reader);
	yajl_status status;

	reader->parser = parser;
	reader->position = position;
	/* json_scan() has checked it, more strictly. */
	yajl_config(parser, yajl_dont_validate_strings, 1);
	status = yajl_parse(parser, (const unsigned char *)object.at, object.len);
	if (status == yajl_status_client_canceled)
		return reader->error;
	/*
	 * The text ends with the bracket that closes its first: yajl has seen the whole value or
	 * has failed before, and there is no half token for yajl_complete_parse() to find.
	 */
	if (status != yajl_status_ok || reader->depth)
		return err_set(
			reader->err, -EINVAL, ERR_INVALID_REQUEST, "%s is not valid JSON (near %s)",
			json_source_name(source),
			json_source_place(source, start + yajl_get_bytes_consumed(parser)).text);
	return 0;
}

static int parse(struct arena *arena, const struct json_source *source,
		 const struct json_field *fields, void *ret, struct err *err)
{
	_Alignas(16) char fixed[PARSER_FIXED + UNESCAPE_FIRST];
	struct parser_memory memory = {.at = fixed, .end = fixed + sizeof(fixed)};
	struct json_reader reader;
	struct json_frame frame;
	size_t unescape = UNESCAPE_FIRST;
	int r;

	r = json_scan(source, &frame, err);
	if (r < 0)
		return r;
	while (unescape <= frame.escaped_max)
		unescape *= 2;
	if (unescape > UNESCAPE_FIRST) {
		memory.at = arena_alloc(arena, PARSER_FIXED + unescape);
		if (!memory.at)
			return err_set(err, -EMSGSIZE, ERR_PAYLOAD_TOO_LARGE,
				       "%s needs more memory than one request may take",
				       json_source_name(source));
		memory.end = memory.at + PARSER_FIXED + unescape;
	}
	reader.arena = arena;
	reader.source = source;
	reader.text = frame.object;
	reader.fields = fields;
	reader.ret = ret;
	reader.err = err;
	json_reader_init(&reader);
	return run_parser(&reader, frame.object, &memory);
}

int json_parse(struct arena *arena, struct str text, const struct json_field *fields, void *ret,
	       struct err *err)
{
	return parse(arena, &(struct json_source){text, false}, fields, ret, err);
}

int json_parse_file(struct arena *arena, struct str text, const struct json_field *fields,
		    void *ret, struct err *err)
{
	return parse(arena, &(struct json_source){text, true}, fields, ret, err);
}

static void *writer_alloc(void *arg, size_t size)
{
	struct json_writer *w = arg;
	void *result = (char *)w->memory + w->memory_used;

	size = (size + sizeof(void *) - 1) & ~(sizeof(void *) - 1);
	assert(size <= sizeof(w->memory) - w->memory_used);
	w->memory_used += size;
	return result;
}

static void *writer_realloc(void *arg, void *old, size_t size)
{
	/* Its only buffer was replaced by ours. */
	assert(!old);
	return writer_alloc(arg, size);
}

static void on_print(void *arg, const char *bytes, size_t len)
{
	struct json_writer *w = arg;
	int r;

	/* Most of what yajl prints is one mark of punctuation. */
	if (len == 1 && w->text.end < w->text.size && w->text.end < w->text.limit) {
		w->text.bytes[w->text.end++] = *bytes;
		return;
	}
	r = buf_append(&w->text, bytes, len);
	if (r < 0 && !w->error)
		w->error = r;
}

int json_writer_init(struct json_writer *w, bool is_pretty)
{
	yajl_alloc_funcs funcs = {writer_alloc, writer_realloc, memory_free, NULL};

	funcs.ctx = w;
	w->error = 0;
	w->depth = 0;
	w->objects = 0;
	w->has_key = w->is_begun = false;
	w->memory_used = 0;
	buf_init(&w->text, JSON_TEXT_MAX);
	w->gen = yajl_gen_alloc(&funcs);
	/* Strings are checked by ours: yajl's check passes surrogates and overlong forms. */
	yajl_gen_config(w->gen, yajl_gen_print_callback, on_print, w);
	yajl_gen_config(w->gen, yajl_gen_beautify, (int)is_pretty);
	yajl_gen_config(w->gen, yajl_gen_indent_string, "  ");
	return 0;
}

void json_writer_close(struct json_writer *w)
{
	yajl_gen_free(w->gen);
	buf_close(&w->text);
}

/* yajl must not be called again once it has failed: its depth is then out of its array. */
static void check(struct json_writer *w, yajl_gen_status status)
{
	if (status != yajl_gen_status_ok && !w->error)
		w->error = -EINVAL;
}

static bool is_in_object(const struct json_writer *w)
{
	return w->depth && w->objects & 1;
}

/* Is this the place for a value? yajl would let some others pass. */
static bool begin_value(struct json_writer *w)
{
	if (w->error)
		return false;
	if (w->depth ? is_in_object(w) && !w->has_key : w->is_begun) {
		w->error = -EINVAL;
		return false;
	}
	w->is_begun = true;
	w->has_key = false;
	return true;
}

static bool begin_container(struct json_writer *w, bool is_object)
{
	if (!begin_value(w))
		return false;
	if (w->depth == JSON_DEPTH_MAX) {
		w->error = -EINVAL;
		return false;
	}
	w->depth++;
	w->objects = w->objects << 1 | is_object;
	return true;
}

static bool end_container(struct json_writer *w, bool is_object)
{
	if (w->error)
		return false;
	if (!w->depth || is_in_object(w) != is_object || w->has_key) {
		w->error = -EINVAL;
		return false;
	}
	w->depth--;
	w->objects >>= 1;
	return true;
}

static void put_string(struct json_writer *w, struct str s)
{
	if (!utf8_is_valid(s)) {
		w->error = -EILSEQ;
		return;
	}
	check(w, yajl_gen_string(w->gen, (const unsigned char *)s.at, s.len));
}

void json_object(struct json_writer *w)
{
	if (begin_container(w, true))
		check(w, yajl_gen_map_open(w->gen));
}

void json_object_end(struct json_writer *w)
{
	if (end_container(w, true))
		check(w, yajl_gen_map_close(w->gen));
}

void json_array(struct json_writer *w)
{
	if (begin_container(w, false))
		check(w, yajl_gen_array_open(w->gen));
}

void json_array_end(struct json_writer *w)
{
	if (end_container(w, false))
		check(w, yajl_gen_array_close(w->gen));
}

void json_key_str(struct json_writer *w, struct str key)
{
	if (w->error)
		return;
	if (!is_in_object(w) || w->has_key) {
		w->error = -EINVAL;
		return;
	}
	w->has_key = true;
	put_string(w, key);
}

void json_key(struct json_writer *w, const char *key)
{
	json_key_str(w, str_of(key));
}

void json_str(struct json_writer *w, struct str s)
{
	if (begin_value(w))
		put_string(w, s);
}

void json_text(struct json_writer *w, const char *text)
{
	json_str(w, str_of(text));
}

void json_int(struct json_writer *w, int64_t value)
{
	uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
	char digits[24], *at = digits + sizeof(digits);

	if (!begin_value(w))
		return;
	do {
		*--at = (char)('0' + left % 10);
		left /= 10;
	} while (left);
	if (value < 0)
		*--at = '-';
	check(w, yajl_gen_number(w->gen, at, (size_t)(digits + sizeof(digits) - at)));
}

/* As few digits as give the same number again. */
void json_double(struct json_writer *w, double value)
{
	char digits[32];
	int n;

	if (!begin_value(w))
		return;
	if (!isfinite(value)) {
		w->error = -EDOM;
		return;
	}
	for (int precision = 15; precision <= 17; precision++) {
		n = snprintf(digits, sizeof(digits), "%.*g", precision, value);
		if (strtod(digits, NULL) == value)
			break;
	}
	check(w, yajl_gen_number(w->gen, digits, (size_t)n));
}

void json_bool(struct json_writer *w, bool value)
{
	if (begin_value(w))
		check(w, yajl_gen_bool(w->gen, value));
}

void json_null(struct json_writer *w)
{
	if (begin_value(w))
		check(w, yajl_gen_null(w->gen));
}

/* yajl takes a number as the text that it is, and so any value. */
void json_raw(struct json_writer *w, struct str text)
{
	if (!begin_value(w))
		return;
	if (!text.len)
		w->error = -EINVAL;
	else
		check(w, yajl_gen_number(w->gen, text.at, text.len));
}

int json_writer_end(struct json_writer *w, struct buf *out)
{
	int r;

	if (!w->error && (!w->is_begun || w->depth))
		w->error = -EINVAL;
	if (w->error)
		return w->error;
	if (out->bytes) {
		r = buf_append(out, buf_at(&w->text), buf_len(&w->text));
		buf_close(&w->text);
		return r;
	}
	if (buf_len(&w->text) > out->limit)
		return -EMSGSIZE;
	/* Nothing to append to: hand the memory over. */
	w->text.limit = out->limit;
	*out = w->text;
	buf_init(&w->text, JSON_TEXT_MAX);
	return 0;
}

void json_str_if_any(struct json_writer *w, const char *key, struct str text)
{
	if (!text.len)
		return;
	json_key(w, key);
	json_str(w, text);
}

void json_raw_if_any(struct json_writer *w, const char *key, struct str text)
{
	if (!text.len)
		return;
	json_key(w, key);
	json_raw(w, text);
}
