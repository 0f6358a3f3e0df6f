/*
 * Limits of a sandbox's cgroup, changed while it runs. The runtime has set them at its start, in
 * the same files and with the same meaning.
 *
 *	             v2                  v1
 *	memory       memory.max          memory.limit_in_bytes
 *	swap         memory.swap.max     memory.memsw.limit_in_bytes, memory and swap together
 *	cpus         cpu.max             cpu.cfs_quota_us
 *	             cpu.weight          cpu.shares
 *	processes    pids.max            pids.max
 *
 * In v2 a limit of memory holds at once, and the kernel kills for it. In v1 one that is below what
 * is used is refused by the kernel. Neither depends on whether the cgroup is frozen.
 */
#ifndef BERTH_CONTAINER_CGROUP_LIMITS_H
#define BERTH_CONTAINER_CGROUP_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "container/cgroup.h"

#define CGROUP_CPU_PERIOD_US 100000

/*
 * How much of a processor it gets beside others that want it, in percent of one without a limit:
 * whoever may have a fifth of one is not worth as much as who may have all.
 */
uint32_t cgroup_cpu_weight(uint32_t cpu_milli);
#define CGROUP_V1_SHARES 1024 /* are 100 percent */

/* What this host cannot limit is not looked at. */
struct cgroup_limits {
	uint64_t memory_bytes, swap_bytes;
	uint32_t cpu_milli; /* 0: all that there are */
	uint32_t pids;
};

struct cgroup_change {
	struct cgroup_limits before; /* what was asked for last, and holds again on failure */
	struct cgroup_limits after;
};

/* Where a sandbox's files are; -1: this host has none of that kind. */
struct cgroup_files {
	int memory, cpu, pids;
};

/* To be closed also on failure. Opened before a worker begins, they stay those of this life. */
int cgroup_files_open(const struct cgroup_host *cg, const char *id, struct cgroup_files *ret);
void cgroup_files_close(struct cgroup_files *files);

/* The limit of memory gets lower: the kernel may have to give memory back for seconds first. */
bool cgroup_limit_takes_long(const struct cgroup_host *cg, const struct cgroup_files *files,
			     const struct cgroup_limits *limits);
/* What held before, again, as far as that takes no time: a limit of memory below what is used stays
 * as it is. */
void cgroup_limit_restore(const struct cgroup_host *cg, const struct cgroup_files *files,
			  const struct cgroup_limits *limits);
/* ERR_CONFLICT: more memory is held than that, and nothing was changed. */
int cgroup_limit(const struct cgroup_host *cg, const struct cgroup_files *files,
		 const struct cgroup_change *change, struct err *err);

#endif
