/*
 * Disks in the pool (pool.h) whose sandbox is not to be seen: its folder was moved or is not
 * mounted yet, somebody has removed it by hand, or the power failed. None is ever destroyed for
 * that: it is called "lost-<range>-<token>-<time>" from then on, and comes back with its folder.
 */
#ifndef BERTH_CONTAINER_POOL_LOST_H
#define BERTH_CONTAINER_POOL_LOST_H

#include "container/ids.h"
#include "container/pool.h"

/* The ranges of all disks that are there, lost or not, are taken: their files belong to them. */
int pool_take_numbers(int root_fd, struct ids *ids);
/* Once, when it is opened. When it is not certain whose one is, all stay. */
void pool_lost_find(const struct pool_place *place, int root_fd);
/* 0: it has its name again. -ENOENT: it is not among them. */
int pool_lost_bring_back(int root_fd, const char *name);

#endif
