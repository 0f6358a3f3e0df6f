#include "proto/json_equal.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "tests/unit/tap.h"

static bool equal(const char *a, const char *b)
{
	int there = json_equal(str_of(a), str_of(b)), back = json_equal(str_of(b), str_of(a));

	check(there == back && there >= 0);
	return there == 1;
}

static void test_numbers(void)
{
	/* clang-format off */
	static const char *const same[][2] = {
		{"1", "1.0"}, {"1", "10e-1"}, {"100", "1e2"}, {"100", "1E+2"}, {"0", "-0"}, {"0", "0.000"},
		{"0e5", "0"}, {"12.50", "1.25e1"}, {"-3", "-3.0"}, {"0.1", "0.10"}, {"0.1", "1e-1"},
		{"123456789012345678901234567890", "123456789012345678901234567890.0"},
		{"1e400", "10e399"}, {"1e99999999999999999999", "1e99999999999999999999"},
		{"3.14159265358979323846", "3.141592653589793"}, {"1.5", "15e-1"}, {"1050", "1.05e3"},
	};
	static const char *const other[][2] = {
		{"1", "2"}, {"1", "-1"}, {"9007199254740993", "9007199254740992"},
		{"9007199254740993", "9007199254740992.0"}, {"1e400", "1e401"}, {"0.1", "0.2"},
		{"0.30000000000000004", "0.3"}, {"10", "1"}, {"1", "10"}, {"12", "123"}, {"1.5", "1"},
		{"123456789012345678901234567890", "123456789012345678901234567891"},
		{"1", "\"1\""}, {"0", "false"}, {"0", "null"},
	};
	/* clang-format on */

	for (size_t i = 0; i < array_len(same); i++) {
		if (!equal(same[i][0], same[i][1]))
			check_str(same[i][0], same[i][1]);
	}
	for (size_t i = 0; i < array_len(other); i++) {
		if (equal(other[i][0], other[i][1]))
			check_str(other[i][0], "not the same");
	}
	tap_ok("numbers by their value");
}

static void test_strings(void)
{
	check(equal("\"a\"", "\"\\u0061\"") && equal("\"/\"", "\"\\/\""));
	check(equal("\"\\n\\t\\\"\\\\\"", "\"\\u000a\\u0009\\u0022\\u005C\""));
	check(equal("\"\xc3\xa9\"", "\"\\u00E9\"") && equal("\"\xe2\x82\xac\"", "\"\\u20ac\""));
	check(equal("\"\xf0\x9f\x98\x80\"", "\"\\ud83d\\ude00\""));
	check(!equal("\"\xf0\x9f\x98\x80\"", "\"\\ud83d\\ude01\""));
	check(!equal("\"a\"", "\"ab\"") && !equal("\"\"", "\"\\u0000\"") &&
	      equal("\"\"", " \"\" "));
	check(!equal("\"n\"", "\"\\n\"") && !equal("\"a\"", "\"A\""));
	tap_ok("strings by what they hold");
}

static void test_containers(void)
{
	check(equal("[]", "[ ]") && equal("{}", "{\n}") && !equal("[]", "{}"));
	check(!equal("[]", "[null]") && !equal("{}", "{\"a\":null}") && !equal("[1]", "[1,1]"));
	check(equal("[1,[2,{\"a\":\"]\"}]]", "[1.0, [2, {\"\\u0061\": \"]\"}]]"));
	check(!equal("[1,2]", "[2,1]"));
	check(equal("{\"a\":1,\"b\":[true,false,null]}", "{\"b\":[true,false,null],\"a\":1.0}"));
	check(!equal("{\"a\":1,\"b\":2}", "{\"a\":2,\"b\":1}"));
	check(!equal("{\"a\":1}", "{\"b\":1}") && !equal("{\"a\":1}", "{\"a\":1,\"b\":1}"));
	check(equal("{\"\":{\"x\":[{}]}}", "{\"\":{\"x\":[{}]}}"));
	check(!equal("true", "false") && equal("null", "null") && !equal("null", "true"));
	tap_ok("arrays in order, objects in any");
}

static void test_refusals(void)
{
	static const char *const none[] = {"",         " ",          "[1",
					   "{\"a\"}",  "\"a",        "[1,]",
					   "1 2",      "{\"a\":1,}", "{\"a\":1 \"b\":2}",
					   "]",        "{,}",        "\"\\",
					   "{\"a\":}", "[}"};
	char deep[2 * 40 + 1] = {0};

	for (size_t i = 0; i < array_len(none); i++)
		if (equal(none[i], none[i]))
			check_str(none[i], "equal to nothing");
	check(!equal("{\"a\":1,\"a\":1}", "{\"a\":1,\"a\":1}"));
	check(!equal("{\"a\":1,\"\\u0061\":1}", "{\"a\":1,\"b\":1}"));
	memset(deep, '[', 40);
	memset(deep + 40, ']', 40);
	check(!equal(deep, deep));
	tap_ok("what is no JSON is equal to nothing");
}

static struct str text_of(const struct buf *text)
{
	return (struct str){buf_at(text), buf_len(text)};
}

/* Objects in objects, with many members in the last: each byte is looked at a few times, not once
 * for each that is around it. */
static void test_work(void)
{
	struct buf deep, wide;
	size_t seen;

	buf_init(&deep, 1 << 20);
	buf_init(&wide, 1 << 20);
	for (int i = 0; i < 28; i++)
		check(buf_printf(&deep, "{\"a\":1,\"b\":") == 0);
	check(buf_append(&deep, "[{}", 3) == 0 && buf_append(&wide, "{\"\":[]", 6) == 0);
	for (int i = 0; i < 10000; i++) {
		check(buf_printf(&deep, ",{\"%d\":[\"x\",%d]}", i, i) == 0);
		check(buf_printf(&wide, ",\"\\u%04x\":{\"a\":[%d]}", i, i) == 0);
	}
	check(buf_append(&deep, "]", 1) == 0 && buf_append(&wide, "}", 1) == 0);
	for (int i = 0; i < 28; i++)
		check(buf_append(&deep, "}", 1) == 0);
	check(json_equal_seen(text_of(&deep), text_of(&deep), &seen) == 1);
	check(seen >= 2 * buf_len(&deep) && seen <= 8 * buf_len(&deep));
	check(json_equal_seen(text_of(&wide), text_of(&wide), &seen) == 1);
	check(seen <= 8 * buf_len(&wide));
	/* The number of members tells already: none of them is taken. */
	check(json_equal_seen(text_of(&wide), STR("{\"a\":1}"), &seen) == 0);
	check(seen <= 2 * buf_len(&wide) + 64);
	buf_close(&deep);
	buf_close(&wide);
	tap_ok("it looks at each byte a few times, however deep that is");
}

int main(void)
{
	test_numbers();
	test_strings();
	test_containers();
	test_refusals();
	test_work();
	return tap_done();
}
