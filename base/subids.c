#include "base/subids.h"

#include <stdbool.h>
#include <stdio.h>

static bool parse_number(struct str s, uint64_t *ret)
{
	uint64_t value = 0;

	if (s.len == 0 || s.len > 10)
		return false;
	for (size_t i = 0; i < s.len; i++) {
		if (s.at[i] < '0' || s.at[i] > '9')
			return false;
		value = value * 10 + (uint64_t)(s.at[i] - '0');
	}
	*ret = value;
	return true;
}

static bool is_user(struct str owner, const char *name, uid_t uid)
{
	char number[16];

	if (name && str_eq(owner, str_of(name)))
		return true;
	snprintf(number, sizeof(number), "%u", (unsigned)uid);
	return str_eq(owner, str_of(number));
}

/* The next line that gives this user ids; false at the end of the text. */
static bool next_range(struct str *text, const char *name, uid_t uid, struct subids_range *ret)
{
	while (text->len) {
		struct str line = str_cut(text, '\n');
		struct str owner = str_cut(&line, ':');
		struct str first_text = str_cut(&line, ':');
		uint64_t first, count;

		if (!is_user(owner, name, uid) || !parse_number(first_text, &first) ||
		    !parse_number(line, &count))
			continue;
		/* Ids end below 2^32 - 1, which means "none". */
		if (count == 0 || first >= UINT32_MAX || count > UINT32_MAX - first)
			continue;
		*ret = (struct subids_range){(uint32_t)first, (uint32_t)count};
		return true;
	}
	return false;
}

uint32_t subids_count(struct str text, const char *name, uid_t uid)
{
	struct subids_range range;
	uint64_t total = 0;

	while (next_range(&text, name, uid, &range)) {
		total += range.count;
		if (total > UINT32_MAX)
			return UINT32_MAX;
	}
	return (uint32_t)total;
}

unsigned subids_ranges(struct str text, const char *name, uid_t uid, struct subids_range *ret,
		       unsigned max)
{
	unsigned count = 0;

	while (count < max && next_range(&text, name, uid, &ret[count]))
		count++;
	return count;
}
