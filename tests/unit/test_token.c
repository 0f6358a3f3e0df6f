#include "daemon/token.h"

#include <errno.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "proto/token_file.h"
#include "tests/unit/scratch.h"
#include "tests/unit/tap.h"

#define ONE "abcdefghijklmnop"
#define TWO "0123456789!\"#$%&'()*+,-./"

static int load(struct tokens **ret, struct str text, mode_t mode, struct err *err)
{
	const char *path = scratch_path("tokens");

	scratch_write(path, text.at, text.len);
	check(chmod(path, mode) == 0);
	memset(err, 0, sizeof(*err));
	return tokens_load(ret, path, err);
}

static void test_match(void)
{
	struct tokens *tokens = NULL;
	struct err err;

	check(load(&tokens, STR("# ours\n\n  " ONE "\t\r\n\n" TWO), 0600, &err) == 0);
	check(tokens_count(tokens) == 2);
	check(tokens_match(tokens, STR(ONE)));
	check(tokens_match(tokens, STR(TWO)));
	check(!tokens_match(tokens, STR("abcdefghijklmno")));
	check(!tokens_match(tokens, STR(ONE "q")));
	check(!tokens_match(tokens, STR("Abcdefghijklmnop")));
	check(!tokens_match(tokens, STR("")));
	check(!tokens_match(tokens, (struct str){NULL, 0}));
	check(!tokens_match(tokens, STR("# ours")));
	check(!tokens_match(tokens, STR(ONE "\0")));
	tokens_free(tokens);
	tap_ok("the tokens of the file match, and nothing else");
}

static void test_refused(void)
{
	char long_token[TOKEN_MAX + 1];
	/* clang-format off */
	const struct { struct str text; const char *word; } cases[] = {
		{STR(""),                                "there is no token"},
		{STR("\n\n# nothing\n \t\n"),            "there is no token"},
		{STR(ONE "\n\nsecret\n"),                "line 3 is too short"},
		{STR("abcdefghijklmno"),                 "line 1 is too short"},
		{STR("# one\n" ONE " " TWO "\n"),        "line 2 is not a token"},
		{STR(ONE "\0" TWO),                      "line 1 is not a token"},
		{STR("abcdefghijklmnop\x7f"),            "line 1 is not a token"},
		{STR("abcdefghijklmn\xc3\xa4opq"),       "line 1 is not a token"},
		{{long_token, sizeof(long_token)},       "line 1 is too long"},
	};
	/* clang-format on */
	struct tokens *tokens = NULL;
	struct err err;

	memset(long_token, 'x', sizeof(long_token));
	for (size_t i = 0; i < array_len(cases); i++) {
		check(load(&tokens, cases[i].text, 0600, &err) == -EINVAL);
		if (!strstr(err.sentence, cases[i].word))
			printf("# %s\n", err.sentence);
		check(strstr(err.sentence, cases[i].word));
		check(strstr(err.sentence, scratch_path("tokens")));
		check(!strstr(err.sentence, ONE) && !strstr(err.sentence, "secret"));
	}
	check(load(&tokens, (struct str){long_token, TOKEN_MAX}, 0600, &err) == 0);
	tokens_free(tokens);
	tap_ok("what is no token is refused by line, and never shown");
}

static void test_file(void)
{
	struct tokens *tokens = NULL;
	struct err err = {0};
	char *large = malloc(TOKEN_FILE_SIZE_MAX + 1);

	check(load(&tokens, STR(ONE), 0644, &err) == -EPERM);
	check(strstr(err.sentence, "chmod 600 "));
	check(load(&tokens, STR(ONE), 0602, &err) == -EPERM);
	check(load(&tokens, STR(ONE), 0640, &err) == 0);
	tokens_free(tokens);
	check(tokens_load(&tokens, scratch_path("missing"), &err) == -ENOENT);
	check(strstr(err.sentence, "No such file"));
	check(tokens_load(&tokens, scratch_dir, &err) == -EINVAL);
	check(strstr(err.sentence, "not a regular file"));
	check(mkfifo(scratch_path("fifo"), 0600) == 0);
	check(tokens_load(&tokens, scratch_path("fifo"), &err) == -EINVAL);
	memset(large, '#', TOKEN_FILE_SIZE_MAX + 1);
	check(load(&tokens, (struct str){large, TOKEN_FILE_SIZE_MAX + 1}, 0600, &err) == -EFBIG);
	free(large);
	tap_ok("files that are open to all, no files, or too large are refused");
}

static void test_count(void)
{
	char *text = malloc((TOKENS_MAX + 1) * 21 + 1);
	struct tokens *tokens = NULL;
	struct err err;

	for (int i = 0; i <= TOKENS_MAX; i++)
		snprintf(text + i * 21, 22, "token-number-%07d\n", i);
	check(load(&tokens, (struct str){text, TOKENS_MAX * 21}, 0600, &err) == 0);
	check(tokens_count(tokens) == TOKENS_MAX);
	check(tokens_match(tokens, STR("token-number-0000000")));
	check(tokens_match(tokens, STR("token-number-0001023")));
	check(!tokens_match(tokens, STR("token-number-0001024")));
	tokens_free(tokens);
	check(load(&tokens, (struct str){text, (TOKENS_MAX + 1) * 21}, 0600, &err) == -E2BIG);
	free(text);
	tap_ok("the number of tokens is limited");
}

int main(void)
{
	scratch_make();
	test_match();
	test_refused();
	test_file();
	test_count();
	return tap_done();
}
