#include "base/err.h"

#include <errno.h>
#include <string.h>

#include "tests/unit/tap.h"

static void test_short(void)
{
	struct err err;

	check(err_set(&err, -EINVAL, ERR_CONFLICT, "%d is %s", 5, "odd") == -EINVAL);
	check_str(err.sentence, "5 is odd");
	check(err.code == ERR_CONFLICT);
	check(err_wrap(&err, -EIO, "counting %s", "sheep") == -EIO);
	check_str(err.sentence, "counting sheep: 5 is odd");
	check(err.code == ERR_CONFLICT);
	check(err_set(NULL, -EINVAL, ERR_CONFLICT, "x") == -EINVAL);
	tap_ok("a sentence is set and wrapped");
}

static bool ends_with(const struct err *err, const char *end)
{
	size_t len = strlen(err->sentence), end_len = strlen(end);

	return len >= end_len && strcmp(err->sentence + len - end_len, end) == 0;
}

static void test_long(void)
{
	char path[4096];
	struct err err;

	memset(path, 'x', sizeof(path));
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	err_set(&err, -ENOENT, ERR_NOT_FOUND, "cannot open %s: no such file", path);
	check(strncmp(err.sentence, "cannot open /xxx", 16) == 0);
	check(ends_with(&err, "xxx: no such file") && strstr(err.sentence, "[...]"));
	check(strlen(err.sentence) == sizeof(err.sentence) - 1);
	err_set(&err, -ENOENT, ERR_NOT_FOUND, "no such file");
	err_wrap(&err, -ENOENT, "the file \"%s\"", path);
	check(strncmp(err.sentence, "the file \"/xxx", 14) == 0);
	check(ends_with(&err, "xxx\": no such file"));
	err_set(&err, -ENOENT, ERR_NOT_FOUND, "%s because of %s: no such file", path, path);
	check(ends_with(&err, "xxx: no such file"));
	tap_ok("the reason behind a long path stays");
}

static void test_limit(void)
{
	char text[sizeof(((struct err *)NULL)->sentence) + 1];
	struct err err;

	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 2] = '\0';
	err_set(&err, -EINVAL, ERR_CONFLICT, "%s", text);
	check_str(err.sentence, text);
	text[sizeof(text) - 2] = 'x';
	text[sizeof(text) - 1] = '\0';
	err_set(&err, -EINVAL, ERR_CONFLICT, "%s", text);
	check(strlen(err.sentence) == sizeof(err.sentence) - 1 && strstr(err.sentence, "[...]"));
	tap_ok("only what does not fit is cut");
}

static void test_characters(void)
{
	char text[2048];
	struct err err;

	/* Characters of three bytes: wherever the cuts fall, none may be halved. */
	for (int offset = 0; offset < 3; offset++) {
		size_t n = (size_t)offset;

		memset(text, 'x', sizeof(text));
		for (; n + 4 < sizeof(text); n += 3)
			memcpy(text + n, "\xe2\x82\xac", 3);
		text[n] = '\0';
		err_set(&err, -EINVAL, ERR_CONFLICT, "%s", text);
		for (const char *p = err.sentence; *p; p++) {
			if ((unsigned char)*p == 0xe2)
				check((unsigned char)*++p == 0x82 && (unsigned char)*++p == 0xac);
			else
				check((unsigned char)*p < 0x80);
		}
	}
	tap_ok("no character is halved");
}

int main(void)
{
	test_short();
	test_long();
	test_limit();
	test_characters();
	return tap_done();
}
