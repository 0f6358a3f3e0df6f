/*
 * How fast a sandbox may read from disks and write to them, held by its cgroup for each disk.
 *
 *	                v2                    v1
 *	bytes           io.max rbps, wbps     blkio.throttle.{read,write}_bps_device
 *	operations      io.max riops, wiops   blkio.throttle.{read,write}_iops_device
 *
 * Reads are made in the reader's name. Most writes are not made by the writer: a thread of the
 * kernel does it later, in v2 in the name of the cgroup whose memory it was, in v1 in nobody's.
 * So v1 cannot limit writes (only those that are direct or followed by fsync() would be slow).
 */
#ifndef BERTH_CONTAINER_CGROUP_IO_H
#define BERTH_CONTAINER_CGROUP_IO_H

#include "container/block_device.h"
#include "container/cgroup.h"
#include "proto/keeper.h"

/* This kernel can hold it, and the controller is ours to use. */
bool cgroup_io_works(const struct cgroup_host *cg);

/* -ENODEV: one of them is no disk that the kernel can limit. */
int cgroup_io_set(const struct cgroup_host *cg, const char *id, const struct block_devices *disks,
		  const struct keeper_io *io);
/* Whoever waits for a disk cannot die before that has answered: at its end it may hurry. */
void cgroup_io_lift(const struct cgroup_host *cg, const char *id);

#endif
