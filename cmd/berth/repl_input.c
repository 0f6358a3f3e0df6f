#include "cmd/berth/repl_input.h"

#include <string.h>

#include "base/cleanup.h"
#include "cmd/berth/repl_bash.h"

struct scan {
	enum kernel_language language;
	struct str rest;
	int depth;    /* of brackets */
	bool is_open; /* a text or a comment has no end */
	char last;    /* but for blanks and comments; of Python '\n' at the beginning of a line */
	const char *begin, *at; /* where the text begins, and where `last` is */
	bool is_block;          /* of Python */
	bool is_joined;         /* the last line ends with a backslash */
};

static bool is_script(const struct scan *s)
{
	return s->language == KERNEL_JAVASCRIPT || s->language == KERNEL_TYPESCRIPT;
}

static void skip(struct scan *s, size_t len)
{
	len = len < s->rest.len ? len : s->rest.len;
	s->rest.at += len;
	s->rest.len -= len;
}

/* Behind the end; or there is none, and it is open. */
static void skip_past(struct scan *s, struct str end, bool has_escapes)
{
	while (s->rest.len && !str_starts_with(s->rest, end))
		skip(s, has_escapes && s->rest.at[0] == '\\' ? 2 : 1);
	s->is_open = !s->rest.len;
	skip(s, end.len);
}

/* One that is not meant to go over a line's end is over there, right or wrong. */
static void skip_short(struct scan *s, char quote)
{
	skip(s, 1);
	while (s->rest.len && s->rest.at[0] != quote && s->rest.at[0] != '\n')
		skip(s, s->rest.at[0] == '\\' ? 2 : 1);
	if (s->rest.len && s->rest.at[0] == quote)
		skip(s, 1);
}

static void skip_text(struct scan *s)
{
	static const struct str triples[] = {{"\"\"\"", 3}, {"'''", 3}};
	char quote = s->rest.at[0];

	s->last = quote;
	if (quote == '`') {
		skip(s, 1);
		skip_past(s, (struct str){&quote, 1}, true);
		return;
	}
	for (size_t i = 0; s->language == KERNEL_PYTHON && i < array_len(triples); i++) {
		if (!str_starts_with(s->rest, triples[i]))
			continue;
		skip(s, 3);
		skip_past(s, triples[i], true);
		return;
	}
	skip_short(s, quote);
}

/* True: there was one. */
static bool skip_comment(struct scan *s)
{
	bool is_hash = s->rest.at[0] == '#' && !is_script(s);

	if (is_script(s) && str_starts_with(s->rest, STR("/*"))) {
		skip(s, 2);
		skip_past(s, STR("*/"), false);
		return true;
	}
	if (!is_hash && !(is_script(s) && str_starts_with(s->rest, STR("//"))))
		return false;
	while (s->rest.len && s->rest.at[0] != '\n')
		skip(s, 1);
	return true;
}

static bool is_of_name(char c)
{
	return c == '_' || c == '$' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
	       (c >= 'A' && c <= 'Z') || (unsigned char)c >= 0x80;
}

/* Behind a word that wants a value. */
static bool is_operator_word(const struct scan *s)
{
	static const char *const words[] = {"await", "case",       "delete", "do",   "else",
					    "in",    "instanceof", "new",    "of",   "return",
					    "throw", "typeof",     "void",   "yield"};
	const char *from = s->at;

	while (from > s->begin && is_of_name(from[-1]))
		from--;
	for (size_t i = 0; i < array_len(words); i++)
		if (str_eq((struct str){from, (size_t)(s->at + 1 - from)}, str_of(words[i])))
			return true;
	return false;
}

/* Would a slash divide what is before it? As far as one can tell without reading all of it. */
static bool is_behind_value(const struct scan *s)
{
	if (is_of_name(s->last))
		return !is_operator_word(s);
	if (s->last == '+' || s->last == '-')
		return s->at > s->begin && s->at[-1] == s->last; /* i++ */
	return s->last && strchr(")].\"'`", s->last);
}

/* True: there was a regular expression, in which neither brackets nor quotes open anything. */
static bool skip_regex(struct scan *s)
{
	bool is_set = false;
	size_t i = 1;

	if (!is_script(s) || s->rest.at[0] != '/' || is_behind_value(s))
		return false;
	for (; i < s->rest.len && (is_set || s->rest.at[i] != '/'); i++) {
		if (s->rest.at[i] == '\\')
			i++;
		else if (s->rest.at[i] == '[' || s->rest.at[i] == ']')
			is_set = s->rest.at[i] == '[';
		if (i >= s->rest.len || s->rest.at[i] == '\n')
			return false;
	}
	if (i >= s->rest.len)
		return false;
	skip(s, i + 1);
	s->last = ')'; /* a value */
	return true;
}

static void take_sign(struct scan *s)
{
	char c = s->rest.at[0];

	s->last = c;
	s->at = s->rest.at;
	if (c == '(' || c == '[' || c == '{')
		s->depth++;
	if (c == ')' || c == ']' || c == '}')
		s->depth--;
	if (c == '\\')
		skip(s, 1); /* and what is behind it */
	skip(s, 1);
}

/* At the end of a line. */
static void take_line(struct scan *s)
{
	if (s->language == KERNEL_PYTHON && s->depth <= 0 && s->last == ':')
		s->is_block = true;
	/* A line of JavaScript goes on with what can go on. */
	if (!is_script(s))
		s->last = '\n';
	skip(s, 1);
	if (s->language == KERNEL_PYTHON && s->depth <= 0 && s->rest.len && s->rest.at[0] == '@')
		s->is_block = true;
}

static void step(struct scan *s)
{
	char c = s->rest.at[0];

	if (c == '\n') {
		take_line(s);
	} else if (c == ' ' || c == '\t' || c == '\r') {
		skip(s, 1);
	} else if (str_starts_with(s->rest, STR("\\\n"))) {
		skip(s, 2);
		s->is_joined = !s->rest.len;
	} else if (c == '"' || c == '\'' || (c == '`' && is_script(s))) {
		skip_text(s);
	} else if (!skip_comment(s) && !skip_regex(s)) {
		take_sign(s);
	}
}

static bool ends_empty(struct str text)
{
	return text.len >= 2 && text.at[text.len - 1] == '\n' && text.at[text.len - 2] == '\n';
}

bool repl_goes_on(enum kernel_language language, struct str text)
{
	struct scan s = {.language = language, .rest = text, .last = '\n', .begin = text.at};

	if (language == KERNEL_BASH)
		return repl_bash_goes_on(text);
	s.is_block = language == KERNEL_PYTHON && text.len && text.at[0] == '@';
	while (s.rest.len)
		step(&s);
	if (s.is_open || s.is_joined || s.depth > 0)
		return true;
	return s.is_block && !ends_empty(text);
}
