/* Values that are kept as the text that they are. */
#include <errno.h>

#include "proto/json.h"
#include "tests/unit/tap.h"

struct thing {
	struct str value, other;
	bool value_given;
	struct json_strings texts;
};

/* clang-format off */
static const struct json_field fields[] = {
	{ "value", JSON_RAW,   offsetof(struct thing, value), false, offsetof(struct thing, value_given) },
	{ "other", JSON_RAW,   offsetof(struct thing, other) },
	{ "texts", JSON_TEXTS, offsetof(struct thing, texts) },
	{ NULL },
};
/* clang-format on */

static struct arena arena;
static struct thing thing;
static struct err err;

static int parse(const char *text)
{
	arena_close(&arena);
	arena_init(&arena, 1 << 20);
	thing = (struct thing){0};
	err = (struct err){0};
	return json_parse(&arena, str_of(text), fields, &thing, &err);
}

static void test_kept(void)
{
	static const char *const values[] = {
		"1",
		"-1.50e+3",
		"null",
		"true",
		"\"\"",
		"\"a\\u0000\\n\\\"}]\"",
		"[]",
		"{}",
		"[1, [2, {\"a\": [null]}], \"]\"]",
		"{\"a\": 1, \"a\": {\"value\": 2}, \"\": [{}]}",
		"123456789012345678901234567890.123456789012345678901234567890",
	};
	static const char *const frames[] = {
		"{\"value\":%s}",
		" {\"other\": [0], \"value\" : %s , \"texts\": []}",
		"{\"value\":\t%s}",
		"{\"texts\": [\"a\"], \"value\": %s, \"other\": {\"b\": \"c\"}}",
	};
	char text[512];

	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
		for (size_t j = 0; j < sizeof(frames) / sizeof(*frames); j++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
			snprintf(text, sizeof(text), frames[j], values[i]);
#pragma GCC diagnostic pop
			check(parse(text) == 0 && thing.value_given);
			check_str(thing.value.at, values[i]);
			check(thing.value.at && strlen(thing.value.at) == thing.value.len);
		}
	}
	check_str(thing.other.at, "{\"b\": \"c\"}");
	check(thing.texts.len == 1);
	tap_ok("any value is kept as it stands");
}

static void test_one_line(void)
{
	check(parse("{\"value\":\r\n {\n\"a\" :\t[\r1,\n2]\n}\n}") == 0);
	check_str(thing.value.at, "{ \"a\" : [ 1, 2] }");
	tap_ok("line breaks become spaces");
}

static void test_refused(void)
{
	static const char *const texts[] = {
		"{\"value\": [1, ]}",         "{\"value\": {\"a\"}}",
		"{\"value\": {1: 2}}",        "{\"value\": NaN}",
		"{\"value\": [1 2]}",         "{\"value\": 'a'}",
		"{\"value\": \"a\nb\"}",      "{\"value\": 01}",
		"{\"value\": [\"\\ud800\"]}", "{\"value\": [\"\xff\"]}",
		"{\"value\": [}]}",           "{\"value\": }",
		"{\"value\": /* */ 1}",       "{\"value\": 1, \"value\": 2}",
	};
	char deep[512] = "{\"value\": ";
	size_t start = strlen(deep);

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		check(parse(texts[i]) == -EINVAL && err.code == ERR_INVALID_REQUEST);
		if (err.code == ERR_NONE)
			printf("# %s\n", texts[i]);
	}
	memset(deep + start, '[', JSON_DEPTH_MAX);
	memset(deep + start + JSON_DEPTH_MAX, ']', JSON_DEPTH_MAX);
	deep[start + 2 * JSON_DEPTH_MAX] = '}';
	check(parse(deep) == -EINVAL);
	for (size_t levels = JSON_RAW_DEPTH_MAX; levels <= JSON_RAW_DEPTH_MAX + 1; levels++) {
		memset(deep + start, 0, sizeof(deep) - start);
		memset(deep + start, '[', levels);
		memset(deep + start + levels, ']', levels);
		deep[start + 2 * levels] = '}';
		check(parse(deep) == (levels == JSON_RAW_DEPTH_MAX ? 0 : -EINVAL));
	}
	check_str(err.sentence, "value is nested too deeply: it may have 28 levels");
	tap_ok("what is no JSON, or too deep, is refused");
}

static void test_texts(void)
{
	check(parse("{\"texts\": [\"a\\u0000b\", \"\"]}") == 0 && thing.texts.len == 2);
	check(thing.texts.items[0].len == 3 && thing.texts.items[1].len == 0);
	check(parse("{\"texts\": [1]}") == -EINVAL);
	check_str(err.sentence, "texts[0] must be a string");
	check(parse("{\"texts\": {}}") == -EINVAL);
	tap_ok("an array of texts may hold NUL characters");
}

static void test_written(void)
{
	struct json_writer w;
	struct buf out;

	buf_init(&out, 1 << 16);
	json_writer_init(&w, false);
	json_object(&w);
	json_key(&w, "a");
	json_raw(&w, STR("{\"b\": [1]}"));
	json_key(&w, "c");
	json_array(&w);
	json_raw(&w, STR("null"));
	json_raw(&w, STR("\"x\""));
	json_array_end(&w);
	json_object_end(&w);
	check(json_writer_end(&w, &out) == 0);
	json_writer_close(&w);
	check(buf_append(&out, "", 1) == 0);
	check_str(buf_at(&out), "{\"a\":{\"b\": [1]},\"c\":[null,\"x\"]}");
	json_writer_init(&w, false);
	json_raw(&w, (struct str){NULL, 0});
	check(json_writer_end(&w, &out) == -EINVAL);
	json_writer_close(&w);
	buf_close(&out);
	tap_ok("a raw value is written as it stands");
}

int main(void)
{
	arena_init(&arena, 1 << 20);
	test_kept();
	test_one_line();
	test_refused();
	test_texts();
	test_written();
	arena_close(&arena);
	return tap_done();
}
