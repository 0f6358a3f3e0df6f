#include "proto/utf8.h"

#include "base/cleanup.h"
#include "tests/unit/tap.h"

/* What Unicode says a code point's bytes are; 0 for what has none. */
static size_t encode(unsigned long c, unsigned char out[4])
{
	if (c < 0x80)
		return out[0] = (unsigned char)c, 1;
	if (c < 0x800) {
		out[0] = (unsigned char)(0xc0 | c >> 6);
		out[1] = (unsigned char)(0x80 | (c & 63));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (unsigned char)(0xe0 | c >> 12);
		out[1] = (unsigned char)(0x80 | (c >> 6 & 63));
		out[2] = (unsigned char)(0x80 | (c & 63));
		return 3;
	}
	out[0] = (unsigned char)(0xf0 | c >> 18);
	out[1] = (unsigned char)(0x80 | (c >> 12 & 63));
	out[2] = (unsigned char)(0x80 | (c >> 6 & 63));
	out[3] = (unsigned char)(0x80 | (c & 63));
	return 4;
}

static void test_code_points(void)
{
	for (unsigned long c = 0; c < 0x1fffff; c++) {
		char text[4];
		size_t len = encode(c, (unsigned char *)text);
		bool is_char = c <= 0x10ffff && (c < 0xd800 || c > 0xdfff);

		if (utf8_is_valid((struct str){text, len}) != is_char) {
			printf("# U+%lX\n", c);
			check(false);
		}
		for (size_t cut = 1; cut < len; cut++)
			check(!utf8_is_valid((struct str){text, cut}));
	}
	tap_ok("every code point, whole and cut");
}

/* As many are valid as can be counted. */
static void test_three_bytes(void)
{
	const unsigned long one = 0x80, two = 0x800 - 0x80, three = 0x10000 - 0x800 - 0x800;
	unsigned long valid = 0;

	for (unsigned long n = 0; n < 1ul << 24; n++) {
		char text[3] = {(char)(n >> 16), (char)(n >> 8), (char)n};

		valid += utf8_is_valid((struct str){text, 3});
	}
	check(valid == one * one * one + 2 * one * two + three);
	tap_ok("every text of three bytes");
}

static void test_lengths(void)
{
	/* clang-format off */
	static const struct {
		struct str text;
		size_t valid;
	} cases[] = {
		{STR(""), 0}, {STR("abc"), 3}, {{"a\0b", 3}, 3}, {STR("\x80"), 0},
		{STR("0123456789abcdef\xff"), 16}, {STR("0123456\xc3\xa4 0123456789\xc3"), 20},
		{STR("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"), 9}, {STR("\xe2\x82\xac\xe2\x82"), 3},
		{STR("\xc0\x80"), 0}, {STR("\xc1\xbf"), 0}, {STR("\xe0\x9f\xbf"), 0},
		{STR("\xf0\x8f\xbf\xbf"), 0}, {STR("\xf5\x80\x80\x80"), 0}, {STR("\xf8\x88\x80\x80\x80"), 0},
		{STR("\xfe"), 0}, {STR("ok\xed\xbf\xbf"), 2}, {STR("\xc3\x41"), 0}, {STR("\xf0\x9f\x98\x41"), 0},
	};
	/* clang-format on */

	for (size_t i = 0; i < array_len(cases); i++) {
		check(utf8_valid_len(cases[i].text) == cases[i].valid);
		check(utf8_is_valid(cases[i].text) == (cases[i].valid == cases[i].text.len));
	}
	check(utf8_is_valid((struct str){NULL, 0}));
	tap_ok("the valid part at the front");
}

int main(void)
{
	test_code_points();
	test_three_bytes();
	test_lengths();
	return tap_done();
}
