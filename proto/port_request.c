#include "proto/port_request.h"

#include <errno.h>
#include <stddef.h>

#include "proto/json.h"

struct asked {
	struct str name, token;
	bool name_given, token_given;
	bool is_public, public_given;
};

#define IN(member) offsetof(struct asked, member)

/* Nothing that moves a terminal's cursor or breaks a line; JSON has seen to it that it is UTF-8. */
static bool is_printable(struct str s)
{
	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.at[i];

		if (c < 0x20 || c == 0x7f)
			return false;
		if (c == 0xc2 && i + 1 < s.len && (unsigned char)s.at[i + 1] < 0xa0)
			return false; /* U+0080 to U+009F */
	}
	return true;
}

static bool is_token(struct str s)
{
	if (s.len < PORT_TOKEN_MIN || s.len >= PORT_TOKEN_SIZE)
		return false;
	for (size_t i = 0; i < s.len; i++) {
		char c = s.at[i];

		if ((c < 'a' || c > 'z') && (c < '0' || c > '9'))
			return false;
	}
	return true;
}

static int take(const struct asked *a, struct port_request *ret, struct err *err)
{
	struct port_request read = {
		.name_given = a->name_given,
		.token_given = a->token_given,
		.public_given = a->public_given,
		.is_public = a->is_public,
	};

	if (a->name.len >= sizeof(read.name) || !is_printable(a->name))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "name must be at most %zu bytes of text without control characters",
			       sizeof(read.name) - 1);
	if (a->token_given && !is_token(a->token))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "token must be %d to %d lower-case letters and digits",
			       PORT_TOKEN_MIN, PORT_TOKEN_SIZE - 1);
	if (a->token_given && a->is_public)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "token: a public port has none; leave out token or public");
	if (a->name.len)
		memcpy(read.name, a->name.at, a->name.len);
	if (a->token.len)
		memcpy(read.token, a->token.at, a->token.len);
	*ret = read;
	return 0;
}

static int parse(struct arena *arena, struct str body, const struct json_field *fields,
		 struct port_request *ret, struct err *err)
{
	struct asked a = {.is_public = false};
	int r = json_parse(arena, body.len ? body : STR("{}"), fields, &a, err);

	return r == 0 ? take(&a, ret, err) : r;
}

int port_request_parse(struct arena *arena, struct str body, struct port_request *ret,
		       struct err *err)
{
	/* clang-format off */
	static const struct json_field fields[] = {
		{ "name",   JSON_STRING, IN(name),      false, IN(name_given) },
		{ "token",  JSON_STRING, IN(token),     false, IN(token_given) },
		{ "public", JSON_BOOL,   IN(is_public), false, IN(public_given) },
		{ NULL },
	};
	/* clang-format on */

	return parse(arena, body, fields, ret, err);
}

int port_request_parse_tunnel(struct arena *arena, struct str body, struct port_request *ret,
			      struct err *err)
{
	/* clang-format off */
	static const struct json_field fields[] = {
		{ "name", JSON_STRING,  IN(name), false, IN(name_given) },
		{ "*",    JSON_IGNORED, 0 },
		{ NULL },
	};
	/* clang-format on */

	return parse(arena, body, fields, ret, err);
}

int port_number_parse(struct str text, uint16_t *ret)
{
	unsigned number = 0;

	if (!text.len || text.len > 5 || text.at[0] == '0')
		return -EINVAL;
	for (size_t i = 0; i < text.len; i++) {
		if (text.at[i] < '0' || text.at[i] > '9')
			return -EINVAL;
		number = number * 10 + (unsigned)(text.at[i] - '0');
	}
	if (number > UINT16_MAX)
		return -ERANGE;
	*ret = (uint16_t)number;
	return 0;
}
