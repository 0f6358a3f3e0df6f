#include "proto/time_text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>

#define DAY_MS       INT64_C(86400000)
#define YEAR_0000_MS INT64_C(-62167219200000)
#define YEAR_9999_MS INT64_C(253402300799999) /* its last millisecond */

static int is_leap(int year)
{
	return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

/* Days from the first day of the year 0000 to the first day of `year`. */
static int days_before(int year)
{
	int past = year - 1; /* the last whole year; 0000 itself is a leap year */

	return year == 0 ? 0 : year * 365 + past / 4 - past / 100 + past / 400 + 1;
}

static int days_of(int year, int month)
{
	static const int month_days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

	return month_days[month] + (month == 1 && is_leap(year));
}

int time_text_format(int64_t unix_ms, char ret[TIME_TEXT_SIZE])
{
	int day, year, month = 0, in_day;

	if (unix_ms < YEAR_0000_MS || unix_ms > YEAR_9999_MS)
		return -ERANGE;
	day = (int)((unix_ms - YEAR_0000_MS) / DAY_MS);
	in_day = (int)((unix_ms - YEAR_0000_MS) % DAY_MS);

	/* At most one year too far: an average year is a little longer than 365 days. */
	year = day / 365;
	while (days_before(year) > day)
		year--;
	day -= days_before(year);
	for (; month < 11; month++) {
		int days = days_of(year, month);

		if (day < days)
			break;
		day -= days;
	}

	snprintf(ret, TIME_TEXT_SIZE, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ", year % 10000u,
		 (month + 1) % 100u, (day + 1) % 100u, in_day / 3600000 % 100u,
		 in_day / 60000 % 60u, in_day / 1000 % 60u, in_day % 1000u);
	return 0;
}

int time_text_parse(struct str text, int64_t *ret_unix_ms)
{
	char copy[TIME_TEXT_SIZE] = "", back[TIME_TEXT_SIZE];
	int year, month, day, hour, minute, second, ms;
	int64_t at;

	if (text.len != sizeof(copy) - 1)
		return -EINVAL;
	memcpy(copy, text.at, text.len);
	if (sscanf(copy, "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ", &year, &month, &day, &hour, &minute,
		   &second, &ms) != 7 ||
	    year < 0 || month < 1 || month > 12)
		return -EINVAL;
	day += days_before(year) - 1;
	for (int i = 0; i < month - 1; i++)
		day += days_of(year, i);
	at = YEAR_0000_MS + day * DAY_MS + hour * INT64_C(3600000) + minute * INT64_C(60000) +
	     second * INT64_C(1000) + ms;
	/* A day, an hour or a sign that there is not comes back as another text. */
	if (time_text_format(at, back) < 0 || memcmp(back, copy, sizeof(back)) != 0)
		return -EINVAL;
	*ret_unix_ms = at;
	return 0;
}

/* So many digits, at the front of `text`; -1 if there are others. */
static int take_number(struct str *text, size_t digits)
{
	int value = 0;

	if (text->len < digits)
		return -1;
	for (size_t i = 0; i < digits; i++) {
		if (text->at[i] < '0' || text->at[i] > '9')
			return -1;
		value = 10 * value + (text->at[i] - '0');
	}
	*text = (struct str){text->at + digits, text->len - digits};
	return value;
}

static bool take_mark(struct str *text, const char *marks)
{
	if (!text->len || !text->at[0] || !strchr(marks, text->at[0]))
		return false;
	*text = (struct str){text->at + 1, text->len - 1};
	return true;
}

/* ".5", ".123456789"; nothing is 0. */
static int take_fraction(struct str *text)
{
	int ms = 0, digit, digits = 0;

	if (!take_mark(text, "."))
		return 0;
	for (; (digit = take_number(text, 1)) >= 0; digits++)
		ms = digits < 3 ? 10 * ms + digit : ms;
	for (int i = digits; i < 3; i++)
		ms *= 10;
	return digits ? ms : -1;
}

/* "Z", or how far the clock there is ahead, in minutes. */
static int take_offset(struct str *text, int *ret)
{
	bool is_behind = text->len && text->at[0] == '-';
	int hours, minutes;

	*ret = 0;
	if (take_mark(text, "Zz"))
		return 0;
	if (!take_mark(text, "+-"))
		return -EINVAL;
	hours = take_number(text, 2);
	if (!take_mark(text, ":"))
		return -EINVAL;
	minutes = take_number(text, 2);
	if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59)
		return -EINVAL;
	*ret = (is_behind ? -1 : 1) * (60 * hours + minutes);
	return 0;
}

int time_text_read(struct str text, int64_t *ret_unix_ms)
{
	/* Date and time have one form: with what follows cut off they are as we write them. */
	char plain[TIME_TEXT_SIZE] = "....-..-..T..:..:......Z";
	struct str rest;
	int ms, offset;
	int64_t at;

	if (text.len < 20 || (text.at[10] != 'T' && text.at[10] != 't'))
		return -EINVAL;
	rest = (struct str){text.at + 19, text.len - 19};
	memcpy(plain, text.at, 10);
	memcpy(plain + 11, text.at + 11, 8);
	ms = take_fraction(&rest);
	if (ms < 0 || take_offset(&rest, &offset) < 0 || rest.len)
		return -EINVAL;
	memcpy(plain + 19, ".000Z", 5);
	if (time_text_parse((struct str){plain, sizeof(plain) - 1}, &at) < 0)
		return -EINVAL;
	*ret_unix_ms = at + ms - offset * INT64_C(60000);
	return 0;
}

void time_text_write(struct json_writer *w, const char *key, int64_t at_ms)
{
	char text[TIME_TEXT_SIZE];

	json_key(w, key);
	if (!at_ms || time_text_format(at_ms, text) < 0)
		json_null(w);
	else
		json_text(w, text);
}
