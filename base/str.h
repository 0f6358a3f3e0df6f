/* A run of bytes that somebody else owns. Not terminated, may hold NUL bytes. */
#ifndef BERTH_BASE_STR_H
#define BERTH_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

struct str {
	const char *at;
	size_t len;
};

#define STR(literal) ((struct str){(literal), sizeof(literal) - 1})

/* For printf's "%.*s". */
#define STR_ARGS(s) (int)(s).len, (s).at

static inline struct str str_of(const char *text)
{
	return (struct str){text, strlen(text)};
}

static inline bool str_eq(struct str a, struct str b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

static inline bool str_eq_nocase(struct str a, struct str b)
{
	return a.len == b.len && (a.len == 0 || strncasecmp(a.at, b.at, a.len) == 0);
}

static inline bool str_starts_with(struct str s, struct str prefix)
{
	return s.len >= prefix.len && memcmp(s.at, prefix.at, prefix.len) == 0;
}

/* The text before `end`; `rest` goes on behind it, and is empty when there was none. */
static inline struct str str_cut(struct str *rest, char end)
{
	const char *at = rest->len ? (const char *)memchr(rest->at, end, rest->len) : NULL;
	struct str head = {rest->at, at ? (size_t)(at - rest->at) : rest->len};
	size_t skipped = head.len + (at ? 1 : 0);

	if (skipped)
		*rest = (struct str){rest->at + skipped, rest->len - skipped};
	return head;
}

#endif
