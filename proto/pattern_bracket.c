#include "proto/pattern_bracket.h"

#include <errno.h>

#include "base/cleanup.h"

static int refuse(struct err *err, const char *sentence)
{
	return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "pattern: %s", sentence);
}

static void skip(struct str *rest, size_t n)
{
	*rest = (struct str){rest->at + n, rest->len - n};
}

static void add_range(struct pattern_set *set, unsigned first, unsigned last)
{
	for (unsigned c = first; c <= last; c++)
		pattern_set_add(set, (unsigned char)c);
}

/* Of the C locale, whatever ours is: pairs of first and last. */
static const struct {
	struct str name;
	const char *ranges;
} classes[] = {
	{{"alpha", 5}, "azAZ"},
	{{"digit", 5}, "09"},
	{{"alnum", 5}, "azAZ09"},
	{{"upper", 5}, "AZ"},
	{{"lower", 5}, "az"},
	{{"space", 5}, "\t\r  "},
	{{"blank", 5}, "\t\t  "},
	{{"punct", 5}, "!/:@[`{~"},
	{{"print", 5}, " ~"},
	{{"graph", 5}, "!~"},
	{{"cntrl", 5}, "\1\37\177\177"},
	{{"xdigit", 6}, "09afAF"},
};

static int add_class(struct str *rest, struct pattern_set *set, struct err *err)
{
	for (size_t i = 0; i < array_len(classes); i++) {
		struct str name = classes[i].name;

		if (rest->len < name.len + 4 || memcmp(rest->at + 2, name.at, name.len) != 0 ||
		    memcmp(rest->at + 2 + name.len, ":]", 2) != 0)
			continue;
		for (const char *r = classes[i].ranges; *r; r += 2)
			add_range(set, (unsigned char)r[0], (unsigned char)r[1]);
		if (str_eq(name, STR("cntrl")))
			pattern_set_add(set, 0);
		skip(rest, name.len + 4);
		return 0;
	}
	return refuse(err, "there is no such class in brackets; there are alpha, digit, alnum, "
			   "upper, lower, space, blank, punct, print, graph, cntrl and xdigit");
}

static int take_byte(struct str *rest, unsigned *ret, struct err *err)
{
	if (!rest->len)
		return refuse(err, "a \"[\" has no \"]\"");
	if ((unsigned char)rest->at[0] >= 0x80)
		return refuse(err, "only characters of ASCII can stand in brackets; write "
				   "alternatives, as in (ä|ö)");
	if (rest->len > 1 && rest->at[0] == '[' && (rest->at[1] == '.' || rest->at[1] == '='))
		return refuse(err, "\"[.\" and \"[=\" are not supported in brackets");
	*ret = (unsigned char)rest->at[0];
	skip(rest, 1);
	return 0;
}

/* A "-" at the end is one. */
static bool is_range(struct str rest)
{
	return rest.len >= 2 && rest.at[0] == '-' && rest.at[1] != ']';
}

static int add_item(struct str *rest, struct pattern_set *set, struct err *err)
{
	unsigned first, last;
	int r;

	if (rest->len > 1 && rest->at[0] == '[' && rest->at[1] == ':')
		return add_class(rest, set, err);
	r = take_byte(rest, &first, err);
	if (r < 0)
		return r;
	last = first;
	if (is_range(*rest)) {
		skip(rest, 1);
		r = take_byte(rest, &last, err);
	}
	if (r == 0 && last < first)
		return refuse(err, "a range in brackets stands in the wrong order");
	if (r == 0)
		add_range(set, first, last);
	return r;
}

int pattern_bracket_read(struct str *rest, struct pattern_set *ret, struct err *err)
{
	bool is_negated = rest->len > 1 && rest->at[1] == '^';
	bool is_first = true;
	int r;

	*ret = (struct pattern_set){{0}};
	skip(rest, is_negated ? 2 : 1);
	/* A "]" that comes first is one. */
	while (is_first || !rest->len || rest->at[0] != ']') {
		r = add_item(rest, ret, err);
		if (r < 0)
			return r;
		is_first = false;
	}
	skip(rest, 1);
	for (int i = 0; is_negated && i < 4; i++)
		ret->bits[i] = ~ret->bits[i];
	return 0;
}
