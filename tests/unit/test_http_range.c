#include "proto/http_range.h"

#include <errno.h>

#include "base/cleanup.h"
#include "tests/unit/tap.h"

static void test_ranges(void)
{
	/* clang-format off */
	static const struct {
		const char *value;
		uint64_t size;
		enum http_range_kind kind;
		uint64_t first, length;
	} cases[] = {
		{"bytes=0-0", 10, HTTP_RANGE_PART, 0, 1},
		{"bytes=0-9", 10, HTTP_RANGE_PART, 0, 10},
		{"bytes=3-5", 10, HTTP_RANGE_PART, 3, 3},
		{"Bytes=3-", 10, HTTP_RANGE_PART, 3, 7},
		{"bytes=9-", 10, HTTP_RANGE_PART, 9, 1},
		{"bytes=0-10", 10, HTTP_RANGE_PART, 0, 10},
		{"bytes=5-99999999999999999999999", 10, HTTP_RANGE_PART, 5, 5},
		{" bytes= 1-2 ", 10, HTTP_RANGE_PART, 1, 2},
		{"bytes=-3", 10, HTTP_RANGE_PART, 7, 3},
		{"bytes=-10", 10, HTTP_RANGE_PART, 0, 10},
		{"bytes=-11", 10, HTTP_RANGE_PART, 0, 10},
		{"bytes=-99999999999999999999999", 10, HTTP_RANGE_PART, 0, 10},
		{"bytes=0-18446744073709551615", UINT64_MAX, HTTP_RANGE_PART, 0, UINT64_MAX},
		{"bytes=007-8", 10, HTTP_RANGE_PART, 7, 2},
		{"bytes=10-", 10, HTTP_RANGE_UNSATISFIABLE, 0, 0},
		{"bytes=10-20", 10, HTTP_RANGE_UNSATISFIABLE, 0, 0},
		{"bytes=99999999999999999999999-", 10, HTTP_RANGE_UNSATISFIABLE, 0, 0},
		{"bytes=18446744073709551615-", UINT64_MAX, HTTP_RANGE_UNSATISFIABLE, 0, 0},
		{"bytes=-0", 10, HTTP_RANGE_UNSATISFIABLE, 0, 0},
		{"bytes=0-", 0, HTTP_RANGE_UNSATISFIABLE, 0, 0},
		{"bytes=0-0", 0, HTTP_RANGE_UNSATISFIABLE, 0, 0},
		{"bytes=-1", 0, HTTP_RANGE_UNSATISFIABLE, 0, 0},
		{"", 10, HTTP_RANGE_WHOLE, 0, 0},
		{"bytes", 10, HTTP_RANGE_WHOLE, 0, 0},
		{"bytes=", 10, HTTP_RANGE_WHOLE, 0, 0},
		{"bytes=-", 10, HTTP_RANGE_WHOLE, 0, 0},
		{"bytes=5", 10, HTTP_RANGE_WHOLE, 0, 0},
		{"bytes=5-3", 10, HTTP_RANGE_WHOLE, 0, 0},
		{"bytes=0-1,3-4", 10, HTTP_RANGE_WHOLE, 0, 0},
		{"bytes=-1,3-4", 10, HTTP_RANGE_WHOLE, 0, 0},
		{"bytes=1 -2", 10, HTTP_RANGE_WHOLE, 0, 0},
		{"bytes=+1-2", 10, HTTP_RANGE_WHOLE, 0, 0},
		{"bytes=1--2", 10, HTTP_RANGE_WHOLE, 0, 0},
		{"bytes=0x1-2", 10, HTTP_RANGE_WHOLE, 0, 0},
		{"bytes 0-1", 10, HTTP_RANGE_WHOLE, 0, 0},
		{"lines=0-1", 10, HTTP_RANGE_WHOLE, 0, 0},
	};
	/* clang-format on */

	for (size_t i = 0; i < array_len(cases); i++) {
		struct http_range range = {0, 0};

		printf("# %s of %llu\n", cases[i].value, (unsigned long long)cases[i].size);
		check(http_range_parse(str_of(cases[i].value), cases[i].size, &range) ==
		      cases[i].kind);
		check(range.first == cases[i].first && range.length == cases[i].length);
	}
	tap_ok("one range is served, what is past the end is not, the rest is the whole");
}

static void test_etags(void)
{
	struct str tag = STR("\"a-1\"");

	check(http_etag_listed(STR("\"a-1\""), tag));
	check(http_etag_listed(STR("W/\"a-1\""), tag));
	check(http_etag_listed(STR(" * "), tag));
	check(http_etag_listed(STR("\"x\", W/\"y\",\t\"a-1\""), tag));
	check(http_etag_listed(STR("\"x,\", ,\"a-1\""), tag));
	check(!http_etag_listed(STR(""), tag));
	check(!http_etag_listed(STR("\"A-1\""), tag));
	check(!http_etag_listed(STR("a-1"), tag));
	check(!http_etag_listed(STR("\"a-1"), tag));
	check(!http_etag_listed(STR("\"x\" \"a-1\""), tag));
	check(!http_etag_listed(STR("\"x,\"a-1\""), tag));
	check(!http_etag_listed(STR("*, \"x\""), tag));
	check(!http_etag_listed(STR("W/"), tag));
	tap_ok("tags are found in their list, also weak ones, and only whole ones");
}

static void test_dates(void)
{
	char text[HTTP_DATE_SIZE] = "untouched";

	check(http_date_format(UINT64_C(253402300800), text) == -ERANGE);
	check(http_date_format(UINT64_MAX, text) == -ERANGE);
	check_str(text, "untouched");
	check(http_date_format(0, text) == 0);
	check_str(text, "Thu, 01 Jan 1970 00:00:00 GMT");
	check(http_date_format(784111777, text) == 0);
	check_str(text, "Sun, 06 Nov 1994 08:49:37 GMT");
	check(http_date_format(UINT64_C(253402300799), text) == 0);
	check_str(text, "Fri, 31 Dec 9999 23:59:59 GMT");
	tap_ok("dates are as HTTP writes them");
}

int main(void)
{
	test_ranges();
	test_etags();
	test_dates();
	return tap_done();
}
