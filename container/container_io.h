/* How fast a container may use disks, what container*.c and keeper_io.c need of it. */
#ifndef BERTH_CONTAINER_CONTAINER_IO_H
#define BERTH_CONTAINER_CONTAINER_IO_H

#include "container/container.h"

/* ERR_UNSUPPORTED: this host cannot hold it to that, and why. */
int container_io_check(const struct container *c, const struct container_host *host,
		       const struct keeper_io *io, struct err *err);
/* Nothing is left of its first process but its status. */
bool container_is_dead(const struct container *c);
/* It runs, so that what it has mounted can be seen. Nothing is checked. If its own disk is in a
 * pool that cannot be opened, that is the answer, and other disks have the limit. */
int container_io_set(const struct container *c, const struct container_host *host,
		     const struct keeper_io *io, struct err *err);

static inline bool container_io_is_any(const struct keeper_io *io)
{
	return io->read_bytes || io->write_bytes || io->read_ops || io->write_ops;
}

#endif
