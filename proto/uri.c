#include "proto/uri.h"

#include <errno.h>

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Takes one byte, which may be written as an escape, from the front of `raw`. -1: a bad escape. */
static int next_byte(struct str *raw)
{
	int high, low, byte = (unsigned char)raw->at[0];
	size_t taken = 1;

	if (byte == '%') {
		if (raw->len < 3)
			return -1;
		high = hex_digit(raw->at[1]);
		low = hex_digit(raw->at[2]);
		if (high < 0 || low < 0)
			return -1;
		byte = high << 4 | low;
		taken = 3;
	}
	raw->at += taken;
	raw->len -= taken;
	return byte;
}

static int decode(struct arena *arena, struct str raw, bool plus_is_space, struct str *ret)
{
	char *bytes = arena_alloc(arena, raw.len + 1);
	size_t n = 0;

	if (!bytes)
		return -ENOMEM;
	while (raw.len > 0) {
		bool is_plus = plus_is_space && raw.at[0] == '+';
		int byte = next_byte(&raw);

		if (byte < 0)
			return -EINVAL;
		bytes[n++] = is_plus ? ' ' : (char)byte;
	}
	bytes[n] = '\0';
	*ret = (struct str){bytes, n};
	return 0;
}

int uri_decode(struct arena *arena, struct str raw, struct str *ret)
{
	return decode(arena, raw, false, ret);
}

/* Compares without decoding into memory. 1, 0, or -EINVAL for a bad escape. */
static int is_named(struct str raw, struct str name)
{
	bool is_same = true;
	size_t n = 0;

	while (raw.len > 0) {
		bool is_plus = raw.at[0] == '+';
		int byte = next_byte(&raw);

		if (byte < 0)
			return -EINVAL;
		if (is_plus)
			byte = ' ';
		is_same = is_same && n < name.len && byte == (unsigned char)name.at[n];
		n++;
	}
	return is_same && n == name.len;
}

static struct str take_until(struct str *s, char end)
{
	const char *found = s->len ? memchr(s->at, end, s->len) : NULL;
	struct str part = {s->at, found ? (size_t)(found - s->at) : s->len};
	size_t taken = part.len + (found != NULL);

	*s = (struct str){s->at + taken, s->len - taken};
	return part;
}

int uri_query(struct arena *arena, struct str query, struct str name, struct str *ret)
{
	struct str value = {NULL, 0};
	bool is_found = false;
	int r;

	while (query.len > 0) {
		struct str pair = take_until(&query, '&');
		struct str raw_name = take_until(&pair, '=');

		r = is_named(raw_name, name);
		if (r < 0 || (r > 0 && is_found))
			return -EINVAL;
		if (r > 0) {
			is_found = true;
			value = pair;
		}
	}
	if (!is_found)
		return 0;
	r = decode(arena, value, true, ret);
	return r < 0 ? r : 1;
}

int uri_query_stranger(struct str query, const char *const *known, struct str *ret)
{
	while (query.len > 0) {
		struct str pair = take_until(&query, '&');
		struct str name = take_until(&pair, '=');
		const char *const *k = known;

		while (*k && is_named(name, str_of(*k)) <= 0)
			k++;
		if (*k || !name.len)
			continue;
		*ret = name;
		return 1;
	}
	return 0;
}

int uri_flag(struct str value)
{
	if (!value.len || str_eq(value, STR("1")) || str_eq(value, STR("true")))
		return 1;
	return str_eq(value, STR("0")) || str_eq(value, STR("false")) ? 0 : -EINVAL;
}
