/*
 * The text of /etc/subuid and /etc/subgid: lines "user:first:count", the user by name or by number.
 */
#ifndef BERTH_BASE_SUBIDS_H
#define BERTH_BASE_SUBIDS_H

#include <stdint.h>
#include <sys/types.h>

#include "base/str.h"

/* How many ids the text gives to the user; lines that make no sense give none. `name` may be NULL.
 */
uint32_t subids_count(struct str text, const char *name, uid_t uid);

struct subids_range {
	uint32_t first, count;
};

/* The ranges themselves, in the order of the text; those past `max` are left out. Returns how many.
 */
unsigned subids_ranges(struct str text, const char *name, uid_t uid, struct subids_range *ret,
		       unsigned max);

#endif
