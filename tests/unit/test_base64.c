#include "proto/base64.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "tests/unit/tap.h"

static int decode(struct str text, char ret[64], size_t *ret_len)
{
	/* Of their exact sizes, so that a sanitizer sees a step past the end. */
	cleanup_free char *exact = malloc(text.len ? text.len : 1);
	cleanup_free char *room = malloc(BASE64_DECODE_ROOM(text.len));
	int r;

	memcpy(exact, text.at, text.len);
	r = base64_decode((struct str){exact, text.len}, room, ret_len);
	if (r == 0)
		memcpy(ret, room, *ret_len);
	return r;
}

static void test_known(void)
{
	static const struct {
		struct str bytes, text;
	} cases[] = {
		{STR(""), STR("")},
		{STR("f"), STR("Zg==")},
		{STR("fo"), STR("Zm8=")},
		{STR("foo"), STR("Zm9v")},
		{STR("foob"), STR("Zm9vYg==")},
		{STR("\0"), STR("AA==")},
		{STR("\xff\xfe\xfb"), STR("//77")},
		{STR("\xfb\xef\xbe\n"), STR("++++Cg==")},
	};

	for (size_t i = 0; i < array_len(cases); i++) {
		struct buf out;
		char bytes[64];
		size_t len = 77;

		buf_init(&out, 64);
		check(base64_encode(&out, cases[i].bytes) == 0);
		check(str_eq((struct str){buf_at(&out), buf_len(&out)}, cases[i].text));
		check(decode(cases[i].text, bytes, &len) == 0);
		check(str_eq((struct str){bytes, len}, cases[i].bytes));
		buf_close(&out);
	}
	tap_ok("known pairs, both ways");
}

static void test_refused(void)
{
	static const struct str cases[] = {
		STR("Z"),         STR("Zg"),       STR("Zg="),      STR("Zm9"),
		STR("===="),      STR("Z==="),     STR("Zg=a"),     STR("Zg==Zg=="),
		STR("Zh=="),      STR("Zm9="),     STR("Zm9v\n"),   STR("Zm9v\n\n\n\n"),
		STR("Zg== "),     STR("    Zg=="), STR("Zg==    "), STR("Zm-_"),
		STR("Zm9\0"),     STR("Z g="),     STR("Zm9\x80"),  STR("====Zm9v"),
		STR("Zm9vZg=\n"), STR("\n\n\n\n"),
	};
	char bytes[64];
	size_t len = 77;

	for (size_t i = 0; i < array_len(cases); i++) {
		if (decode(cases[i], bytes, &len) != -EINVAL)
			printf("# \"%.*s\"\n", STR_ARGS(cases[i]));
		check(decode(cases[i], bytes, &len) == -EINVAL && len == 77);
	}
	tap_ok("what the encoder would not write is refused");
}

static void test_limit(void)
{
	struct buf out;

	buf_init(&out, 10);
	check(base64_encode(&out, STR("foo")) == 0);
	check(base64_encode(&out, STR("foob")) == -EMSGSIZE);
	check(buf_len(&out) == 4);
	check(base64_encode(&out, STR("fo")) == 0);
	check(str_eq((struct str){buf_at(&out), buf_len(&out)}, STR("Zm9vZm8=")));
	buf_close(&out);
	tap_ok("the buffer's limit holds");
}

int main(void)
{
	test_known();
	test_refused();
	test_limit();
	return tap_done();
}
