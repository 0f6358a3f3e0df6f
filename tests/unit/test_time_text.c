#include "proto/time_text.h"

#include <errno.h>
#include <time.h>

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
	struct tm tm;

	gmtime_r(&t, &tm);
	snprintf(expected, sizeof(expected), "%04d-%02d-%02dT%02d:%02d:%02d.042Z",
		 tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
	if (strcmp(text_of(second * 1000 + 42), expected) == 0)
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

int main(void)
{
	test_known();
	test_range();
	test_calendar();
	return tap_done();
}
