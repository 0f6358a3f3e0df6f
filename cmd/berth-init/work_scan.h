/*
 * The names of a directory in the order of their bytes, some at a time: of any number of names only
 * the smallest ones behind a given one are kept, so that a million of them needs no more memory.
 */
#ifndef BERTH_INIT_WORK_SCAN_H
#define BERTH_INIT_WORK_SCAN_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCAN_MAX 65536 /* names at a time: 16 MiB at the most */

struct scan_bound {
	const char *from;  /* only names behind it; "": all */
	bool is_inclusive; /* and that name itself */
	bool no_hidden;
	bool is_any; /* whatever comes first, in no order: for who makes names go away */
	size_t max;  /* names that are wanted, up to SCAN_MAX */
};

struct scan {
	size_t count;
	bool has_more;
	uint16_t order[SCAN_MAX]; /* indices of `names`: sorted, after scan_read() */
	char names[SCAN_MAX][NAME_MAX + 1];
	_Alignas(8) char bytes[32768];
};

int scan_read(struct scan *scan, int fd, const struct scan_bound *bound);

#endif
