#include "proto/sse.h"

#include <errno.h>

#include "base/cleanup.h"
#include "tests/unit/tap.h"

static const struct str none = {NULL, 0};

/* clang-format off */
static const struct {
	struct str event, id, data;
	const char *expected;
} cases[] = {
	{{0}, {0}, {0}, "data: \n\n"},
	{{0}, {0}, STR("x"), "data: x\n\n"},
	{STR("exit"), {0}, STR("{}"), "event: exit\ndata: {}\n\n"},
	{STR("e"), STR("42"), STR("x"), "id: 42\nevent: e\ndata: x\n\n"},
	{{0}, STR("7"), {0}, "id: 7\ndata: \n\n"},
	{{0}, {0}, STR("a\nb"), "data: a\ndata: b\n\n"},
	{{0}, {0}, STR("a\rb"), "data: a\ndata: b\n\n"},
	{{0}, {0}, STR("a\r\nb"), "data: a\ndata: b\n\n"},
	{{0}, {0}, STR("a\n\rb"), "data: a\ndata: \ndata: b\n\n"},
	{{0}, {0}, STR("a\r\rb"), "data: a\ndata: \ndata: b\n\n"},
	{{0}, {0}, STR("a\r\r\n\nb"), "data: a\ndata: \ndata: \ndata: b\n\n"},
	{{0}, {0}, STR("\n"), "data: \ndata: \n\n"},
	{{0}, {0}, STR("\r"), "data: \ndata: \n\n"},
	{{0}, {0}, STR("\r\n"), "data: \ndata: \n\n"},
	{{0}, {0}, STR("a\n"), "data: a\ndata: \n\n"},
	{{0}, {0}, STR("a\r\n"), "data: a\ndata: \n\n"},
	{{0}, {0}, STR(" a:b\n: c"), "data:  a:b\ndata: : c\n\n"},
};
/* clang-format on */

static void test_format(void)
{
	for (size_t i = 0; i < array_len(cases); i++) {
		struct buf out;

		buf_init(&out, 1000);
		check(sse_format(&out, cases[i].event, cases[i].id, cases[i].data) == 0);
		check(buf_append(&out, "", 1) == 0);
		check_str(buf_at(&out), cases[i].expected);
		buf_close(&out);
	}
	tap_ok("events, ids and every kind of line break");
}

static void test_refusals(void)
{
	static const struct str bad[] = {STR("a\nb"), STR("\r"), STR("a\n"), {"a\0b", 3}};
	struct buf out;

	buf_init(&out, 20);
	for (size_t i = 0; i < array_len(bad); i++) {
		check(sse_format(&out, bad[i], none, STR("x")) == -EINVAL);
		check(sse_format(&out, none, bad[i], STR("x")) == -EINVAL);
	}
	check(buf_len(&out) == 0);
	check(sse_format(&out, none, none, STR("0123456789ab")) == 0);
	check(buf_len(&out) == 20);
	check(sse_format(&out, none, none, none) == -EMSGSIZE && buf_len(&out) == 20);
	buf_consume(&out, 20);
	check(sse_format(&out, none, none, STR("0123456789abc")) == -EMSGSIZE);
	check(sse_format(&out, none, none, STR("\n\n\n")) == -EMSGSIZE && buf_len(&out) == 0);
	buf_close(&out);
	tap_ok("names with a line break and events past the limit are refused whole");
}

static void test_large(void)
{
	static char data[1 << 20];
	struct buf out;
	struct str all = {data, sizeof(data)};

	memset(data, '\n', sizeof(data));
	buf_init(&out, 16 << 20);
	check(sse_format(&out, none, none, all) == 0 &&
	      buf_len(&out) == 7 * (sizeof(data) + 1) + 1);
	buf_close(&out);
	memset(data, 'x', sizeof(data));
	check(sse_format(&out, none, none, all) == 0 && buf_len(&out) == sizeof(data) + 8);
	buf_close(&out);
	tap_ok("a million lines, and one of a million bytes");
}

int main(void)
{
	test_format();
	test_refusals();
	test_large();
	return tap_done();
}
