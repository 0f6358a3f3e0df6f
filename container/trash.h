/*
 * <state>/sandboxes/.trash: what is to be removed and may take long, so only a worker does it.
 * Entries are called "<id>-<n>", whatever of that sandbox they were.
 */
#ifndef BERTH_CONTAINER_TRASH_H
#define BERTH_CONTAINER_TRASH_H

#include <stdbool.h>

#include "container/host_state.h"

/* The folder, made if it is not there. */
int trash_open(const struct container_host *host);
/* `name` in `dir` is gone from there at once. 0 also when there is none. */
int trash_move(int trash_fd, int dir, const char *name, const char *id);

bool trash_is_empty(int trash_fd);
#define TRASH_POOL_CLOSED -1 /* disks that are there stay */
#define TRASH_POOL_LOST   -2 /* there is none, so they are gone */
struct trash {
	int fd, sandboxes_fd;
	int pool_fd; /* of the open one, or as above */
};
/* In a worker: the entries of this sandbox, or of all (NULL). 1: some stayed. */
int trash_empty(const struct trash *trash, const char *id);

#endif
