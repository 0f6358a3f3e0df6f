/*
 * Whole trees that a hostile root may have made: any depth, any number, any mode, any owner.
 * Nothing here recurses, follows a symlink or crosses into another file system.
 */
#ifndef BERTH_CONTAINER_TREE_H
#define BERTH_CONTAINER_TREE_H

#include <stdint.h>

/* Removes what is there by that name; nothing there is fine. Takes as long as it takes. */
int tree_remove(int dir, const char *name);

struct tree_usage {
	uint64_t bytes, files;
};
/* Without what is more than 1024 folders deep, or deeper than we may have files open. */
int tree_measure(int dir, const char *name, struct tree_usage *ret);

#endif
