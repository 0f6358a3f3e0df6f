#include "proto/http_range.h"

#include <errno.h>
#include <stdio.h>

#include "proto/time_text.h"

#define YEAR_9999_S UINT64_C(253402300799) /* its last second */

static struct str rest(struct str s, size_t skipped)
{
	return (struct str){s.at + skipped, s.len - skipped};
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static struct str trim(struct str s)
{
	while (s.len && is_blank(s.at[0]))
		s = rest(s, 1);
	while (s.len && is_blank(s.at[s.len - 1]))
		s.len--;
	return s;
}

/* Digits from the front; a number that is too large for anything is the largest. */
static bool take_number(struct str *s, uint64_t *ret)
{
	uint64_t value = 0;
	size_t n = 0;

	for (; n < s->len && s->at[n] >= '0' && s->at[n] <= '9'; n++) {
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(s->at[n] - '0'), &value))
			value = UINT64_MAX;
		/* A number that is past the end stays there, whatever digits follow. */
		if (value == UINT64_MAX)
			break;
	}
	while (n < s->len && s->at[n] >= '0' && s->at[n] <= '9')
		n++;
	*s = n ? rest(*s, n) : *s;
	*ret = value;
	return n > 0;
}

/* "-500": the last 500 bytes. */
static enum http_range_kind parse_suffix(struct str s, uint64_t size, struct http_range *ret)
{
	uint64_t length;

	if (!take_number(&s, &length) || s.len)
		return HTTP_RANGE_WHOLE;
	if (!length || !size)
		return HTTP_RANGE_UNSATISFIABLE;
	length = length < size ? length : size;
	*ret = (struct http_range){size - length, length};
	return HTTP_RANGE_PART;
}

enum http_range_kind http_range_parse(struct str value, uint64_t size, struct http_range *ret)
{
	struct str unit = STR("bytes="), s = trim(value);
	uint64_t first, last = UINT64_MAX;

	if (s.len < unit.len || !str_eq_nocase((struct str){s.at, unit.len}, unit))
		return HTTP_RANGE_WHOLE;
	s = trim(rest(s, unit.len));
	if (s.len && s.at[0] == '-')
		return parse_suffix(rest(s, 1), size, ret);
	if (!take_number(&s, &first) || !s.len || s.at[0] != '-')
		return HTTP_RANGE_WHOLE;
	s = rest(s, 1);
	if (s.len && (!take_number(&s, &last) || s.len || last < first))
		return HTTP_RANGE_WHOLE;
	if (first >= size)
		return HTTP_RANGE_UNSATISFIABLE;
	last = last < size ? last : size - 1;
	*ret = (struct http_range){first, last - first + 1};
	return HTTP_RANGE_PART;
}

bool http_etag_listed(struct str list, struct str etag)
{
	list = trim(list);
	if (str_eq(list, STR("*")))
		return true;
	while (list.len) {
		const char *end;
		size_t len;

		if (str_starts_with(list, STR("W/")))
			list = rest(list, 2);
		if (!list.len || list.at[0] != '"')
			return false;
		end = memchr(list.at + 1, '"', list.len - 1);
		if (!end)
			return false;
		len = (size_t)(end - list.at) + 1;
		if (str_eq((struct str){list.at, len}, etag))
			return true;
		list = trim(rest(list, len));
		if (list.len && list.at[0] != ',')
			return false;
		while (list.len && (list.at[0] == ',' || is_blank(list.at[0])))
			list = rest(list, 1);
	}
	return false;
}

int http_date_format(uint64_t unix_s, char ret[HTTP_DATE_SIZE])
{
	static const char days[] = "ThuFriSatSunMonTueWed"; /* 1970 began on a Thursday */
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	char text[TIME_TEXT_SIZE]; /* 2026-01-31T23:59:59.999Z */
	unsigned month;

	if (unix_s > YEAR_9999_S || time_text_format((int64_t)unix_s * 1000, text) < 0)
		return -ERANGE;
	month = (unsigned)(text[5] - '0') * 10 + (unsigned)(text[6] - '0') - 1;
	snprintf(ret, HTTP_DATE_SIZE, "%.3s, %.2s %.3s %.4s %.8s GMT",
		 days + 3 * (unix_s / 86400 % 7), text + 8, months + 3 * (month % 12), text,
		 text + 11);
	return 0;
}
