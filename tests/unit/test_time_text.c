#include "proto/time_text.h"

#include <errno.h>
#include <time.h>

#include "base/cleanup.h"
#include "tests/unit/tap.h"

static const char *text_of(int64_t unix_ms)
{
	static char text[TIME_TEXT_SIZE];

	memset(text, 0, sizeof(text));
	return time_text_format(unix_ms, text) == 0 ? text : "refused";
}

static void test_known(void)
{
	check_str(text_of(0), "1970-01-01T00:00:00.000Z");
	check_str(text_of(1), "1970-01-01T00:00:00.001Z");
	check_str(text_of(-1), "1969-12-31T23:59:59.999Z");
	check_str(text_of(951782400000), "2000-02-29T00:00:00.000Z");
	check_str(text_of(1078012799999), "2004-02-28T23:59:59.999Z");
	check_str(text_of(1735689599999), "2024-12-31T23:59:59.999Z");
	check_str(text_of(4107542400000), "2100-03-01T00:00:00.000Z");
	tap_ok("known times, leap days and both sides of 1970");
}

static void test_range(void)
{
	char text[TIME_TEXT_SIZE] = "untouched";

	check_str(text_of(-62167219200000), "0000-01-01T00:00:00.000Z");
	check_str(text_of(253402300799999), "9999-12-31T23:59:59.999Z");
	check(time_text_format(-62167219200001, text) == -ERANGE);
	check(time_text_format(253402300800000, text) == -ERANGE);
	check(time_text_format(INT64_MIN, text) == -ERANGE);
	check(time_text_format(INT64_MAX, text) == -ERANGE);
	check_str(text, "untouched");
	tap_ok("years outside 0000 to 9999 are refused");
}

/* The C library knows calendars too. */
static bool agrees(int64_t day)
{
	int64_t second = day * 86400 + (day * 7919 % 86400 + 86400) % 86400;
	time_t t = (time_t)second;
	char expected[128];
	int64_t back = 0;
	struct tm tm;

	gmtime_r(&t, &tm);
	snprintf(expected, sizeof(expected), "%04d-%02d-%02dT%02d:%02d:%02d.042Z",
		 tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
	if (strcmp(text_of(second * 1000 + 42), expected) == 0 &&
	    time_text_parse(str_of(expected), &back) == 0 && back == second * 1000 + 42)
		return true;
	check_str(text_of(second * 1000 + 42), expected);
	return false;
}

static void test_calendar(void)
{
	const int64_t first = -719528, last = 2932896, cycle = 146097; /* days of 400 years */
	int64_t day;

	for (day = -cycle / 4; day < cycle && agrees(day); day++)
		;
	tap_ok("every day from 1870 to 2369 agrees with gmtime_r");
	for (day = first; day <= last && agrees(day); day += 97)
		;
	tap_ok("every 97th day from 0000 to 9999 agrees with gmtime_r");
}

static void test_parse(void)
{
	static const char *const bad[] = {
		"",
		"2026-01-02T03:04:05Z",
		"2026-01-02T03:04:05.678",
		"2026-01-02T03:04:05.678z",
		"2026-01-02T03:04:05.6780Z",
		"2026-01-02 03:04:05.678Z",
		"2026-02-29T00:00:00.000Z",
		"2026-13-01T00:00:00.000Z",
		"2026-00-01T00:00:00.000Z",
		"2026-01-00T00:00:00.000Z",
		"2026-01-01T24:00:00.000Z",
		"2026-01-01T23:60:00.000Z",
		"2026-01-01T-1:00:00.000Z",
		"-026-01-01T00:00:00.000Z",
		"2026-01-01T+1:00:00.000Z",
		"2026-01-01T 1:00:00.000Z",
		"9999-12-31T23:59:60.000Z",
		"xxxxxxxxxxxxxxxxxxxxxxxx",
	};
	int64_t ms = 77;

	for (size_t i = 0; i < array_len(bad); i++) {
		if (time_text_parse(str_of(bad[i]), &ms) != -EINVAL || ms != 77)
			printf("# %s\n", bad[i]);
		check(time_text_parse(str_of(bad[i]), &ms) == -EINVAL && ms == 77);
	}
	check(time_text_parse(STR("1969-12-31T23:59:59.999Z"), &ms) == 0 && ms == -1);
	check(time_text_parse(STR("0000-01-01T00:00:00.000Z"), &ms) == 0 && ms == -62167219200000);
	tap_ok("times are read back, and nothing else is");
}

static void test_read(void)
{
	static const struct {
		const char *text;
		int64_t ms;
	} good[] = {
		{"1970-01-01T00:00:00Z", 0},
		{"1970-01-01t00:00:01z", 1000},
		{"1970-01-01T00:00:00.5Z", 500},
		{"1970-01-01T00:00:00.0429999999Z", 42},
		{"1970-01-01T02:00:00+02:00", 0},
		{"1969-12-31T19:30:00.001-04:30", 1},
		{"2026-01-02T03:04:05.678Z", 1767323045678},
	};
	static const char *const bad[] = {
		"",
		"now",
		"1970-01-01",
		"1970-01-01T00:00:00",
		"1970-01-01 00:00:00Z",
		"1970-01-01T00:00:00.Z",
		"1970-01-01T00:00:00,5Z",
		"1970-01-01T00:00:00ZZ",
		"1970-01-01T00:00:00+2:00",
		"1970-01-01T00:00:00+0200",
		"1970-01-01T00:00:00+24:00",
		"1970-01-01T00:00:00+00:60",
		"1970-01-01T00:00:60Z",
		"1970-02-29T00:00:00Z",
		"1970-01-01T 0:00:00Z",
		"1970-01-01T00:00:00.-1Z",
	};
	int64_t ms;

	for (size_t i = 0; i < array_len(good); i++) {
		ms = 77;
		check(time_text_read(str_of(good[i].text), &ms) == 0 && ms == good[i].ms);
	}
	ms = 77;
	for (size_t i = 0; i < array_len(bad); i++)
		check(time_text_read(str_of(bad[i]), &ms) == -EINVAL && ms == 77);
	tap_ok("any time of RFC 3339 is read");
}

int main(void)
{
	test_known();
	test_range();
	test_calendar();
	test_parse();
	test_read();
	return tap_done();
}
