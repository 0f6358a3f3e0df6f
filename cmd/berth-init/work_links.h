/*
 * The first names of files that have more than one, for a pack. Bounded: when it is full, further
 * links are packed as files of their own.
 */
#ifndef BERTH_INIT_WORK_LINKS_H
#define BERTH_INIT_WORK_LINKS_H

#include <stdint.h>
#include <sys/stat.h>

#include "base/str.h"

#define LINKS_SLOTS      65536 /* a power of two; three quarters of them are used */
#define LINKS_NAMES_SIZE (8 * 1024 * 1024)

/* All zeros is an empty one. */
struct links {
	uint32_t count, used;
	struct {
		dev_t dev;
		ino_t ino;
		uint32_t at, len; /* in `names`; 0: free */
	} slots[LINKS_SLOTS];
	char names[LINKS_NAMES_SIZE];
};

/* The first name of the file; or an empty str, and `name` is it from now on. */
struct str links_find(struct links *links, const struct stat *st, struct str name);

#endif
