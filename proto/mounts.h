/*
 * Folders that a client has mounted into its sandbox, as a list of strings (proto/frame.h): four
 *for each mount. berthd makes the list, and the keeper, which trusts nobody, reads it by the same
 *code.
 *
 *	"bind"  | "ro" or "rw" | the host's folder | where inside
 *	"tmpfs" | "ro" or "rw" | bytes             | where inside
 */
#ifndef BERTH_PROTO_MOUNTS_H
#define BERTH_PROTO_MOUNTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

#define MOUNTS_MAX       16    /* of one sandbox */
#define MOUNTS_LIST_MAX  16384 /* bytes of the list */
#define MOUNTS_PATH_MAX  1023
#define MOUNTS_NAME_MAX  255 /* of each folder on the way */
#define MOUNTS_SIZE_MIN  (64ULL << 10)
#define MOUNTS_SIZE_MAX  (1ULL << 50)
#define MOUNTS_STRINGS   4 /* of each mount */
#define MOUNTS_SIZE_TEXT 24

enum mount_kind { MOUNT_BIND, MOUNT_TMPFS };

/* Strings point into the list. */
struct mount_item {
	enum mount_kind kind;
	bool is_read_only;
	const char *source; /* of a bind */
	uint64_t size;      /* of a tmpfs */
	const char *target;
};

/* Takes one from the front: 1, 0 at the end, -EBADMSG for what is no mount. */
int mounts_next(struct str *list, struct mount_item *ret);

/*
 * Absolute, and as short as can be: no "//", ".", "..", no slash at its end, no control characters,
 * and no name that is too long for a file system.
 * "/" is one.
 */
bool mounts_is_path(struct str path);

/* Where nothing may be mounted: the root, and what Berth or the kernel has there. */
bool mounts_is_reserved(struct str target);

/* Whether one is the other, or below it. */
bool mounts_is_below(struct str path, struct str folder);

/*
 * The whole list: each well-formed, no target reserved, none the same as another or below it.
 * -EBADMSG, -E2BIG (too many), -EINVAL (a path), -EPERM (reserved), -EEXIST (two in one place), and
 * which of them, from 0, in `ret_which`.
 */
int mounts_check(struct str list, unsigned *ret_which);

#endif
