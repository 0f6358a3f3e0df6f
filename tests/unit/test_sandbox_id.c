#include "proto/sandbox_id.h"

#include <errno.h>

#include "tests/unit/tap.h"

#define LONGEST "a23456789-123456789-123456789-123456789-123456789-123456789-123"

static void test_good(void)
{
	static const char *const good[] = {"a", "0", "ab", "a-b", "a--b", "0-0", "xn--a", LONGEST};
	struct sandbox_id id;

	check(sizeof(LONGEST) - 1 == SANDBOX_ID_MAX);
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		check(sandbox_id_is_valid(str_of(good[i])));
		check(sandbox_id_parse(str_of(good[i]), &id) == 0);
		check_str(id.text, good[i]);
	}
	tap_ok("names that are good as they are");
}

static void test_bad(void)
{
	static const char *const bad[] = {
		"",   "-",   "-a",  "a-",  "a_b", "a.b",   "a/b",      "..",    "a b",      "a\n",
		" a", "a@b", "a`b", "a{b", "a:b", "a%2fb", "\xc3\xa4", "a\xff", LONGEST "4"};
	struct sandbox_id id = {"untouched"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		check(!sandbox_id_is_valid(str_of(bad[i])));
		check(sandbox_id_parse(str_of(bad[i]), &id) == -EINVAL);
	}
	check(!sandbox_id_is_valid((struct str){"a\0b", 3}));
	check(sandbox_id_parse((struct str){"a\0b", 3}, &id) == -EINVAL);
	check(sandbox_id_parse((struct str){"a", 1 << 20}, &id) == -EINVAL);
	check_str(id.text, "untouched");
	tap_ok("all others are refused");
}

static void test_case(void)
{
	struct sandbox_id id;

	check(sandbox_id_parse(STR("AbZ-09Z"), &id) == 0);
	check_str(id.text, "abz-09z");
	check(!sandbox_id_is_valid(STR("AbZ")) && !sandbox_id_is_valid(STR("aZ")));
	tap_ok("upper case is folded, and is not canonical");
}

/* By the rule, for every byte at every place of three. */
static void test_every_byte(void)
{
	char text[3] = {'a', 'a', 'a'};

	for (int c = 0; c < 256; c++) {
		bool is_word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');

		for (int at = 0; at < 3; at++) {
			bool expected = is_word || (c == '-' && at == 1);

			memset(text, 'a', sizeof(text));
			text[at] = (char)c;
			check(sandbox_id_is_valid((struct str){text, 3}) == expected);
		}
	}
	tap_ok("every byte at each end and between");
}

static void test_of_run(void)
{
	static const char *const others[] = {"run-1",
					     "run",
					     "run-abcdefghijklmnopqrstuvwx2",
					     "run-abcdefghijklmnopqrstuvwxy0",
					     "run-abcdefghijklmno-qrstuvwxyz",
					     "ran-abcdefghijklmnopqrstuvwxyz",
					     "run-abcdefghijklmnopqrstuvwxyz2",
					     "abcdefghijklmnopqrstuvwxyz"};
	struct sandbox_id id;

	check(sandbox_id_parse(STR("RUN-abcdefghijklmnopqrstuv2347"), &id) == 0);
	check(sandbox_id_is_of_run(&id));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		check(sandbox_id_parse(str_of(others[i]), &id) == 0);
		check(!sandbox_id_is_of_run(&id));
	}
	tap_ok("the names of runs are told from others");
}

int main(void)
{
	test_good();
	test_bad();
	test_case();
	test_every_byte();
	test_of_run();
	return tap_done();
}
