#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "proto/json.h"
#include "tests/unit/tap.h"

static struct json_writer w;
static struct buf out;

static void begin(void)
{
	buf_close(&out);
	buf_init(&out, 1 << 20);
	json_writer_init(&w, false);
}

/* The text, or what json_writer_end() said. */
static const char *end(void)
{
	static char text[4096];
	int r = json_writer_end(&w, &out);

	json_writer_close(&w);
	if (r < 0)
		return strerrorname_np(-r);
	snprintf(text, sizeof(text), "%.*s", (int)buf_len(&out), buf_at(&out));
	return text;
}

static void test_all(void)
{
	begin();
	json_object(&w);
	json_key(&w, "a\"b");
	json_array(&w);
	json_int(&w, 0);
	json_int(&w, INT64_MIN);
	json_int(&w, INT64_MAX);
	json_bool(&w, true);
	json_bool(&w, false);
	json_null(&w);
	json_text(&w, "\\/\"\b\f\n\r\t\x01\x7f\xc3\xa4\xf0\x9f\x98\x80");
	json_str(&w, (struct str){"\0", 1});
	json_str(&w, (struct str){NULL, 0});
	json_array(&w);
	json_array_end(&w);
	json_array_end(&w);
	json_key_str(&w, STR("k"));
	json_object(&w);
	json_object_end(&w);
	json_object_end(&w);
	check_str(end(), "{\"a\\\"b\":[0,-9223372036854775808,9223372036854775807,true,false,null,"
			 "\"\\\\/\\\"\\b\\f\\n\\r\\t\\u0001\x7f\xc3\xa4\xf0\x9f\x98\x80\","
			 "\"\\u0000\",\"\",[]],\"k\":{}}");
	tap_ok("every kind of value");

	begin();
	json_writer_close(&w);
	json_writer_init(&w, true);
	json_object(&w);
	json_key(&w, "a");
	json_int(&w, 1);
	json_object_end(&w);
	check_str(end(), "{\n  \"a\": 1\n}\n");
	tap_ok("pretty");
}

static void test_doubles(void)
{
	/* clang-format off */
	static const struct {
		double value;
		const char *text;
	} cases[] = {
		{0, "0"}, {-0.0, "-0"}, {1.5, "1.5"}, {0.1, "0.1"}, {0.8, "0.8"}, {-2, "-2"},
		{100, "100"}, {1e300, "1e+300"}, {0.1 + 0.2, "0.30000000000000004"},
		{1.0 / 3, "0.3333333333333333"}, {5e-324, "4.94065645841247e-324"},
		{1.7976931348623157e308, "1.7976931348623157e+308"}, {9007199254740992, "9007199254740992"},
		{NAN, "EDOM"}, {INFINITY, "EDOM"}, {-INFINITY, "EDOM"},
	};
	/* clang-format on */

	for (size_t i = 0; i < array_len(cases); i++) {
		begin();
		json_double(&w, cases[i].value);
		check_str(end(), cases[i].text);
	}
	srand(1);
	for (int i = 0; i < 2000; i++) {
		uint64_t bits = (uint64_t)rand() << 42 ^ (uint64_t)rand() << 21 ^ (uint64_t)rand();
		double value;

		memcpy(&value, &bits, sizeof(value));
		if (!isfinite(value))
			continue;
		begin();
		json_double(&w, value);
		check(strtod(end(), NULL) == value);
	}
	tap_ok("doubles come back as they were, NaN and infinity are errors");
}

static void test_bad_text(void)
{
	static const char *const bad[] = {"\xff", "a\xc3", "\xed\xa0\x80", "\xc0\x80",
					  "\xf4\x90\x80\x80"};

	for (size_t i = 0; i < array_len(bad); i++) {
		begin();
		json_text(&w, bad[i]);
		check_str(end(), "EILSEQ");
		begin();
		json_object(&w);
		json_key(&w, bad[i]);
		json_null(&w);
		json_object_end(&w);
		check_str(end(), "EILSEQ");
	}
	tap_ok("text that is not UTF-8 is refused");
}

static void test_misplaced(void)
{
	begin();
	check_str(end(), "EINVAL");
	begin();
	json_int(&w, 1);
	json_int(&w, 2);
	check_str(end(), "EINVAL");
	begin();
	json_object(&w);
	check_str(end(), "EINVAL");
	begin();
	json_object(&w);
	json_int(&w, 1);
	json_object_end(&w);
	check_str(end(), "EINVAL");
	begin();
	json_object(&w);
	json_text(&w, "not a key");
	json_object_end(&w);
	check_str(end(), "EINVAL");
	begin();
	json_object(&w);
	json_key(&w, "a");
	json_object_end(&w);
	check_str(end(), "EINVAL");
	begin();
	json_object(&w);
	json_key(&w, "a");
	json_key(&w, "b");
	check_str(end(), "EINVAL");
	begin();
	json_array(&w);
	json_key(&w, "a");
	check_str(end(), "EINVAL");
	begin();
	json_key(&w, "a");
	check_str(end(), "EINVAL");
	begin();
	json_array(&w);
	json_object_end(&w);
	check_str(end(), "EINVAL");
	begin();
	json_array_end(&w);
	json_array_end(&w);
	check_str(end(), "EINVAL");
	tap_ok("calls out of place are errors that stick");
}

static void test_depth(void)
{
	begin();
	for (int i = 0; i < 1000; i++)
		json_array(&w);
	for (int i = 0; i < 2000; i++)
		json_array_end(&w);
	check_str(end(), "EINVAL");
	begin();
	for (int i = 0; i < JSON_DEPTH_MAX; i++)
		json_array(&w);
	for (int i = 0; i < JSON_DEPTH_MAX; i++)
		json_array_end(&w);
	check(strlen(end()) == 2 * JSON_DEPTH_MAX);
	tap_ok("as deep as the parser goes, and no deeper");
}

static void test_output(void)
{
	begin();
	buf_append_str(&out, STR("before "));
	json_int(&w, 1);
	check_str(end(), "before 1");
	begin();
	out.limit = 3;
	json_text(&w, "too long");
	check_str(end(), "EMSGSIZE");
	check(buf_len(&out) == 0);
	begin();
	out.limit = 9;
	buf_append_str(&out, STR("12345"));
	json_text(&w, "long");
	check_str(end(), "EMSGSIZE");
	check(buf_len(&out) == 5);
	begin();
	json_array(&w);
	for (int i = 0; i < 100000; i++)
		json_text(&w, "0123456789");
	json_array_end(&w);
	buf_close(&out);
	buf_init(&out, 2 << 20);
	check(json_writer_end(&w, &out) == 0 && buf_len(&out) == 1300001);
	check(json_writer_end(&w, &out) == 0 && buf_len(&out) == 1300001);
	json_writer_close(&w);
	tap_ok("the text is appended whole or not at all");
}

static void test_limit(void)
{
	begin();
	check(w.text.limit == JSON_TEXT_MAX);
	json_writer_close(&w);
	for (size_t limit = 0; limit < 400; limit++) {
		begin();
		w.text.limit = limit;
		json_array(&w);
		for (int i = 0; i < 60; i++)
			json_text(&w, "a\n");
		json_array_end(&w);
		if (limit < 361)
			check_str(end(), "EMSGSIZE");
		else
			check(strlen(end()) == 361);
	}
	tap_ok("no more is written than the limit allows");
}

int main(void)
{
	test_all();
	test_doubles();
	test_bad_text();
	test_misplaced();
	test_depth();
	test_output();
	test_limit();
	buf_close(&out);
	return tap_done();
}
