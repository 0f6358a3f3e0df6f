/* The file that a pool is in: made whole or not at all, and without holes. */
#ifndef BERTH_CONTAINER_POOL_IMAGE_H
#define BERTH_CONTAINER_POOL_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define POOL_IMAGE "pool.img"

/* `mkfs`: the path of mkfs.btrfs. ERR_DISK_LIMIT when the host has no room for it. */
int pool_image_make(int state_fd, const char *mkfs, struct err *err);
/* Blocks of its own wherever it has none, such as in a copy of it that somebody has put there; and
 * if its end is missing, as far as its file system goes. */
int pool_image_fill(int fd, struct err *err);
bool pool_image_is_whole(int fd);
/* Why its blocks may not be its own for all that, as the end of a sentence about it; or NULL. */
const char *pool_image_risk(int fd);
/* What the host could give it; some it keeps. */
uint64_t pool_image_room(int fd);
/* By so much, or as much as the host has to give; -ENOSPC: none at all. What came stays. */
int pool_image_grow(int fd, uint64_t bytes);

#endif
