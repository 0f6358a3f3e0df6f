#include "proto/sandbox_id.h"

#include <errno.h>
#include <string.h>

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool sandbox_id_is_valid(struct str text)
{
	if (!text.len || text.len > SANDBOX_ID_MAX || !is_word(text.at[0]) ||
	    !is_word(text.at[text.len - 1]))
		return false;
	for (size_t i = 0; i < text.len; i++) {
		if (!is_word(text.at[i]) && text.at[i] != '-')
			return false;
	}
	/* <run>/berthd is the daemon's own directory, beside those of the sandboxes. */
	return !str_eq(text, STR("berthd"));
}

bool sandbox_id_is_of_run(const struct sandbox_id *id)
{
	static const char before[] = "run-", base32[] = "abcdefghijklmnopqrstuvwxyz234567";
	const char *made = id->text + sizeof(before) - 1;

	return strncmp(id->text, before, sizeof(before) - 1) == 0 && strlen(made) == 26 &&
	       strspn(made, base32) == 26;
}

int sandbox_id_parse(struct str text, struct sandbox_id *ret)
{
	struct sandbox_id id = {{0}};

	if (text.len > SANDBOX_ID_MAX)
		return -EINVAL;
	for (size_t i = 0; i < text.len; i++) {
		char c = text.at[i];

		id.text[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
	}
	if (!sandbox_id_is_valid((struct str){id.text, text.len}))
		return -EINVAL;
	*ret = id;
	return 0;
}
