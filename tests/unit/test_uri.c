#include "proto/uri.h"

#include <errno.h>

#include "base/cleanup.h"
#include "tests/unit/tap.h"

static void test_decode(void)
{
	/* clang-format off */
	static const struct {
		struct str raw, decoded;
		int result;
	} cases[] = {
		{{"", 0}, {"", 0}, 0},
		{{"a/b", 3}, {"a/b", 3}, 0},
		{{"a+b", 3}, {"a+b", 3}, 0},
		{{"%41%4a%4A", 9}, {"AJJ", 3}, 0},
		{{"%2F%25%00%ff", 12}, {"/%\0\xff", 4}, 0},
		{{"%252F", 5}, {"%2F", 3}, 0},
		{{"\xc3\xa9", 2}, {"\xc3\xa9", 2}, 0},
		{{"%", 1}, {"", 0}, -EINVAL},
		{{"%4", 2}, {"", 0}, -EINVAL},
		{{"a%4", 3}, {"", 0}, -EINVAL},
		{{"%g0", 3}, {"", 0}, -EINVAL},
		{{"%0g", 3}, {"", 0}, -EINVAL},
		{{"%%41", 4}, {"", 0}, -EINVAL},
		{{"%+1", 3}, {"", 0}, -EINVAL},
		{{"% 1", 3}, {"", 0}, -EINVAL},
		{{"%u0041", 6}, {"", 0}, -EINVAL},
	};
	/* clang-format on */

	for (size_t i = 0; i < array_len(cases); i++) {
		struct arena arena;
		struct str decoded = {NULL, 0};

		arena_init(&arena, 1 << 16);
		check(uri_decode(&arena, cases[i].raw, &decoded) == cases[i].result);
		check(str_eq(decoded, cases[i].decoded));
		check(cases[i].result < 0 || decoded.at[decoded.len] == '\0');
		arena_close(&arena);
	}
	tap_ok("escapes are decoded once, bad ones refused");
}

static void test_query(void)
{
	/* clang-format off */
	static const struct {
		const char *query, *name;
		int result;
		const char *value;
	} cases[] = {
		{"", "a", 0, ""},
		{"a=1", "a", 1, "1"},
		{"a", "a", 1, ""},
		{"a=", "a", 1, ""},
		{"a=1=2", "a", 1, "1=2"},
		{"b=2&a=1&c", "a", 1, "1"},
		{"b=2&a=1&c", "c", 1, ""},
		{"&&a=1&&", "a", 1, "1"},
		{"ab=1", "a", 0, ""},
		{"a=1", "ab", 0, ""},
		{"A=1", "a", 0, ""},
		{"a=x+y%2Bz%20", "a", 1, "x y+z "},
		{"%61=1", "a", 1, "1"},
		{"x+y=1", "x y", 1, "1"},
		{"a=%26b%3D", "a", 1, "&b="},
		{"a=1&a=1", "a", -EINVAL, ""},
		{"a=1&%61=2", "a", -EINVAL, ""},
		{"a&a", "a", -EINVAL, ""},
		{"a=%", "a", -EINVAL, ""},
		{"a=%4&b=1", "a", -EINVAL, ""},
		{"%zz=1&a=1", "a", -EINVAL, ""},
		{"=1", "a", 0, ""},
	};
	/* clang-format on */

	for (size_t i = 0; i < array_len(cases); i++) {
		struct arena arena;
		struct str value = STR("");

		arena_init(&arena, 1 << 16);
		check(uri_query(&arena, str_of(cases[i].query), str_of(cases[i].name), &value) ==
		      cases[i].result);
		check(str_eq(value, str_of(cases[i].value)));
		arena_close(&arena);
	}
	tap_ok("a query's values are found by name");
}

static void test_memory(void)
{
	struct arena arena;
	struct str ret;

	arena_init(&arena, 100);
	check(uri_decode(&arena, STR("a"), &ret) == -ENOMEM);
	check(uri_query(&arena, STR("a=b"), STR("a"), &ret) == -ENOMEM);
	check(uri_query(&arena, (struct str){NULL, 0}, STR("a"), &ret) == 0);
	arena_close(&arena);
	tap_ok("an arena that is full, a query that is not there");
}

int main(void)
{
	test_decode();
	test_query();
	test_memory();
	return tap_done();
}
