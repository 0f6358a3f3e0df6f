#include "proto/mounts_allowed.h"

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

#include "proto/mounts.h"

int mounts_allowed_parse(struct str text, struct mounts_allowed *ret)
{
	struct mounts_allowed allowed = {.path = text};

	if (text.len > 3 && memcmp(text.at + text.len - 3, ":ro", 3) == 0) {
		allowed.is_read_only = true;
		allowed.path.len -= 3;
	}
	while (allowed.path.len > 1 && allowed.path.at[allowed.path.len - 1] == '/')
		allowed.path.len--;
	if (!mounts_is_path(allowed.path))
		return -EINVAL;
	*ret = allowed;
	return 0;
}

struct str mounts_allowed_suffix(struct str path)
{
	for (size_t i = path.len; i > 0 && path.at[i - 1] != '/'; i--) {
		if (path.at[i - 1] == ':')
			return (struct str){path.at + i, path.len - i};
	}
	return (struct str){NULL, 0};
}

int mounts_allowed_find(const struct mounts_allowed *allowed, unsigned count, struct str folder)
{
	int found = -1;

	for (unsigned i = 0; i < count; i++) {
		if (mounts_is_below(folder, allowed[i].path) &&
		    (found < 0 || allowed[i].path.len > allowed[found].path.len))
			found = (int)i;
	}
	return found;
}

void mounts_allowed_digest(const char *const *texts, unsigned count, char ret[MOUNTS_DIGEST_SIZE])
{
	uint64_t sum = UINT64_C(0xcbf29ce484222325); /* FNV-1a; the NULs count, too */

	for (unsigned i = 0; i < count; i++) {
		for (size_t at = 0; at <= strlen(texts[i]); at++)
			sum = (sum ^ (unsigned char)texts[i][at]) * UINT64_C(0x100000001b3);
	}
	snprintf(ret, MOUNTS_DIGEST_SIZE, "%016" PRIx64, sum);
}
