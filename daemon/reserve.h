/*
 * Room on the disk of the state that is kept for the moment when there is none: a file beside the
 * database, which is removed for what must be stored then. A sandbox that fills the disk has to be
 * started to be cleaned, and no start goes without its generation on disk.
 */
#ifndef BERTH_DAEMON_RESERVE_H
#define BERTH_DAEMON_RESERVE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#define RESERVE_BYTES (256 * 1024)

struct reserve {
	char path[PATH_MAX];
	bool is_there;
	uint64_t tried_at_ns;
};

/* `database`: its path. */
void reserve_init(struct reserve *reserve, const char *database);

/* Makes it, or makes it again; what cannot be is left for later. Blocks. */
void reserve_keep(struct reserve *reserve);

/* Whether there is more room now. */
bool reserve_spend(struct reserve *reserve);

#endif
