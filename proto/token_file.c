#include "proto/token_file.h"

#include <errno.h>

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static struct str trim(struct str s)
{
	while (s.len > 0 && is_space(s.at[0])) {
		s.at++;
		s.len--;
	}
	while (s.len > 0 && is_space(s.at[s.len - 1]))
		s.len--;
	return s;
}

static struct str take_line(struct str *rest)
{
	const char *end = memchr(rest->at, '\n', rest->len);
	struct str line = {rest->at, end ? (size_t)(end - rest->at) : rest->len};
	size_t taken = line.len + (end ? 1 : 0);

	rest->at += taken;
	rest->len -= taken;
	return trim(line);
}

static int check_token(struct str token, unsigned line, struct err *err)
{
	for (size_t i = 0; i < token.len; i++)
		if (token.at[i] <= ' ' || token.at[i] > '~')
			return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
				       "line %u is not a token: one per line, visible ASCII "
				       "characters only",
				       line);
	if (token.len < TOKEN_MIN)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "the token in line %u is too short: it needs at least %d characters",
			       line, TOKEN_MIN);
	if (token.len > TOKEN_MAX)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "the token in line %u is too long: it may have %d characters", line,
			       TOKEN_MAX);
	return 0;
}

int token_file_next(struct str *rest, unsigned *line, struct str *ret, struct err *err)
{
	while (rest->len > 0) {
		struct str text = take_line(rest);
		int r;

		++*line;
		if (text.len == 0 || text.at[0] == '#')
			continue;
		r = check_token(text, *line, err);
		if (r < 0)
			return r;
		*ret = text;
		return 1;
	}
	return 0;
}
