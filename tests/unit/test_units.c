#include "proto/units.h"

#include <errno.h>

#include "base/cleanup.h"
#include "tests/unit/tap.h"

struct number_case {
	const char *text;
	int result;
	uint64_t value;
};

static void run(const struct number_case *cases, size_t count, int (*parse)(struct str, uint64_t *))
{
	for (size_t i = 0; i < count; i++) {
		uint64_t value = 77;
		int r = parse(str_of(cases[i].text), &value);

		if (r != cases[i].result || value != (r ? 77 : cases[i].value))
			printf("# \"%s\": %d, %llu\n", cases[i].text, r, (unsigned long long)value);
		check(r == cases[i].result);
		check(value == (r ? 77 : cases[i].value));
	}
}

static void test_durations(void)
{
	/* clang-format off */
	static const struct number_case cases[] = {
		{"0s",                    0,       0},
		{"250ms",                 0,       250},
		{"90s",                   0,       90000},
		{"10m",                   0,       600000},
		{"2h",                    0,       7200000},
		{"1d",                    0,       86400000},
		{"9223372036854775807ms", 0,       INT64_MAX},
		{"9223372036854775808ms", -ERANGE, 0},
		{"9223372036854775807s",  -ERANGE, 0},
		{"106751991167d",         0,       9223372036828800000ULL},
		{"106751991168d",         -ERANGE, 0},
		{"99999999999999999999s", -ERANGE, 0},
		{"18446744073709551616x", -ERANGE, 0},
		{"",                      -EINVAL, 0},
		{"s",                     -EINVAL, 0},
		{"90",                    -EINVAL, 0},
		{"-1s",                   -EINVAL, 0},
		{"+1s",                   -EINVAL, 0},
		{" 1s",                   -EINVAL, 0},
		{"1 s",                   -EINVAL, 0},
		{"1s ",                   -EINVAL, 0},
		{"1.5s",                  -EINVAL, 0},
		{"1S",                    -EINVAL, 0},
		{"1m30s",                 -EINVAL, 0},
		{"0x10s",                 -EINVAL, 0},
	};
	/* clang-format on */

	run(cases, array_len(cases), duration_parse);
	tap_ok("durations");
}

static void test_duration_text(void)
{
	static const struct {
		uint64_t ms;
		const char *text;
	} cases[] = {
		{0, "0s"},
		{250, "250ms"},
		{1001, "1001ms"},
		{90000, "90s"},
		{60000, "1m"},
		{5400000, "90m"},
		{7200000, "2h"},
		{86400000, "1d"},
		{90000000, "25h"},
		{INT64_MAX, "9223372036854775807ms"},
		{UINT64_MAX, "18446744073709551615ms"},
	};

	for (size_t i = 0; i < array_len(cases); i++) {
		char text[DURATION_TEXT_SIZE];

		duration_format(cases[i].ms, text);
		check_str(text, cases[i].text);
	}
	tap_ok("durations as text");
}

static void test_sizes(void)
{
	/* clang-format off */
	static const struct number_case cases[] = {
		{"0",                    0,       0},
		{"4096",                 0,       4096},
		{"64K",                  0,       65536},
		{"512M",                 0,       536870912},
		{"2G",                   0,       2147483648},
		{"1T",                   0,       1099511627776},
		{"9223372036854775807",  0,       INT64_MAX},
		{"9223372036854775808",  -ERANGE, 0},
		{"8388608T",             -ERANGE, 0},
		{"8388607T",             0,       9223370937343148032ULL},
		{"",                     -EINVAL, 0},
		{"M",                    -EINVAL, 0},
		{"1m",                   -EINVAL, 0},
		{"1MB",                  -EINVAL, 0},
		{"1.5G",                 -EINVAL, 0},
		{"-1",                   -EINVAL, 0},
	};
	/* clang-format on */

	run(cases, array_len(cases), size_parse);
	tap_ok("sizes");
}

static void test_addresses(void)
{
	/* clang-format off */
	static const struct {
		const char *text;
		int result;
		const char *host;
		unsigned port;
	} cases[] = {
		{"127.0.0.1:8080",  0,       "127.0.0.1",    8080},
		{"[::1]:8080",      0,       "::1",          8080},
		{"[fe80::1%eth0]:1",0,       "fe80::1%eth0", 1},
		{"localhost:80",    0,       "localhost",    80},
		{"0.0.0.0:0",       0,       "0.0.0.0",      0},
		{"a-b.example:65535", 0,     "a-b.example",  65535},
		{"host:65536",      -ERANGE, NULL,           0},
		{"host:99999999999999999999", -ERANGE, NULL, 0},
		{"",                -EINVAL, NULL,           0},
		{":",               -EINVAL, NULL,           0},
		{":80",             -EINVAL, NULL,           0},
		{"host",            -EINVAL, NULL,           0},
		{"host:",           -EINVAL, NULL,           0},
		{"host:80x",        -EINVAL, NULL,           0},
		{"host:-1",         -EINVAL, NULL,           0},
		{"host: 80",        -EINVAL, NULL,           0},
		{"::1:80",          -EINVAL, NULL,           0},
		{"[]:80",           -EINVAL, NULL,           0},
		{"[host]:80",       -EINVAL, NULL,           0},
		{"[::1]80",         -EINVAL, NULL,           0},
		{"[::1:80",         -EINVAL, NULL,           0},
		{"http://host:80",  -EINVAL, NULL,           0},
		{"ho st:80",        -EINVAL, NULL,           0},
	};
	/* clang-format on */

	for (size_t i = 0; i < array_len(cases); i++) {
		struct host_port hp = {"untouched", 77};
		int r = host_port_parse(str_of(cases[i].text), &hp);

		if (r != cases[i].result)
			printf("# \"%s\": %d\n", cases[i].text, r);
		check(r == cases[i].result);
		check_str(hp.host, r ? "untouched" : cases[i].host);
		check(hp.port == (r ? 77 : cases[i].port));
	}
	tap_ok("addresses");
}

static void test_long_host(void)
{
	char text[400];
	struct host_port hp;

	memset(text, 'a', sizeof(text));
	memcpy(text + 253, ":80", 3);
	check(host_port_parse((struct str){text, 256}, &hp) == 0 && strlen(hp.host) == 253);
	memset(text, 'a', sizeof(text));
	memcpy(text + 254, ":80", 3);
	check(host_port_parse((struct str){text, 257}, &hp) == -EINVAL);
	check(host_port_parse((struct str){"h\0st:80", 7}, &hp) == -EINVAL);
	check(host_port_parse((struct str){NULL, 0}, &hp) == -EINVAL);
	tap_ok("hosts that are too long or hold a NUL byte");
}

int main(void)
{
	test_durations();
	test_duration_text();
	test_sizes();
	test_addresses();
	test_long_host();
	return tap_done();
}
