#include <string.h>

#include "base/cleanup.h"
#include "cmd/berth/verb.h"

#define NAME_MAX_BYTES 32
#define FAR            (NAME_MAX_BYTES + 1)

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* How many letters must be added, dropped or changed to make one word of the other. */
static unsigned distance(const char *a, const char *b)
{
	size_t a_len = strlen(a), b_len = strlen(b);
	unsigned row[NAME_MAX_BYTES + 1];

	if (a_len > NAME_MAX_BYTES || b_len > NAME_MAX_BYTES)
		return FAR;
	for (size_t j = 0; j <= b_len; j++)
		row[j] = (unsigned)j;
	for (size_t i = 1; i <= a_len; i++) {
		unsigned diagonal = row[0];

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= b_len; j++) {
			unsigned change = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			row[j] = least(change, least(row[j], row[j - 1]) + 1);
		}
	}
	return row[b_len];
}

struct best {
	const char *name;
	unsigned distance;
};

/* Words that share nothing but their length are not "near": a third may differ, and one letter. */
static void consider(struct best *best, const char *typed, const char *name)
{
	unsigned d = distance(typed, name);
	size_t len = strlen(name + strspn(name, "-")); /* dashes are no letters */

	if (d < best->distance && d <= 1 + len / 3) {
		best->name = name;
		best->distance = d;
	}
}

const char *nearest_verb(const char *typed)
{
	struct best best = {.distance = FAR};

	for (size_t i = 0; verbs[i]; i++) {
		consider(&best, typed, verbs[i]->name);
		if (*typed && typed[1] && strncmp(verbs[i]->name, typed, strlen(typed)) == 0)
			return verbs[i]->name;
	}
	return best.name;
}

const char *nearest_flag(const char *typed, const struct flag *flags)
{
	struct best best = {.distance = FAR};

	for (size_t i = 0; flags && flags[i].name; i++)
		consider(&best, typed, flags[i].name);
	for (size_t i = 0; global_flags[i].name; i++)
		consider(&best, typed, global_flags[i].name);
	return best.name;
}
