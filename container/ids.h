/*
 * Whose numbers a sandbox's users have outside. As root each sandbox owns 65,536 ids of its own, by
 * the number that stands in <state>/sandboxes/<id>/range for as long as its disk exists: the files
 * there belong to those ids. Rootless there is one range, that of our user namespace.
 *
 *	                    inside    as the keeper sees it
 *	root, range n       0...      0x40000000 + n * 65536 ...
 *	rootless            0...      1 ... (never 0, which is the user who runs us)
 *	rootless, one id    0         0
 */
#ifndef BERTH_CONTAINER_IDS_H
#define BERTH_CONTAINER_IDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define IDS_PER_RANGE 65536U
/* Above what useradd hands out as subordinate ids, below where numbers turn negative. */
#define IDS_FIRST  0x40000000U
#define IDS_RANGES 16384U

struct ids; /* which ranges are taken */

struct id_map {
	uint32_t first; /* what 0 inside is to the keeper */
	uint32_t count;
};

/* `sandboxes_fd`: <state>/sandboxes, whose ranges are taken. It stays the caller's. */
int ids_new(struct ids **ret, int sandboxes_fd, bool is_rootless, uint32_t ids_mapped);
void ids_free(struct ids *ids);

struct id_map ids_map(const struct ids *ids, uint32_t range);
bool ids_has_ranges(const struct ids *ids);

/* One that runs has it, or a disk in the pool, wherever its directory is; until the keeper ends. */
void ids_take(struct ids *ids, uint32_t range);
/* The range of a sandbox's directory; a new one, recorded, if it has none and no disk either.
 * ERR_CONFLICT: another directory has the same. */
int ids_assign(struct ids *ids, int sandbox_fd, const char *id, uint32_t *ret, struct err *err);

#endif
