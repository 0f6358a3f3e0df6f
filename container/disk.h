/* Of a container's disk, what container.c needs; the rest is in container.h. */
#ifndef BERTH_CONTAINER_DISK_H
#define BERTH_CONTAINER_DISK_H

#include "container/container.h"
#include "container/host_state.h"

/* Where the disk of one that runs is. If it is in the pool, that is opened. */
void disk_adopt(struct container *c, const struct container_host *host);

#endif
