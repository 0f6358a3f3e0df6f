#include "proto/units.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/cleanup.h"

struct unit {
	const char *name;
	uint64_t factor;
};

/* The digits at the front; what follows is left in `text`. */
static int take_number(struct str *text, uint64_t *ret)
{
	uint64_t value = 0;
	size_t n = 0;

	for (; n < text->len && text->at[n] >= '0' && text->at[n] <= '9'; n++)
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(text->at[n] - '0'), &value))
			return -ERANGE;
	if (n == 0)
		return -EINVAL;
	text->at += n;
	text->len -= n;
	*ret = value;
	return 0;
}

static int parse_with_unit(struct str text, const struct unit *units, size_t count, uint64_t *ret)
{
	uint64_t value;
	int r = take_number(&text, &value);

	if (r < 0)
		return r;
	for (size_t i = 0; i < count; i++) {
		if (!str_eq(text, str_of(units[i].name)))
			continue;
		if (__builtin_mul_overflow(value, units[i].factor, &value) || value > INT64_MAX)
			return -ERANGE;
		*ret = value;
		return 0;
	}
	return -EINVAL;
}

/* From the smallest on. */
static const struct unit duration_units[] = {
	{"ms", 1}, {"s", 1000}, {"m", 60 * 1000}, {"h", 3600 * 1000}, {"d", 24 * 3600 * 1000},
};

int duration_parse(struct str text, uint64_t *ret_ms)
{
	return parse_with_unit(text, duration_units, array_len(duration_units), ret_ms);
}

void duration_format(uint64_t ms, char ret[DURATION_TEXT_SIZE])
{
	const struct unit *unit = &duration_units[ms ? array_len(duration_units) - 1 : 1];

	while (ms % unit->factor)
		unit--;
	snprintf(ret, DURATION_TEXT_SIZE, "%" PRIu64 "%s", ms / unit->factor, unit->name);
}

int size_parse(struct str text, uint64_t *ret_bytes)
{
	static const struct unit units[] = {
		{"", 1}, {"K", 1ULL << 10}, {"M", 1ULL << 20}, {"G", 1ULL << 30}, {"T", 1ULL << 40},
	};

	return parse_with_unit(text, units, array_len(units), ret_bytes);
}

static bool is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_name(struct str host)
{
	for (size_t i = 0; i < host.len; i++)
		if (!is_alnum(host.at[i]) && host.at[i] != '.' && host.at[i] != '-' &&
		    host.at[i] != '_')
			return false;
	return true;
}

/* The characters of an address with its zone ("fe80::1%eth0"); whether it is one shows on use. */
static bool is_ipv6(struct str host)
{
	bool has_colon = false;

	for (size_t i = 0; i < host.len; i++) {
		char c = host.at[i];

		has_colon |= c == ':';
		if (!is_alnum(c) && !memchr(":.%-_", c, 5))
			return false;
	}
	return has_colon;
}

int host_port_parse(struct str text, struct host_port *ret)
{
	const char *colon = text.len ? memrchr(text.at, ':', text.len) : NULL;
	struct str host, port;
	uint64_t number;
	int r;

	if (!colon)
		return -EINVAL;
	host = (struct str){text.at, (size_t)(colon - text.at)};
	port = (struct str){colon + 1, text.len - host.len - 1};
	if (host.len >= 2 && host.at[0] == '[' && host.at[host.len - 1] == ']') {
		host = (struct str){host.at + 1, host.len - 2};
		if (!is_ipv6(host))
			return -EINVAL;
	} else if (!is_name(host)) {
		return -EINVAL;
	}
	if (host.len == 0 || host.len >= HOST_MAX)
		return -EINVAL;
	r = take_number(&port, &number);
	if (r < 0)
		return r;
	if (port.len > 0)
		return -EINVAL;
	if (number > UINT16_MAX)
		return -ERANGE;
	memcpy(ret->host, host.at, host.len);
	ret->host[host.len] = '\0';
	ret->port = (uint16_t)number;
	return 0;
}

void host_port_format(const struct host_port *address, char ret[HOST_PORT_TEXT_SIZE])
{
	bool has_colons = strchr(address->host, ':') != NULL;

	ret[0] = '\0';
	if (address->host[0])
		snprintf(ret, HOST_PORT_TEXT_SIZE, has_colons ? "[%s]:%u" : "%s:%u", address->host,
			 address->port);
}
