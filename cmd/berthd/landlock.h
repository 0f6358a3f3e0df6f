/*
 * What berthd may reach once it serves, by Landlock: a list of directories and files, each with
 * what may be done there; everything else, and running any program anywhere, is refused by the
 * kernel.
 */
#ifndef BERTH_CMD_BERTHD_LANDLOCK_H
#define BERTH_CMD_BERTHD_LANDLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define LANDLOCK_ABI_MIN   2 /* before it a file cannot move between directories, and ours do */
#define LANDLOCK_RULES_MAX 32

enum landlock_use {
	LANDLOCK_LIST,   /* names only, which stat() tells of anyway */
	LANDLOCK_READ,   /* files and listings */
	LANDLOCK_OWN,    /* everything but running programs */
	LANDLOCK_APPEND, /* files that are there or new */
	LANDLOCK_REMOVE, /* files out of it */
	LANDLOCK_DEVICE, /* one file, both ways */
	LANDLOCK_USE_COUNT,
};

struct landlock_rule {
	const char *path;
	enum landlock_use use;
};

/*
 * Holds for this thread and for those that it starts: to be called while there is no other. Rules
 * for what is not there are left out. Returns the ABI that is in force (LANDLOCK_ABI_MIN or more),
 * 0 if this kernel has none that will do, or a negative errno.
 */
int landlock_restrict(const struct landlock_rule *rules, unsigned count, bool has_abstract);

#endif
