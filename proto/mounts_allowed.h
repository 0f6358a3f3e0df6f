/*
 * Which folders of the host may be mounted: what --allow-bind DIR[:ro] and `allow_bind` say. Only
 * text; the keeper looks at the folders themselves.
 */
#ifndef BERTH_PROTO_MOUNTS_ALLOWED_H
#define BERTH_PROTO_MOUNTS_ALLOWED_H

#include <stdbool.h>

#include "base/str.h"

#define MOUNTS_ALLOWED_MAX  64
#define MOUNTS_ALLOWED_WANT "an absolute path without \".\", \"..\" and \"//\", and perhaps \":ro\""

/* The path points into what was parsed. */
struct mounts_allowed {
	struct str path;
	bool is_read_only;
};

/* "DIR[:ro]", also with slashes at the end of DIR; -EINVAL. */
int mounts_allowed_parse(struct str text, struct mounts_allowed *ret);

/* What follows a colon in the last name of the path, as "rw" does in "/a/b:rw"; or nothing. Whoever
 * has no such folder has meant something else by it. */
struct str mounts_allowed_suffix(struct str path);

/* Which of them a folder is in, by its name: the innermost, or -1. */
int mounts_allowed_find(const struct mounts_allowed *allowed, unsigned count, struct str folder);

/* The same for the same list alone, as far as that can be: to see whether two are the same. */
#define MOUNTS_DIGEST_SIZE 17
void mounts_allowed_digest(const char *const *texts, unsigned count, char ret[MOUNTS_DIGEST_SIZE]);

#endif
