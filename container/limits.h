/*
 * How much of the machine a sandbox may take. What nobody asked for gets a default where this host
 * can hold it; what was asked for and cannot be held is refused.
 *
 *	memory       the smaller of 2 GiB and half of the machine's
 *	swap         none
 *	cpus         all
 *	processes    1,024; where cgroups cannot hold it, init does, for each user inside
 *	open files   65,536 for each process, or our own limit if that is lower
 *	file size    any
 *	disk         what the host has; ephemeral: half of the memory, or 256 MiB where that has no
 *	             limit, and 65,536 inodes
 *	io           as fast as it goes (container_io.h)
 */
#ifndef BERTH_CONTAINER_LIMITS_H
#define BERTH_CONTAINER_LIMITS_H

#include "container/container.h"
#include "container/host_state.h"

int limits_complete(struct container_limits *limits, const struct container_host *host,
		    struct err *err);
/* What it has of a disk; after the other limits, which it depends on. */
int limits_complete_disk(struct container_spec *spec, const struct container_host *host,
			 struct err *err);

/* What is said of a disk that cannot be limited any more, or by nobody but root. */
int limits_refuse_late_disk(struct err *err);
int limits_refuse_rootless_disk(struct err *err);

#endif
