#include "base/buf.h"

#include <errno.h>

#include "tests/unit/tap.h"

static void test_queue(void)
{
	struct buf b;
	char byte = 0, expected = 0;

	buf_init(&b, 1000);
	for (int round = 0; round < 10000; round++) {
		for (int i = 0; i < 7; i++, byte++)
			check(buf_append(&b, &byte, 1) == 0);
		for (int i = 0; i < 7; i++, expected++) {
			check(*buf_at(&b) == expected);
			buf_consume(&b, 1);
		}
	}
	check(buf_len(&b) == 0 && b.size <= 1024);
	buf_close(&b);
	tap_ok("a queue that is emptied does not grow");
}

static void test_limit(void)
{
	struct buf b;
	char bytes[600] = {0};

	buf_init(&b, 1000);
	check(buf_append(&b, bytes, 600) == 0);
	check(buf_append(&b, bytes, 600) == -EMSGSIZE);
	check(buf_len(&b) == 600);
	buf_consume(&b, 300);
	check(buf_append(&b, bytes, 600) == 0);
	check(buf_len(&b) == 900);
	check(buf_append(&b, bytes, (size_t)-1) == -EMSGSIZE);
	buf_close(&b);
	tap_ok("the limit is of what is held");
}

static void test_printf(void)
{
	struct buf b;

	buf_init(&b, 16);
	check(buf_printf(&b, "%s", "0123456789") == 0);
	check(buf_printf(&b, "%s", "0123456789") < 0);
	check(buf_len(&b) == 10 && memcmp(buf_at(&b), "0123456789", 10) == 0);
	buf_close(&b);
	tap_ok("formatted text is appended whole or not at all");
}

int main(void)
{
	test_queue();
	test_limit();
	test_printf();
	return tap_done();
}
