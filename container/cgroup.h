/*
 * Control groups of sandboxes: <base>/berth-<hash>/<id> in each hierarchy, the hash being that of
 * the state directory, so that keepers do not meet. The base is the root of the hierarchy, or the
 * delegated cgroup that --cgroup names (v2 only).
 *
 *	v2        the runtime makes <id> and sets the limits; we add exec groups below it
 *	v1        the runtime makes <id> in every hierarchy and sets the limits; no exec groups
 *	hybrid    both: limits in v1; <id> in v2 is ours, and the runtime is started in it
 *
 * An exec group is <id>/exec-<n> in v2. It needs no controllers: init clones a process into it, and
 * cgroup.kill ends whatever came of that process. Rootless there must be a delegated
 * base, else there are no cgroups. How a whole sandbox is frozen is in container/freezer.h.
 */
#ifndef BERTH_CONTAINER_CGROUP_H
#define BERTH_CONTAINER_CGROUP_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cgroups.h"
#include "base/err.h"

#define CGROUP_HIERARCHIES_MAX 16
#define CGROUP_NAME_MAX        32
#define CGROUP_GROUP_NAME      32
#define CGROUP_CPUS_SIZE       1024
#define CGROUP_GROUPS_MAX      4096 /* of one sandbox: as many execs as its init has */

/* See container/cgroup_cpus.h. */
struct cgroup_cpus {
	bool can_choose;
	unsigned count;                                        /* of all */
	char all[CGROUP_CPUS_SIZE], but_one[CGROUP_CPUS_SIZE]; /* lists, as the kernel has them */
};

struct cgroup_host {
	bool is_used; /* false: the runtime is told to leave cgroups alone */
	bool is_v2;   /* limits are there */
	bool can_limit_memory, can_limit_swap, can_limit_cpu, can_limit_pids, can_freeze;
	bool can_limit_io; /* reads; of writes see container/cgroup_io.h */
	struct cgroup_cpus cpus;
	char base[PATH_MAX]; /* "" or the path of a delegated cgroup */
	char name[CGROUP_NAME_MAX];
	int v2_fd;                 /* the base in the unified hierarchy, -1: none */
	int whole_fd;              /* its root, in a mount of its own, -1: none */
	int v1_fds[CGROUPS_KINDS]; /* roots of the hierarchies we read from, -1: none */
	int all_v1_fds[CGROUP_HIERARCHIES_MAX];
	unsigned all_v1_count;
};

struct cgroup_place {
	int cgroup2_fd;   /* may be -1, and stays the caller's */
	bool is_rootless; /* then nothing but a base can be used */
	const char *base; /* a delegated cgroup's path in the unified hierarchy; NULL: none */
	uint64_t hash;
};

/* Looks around in our mount namespace. */
int cgroup_host_init(struct cgroup_host *cg, const struct cgroup_place *place, struct err *err);
void cgroup_host_close(struct cgroup_host *cg);

static inline bool cgroup_has_groups(const struct cgroup_host *cg)
{
	return cg->is_used && cg->v2_fd >= 0;
}

/* v2 does also where it has no controller for it. */
static inline bool cgroup_counts_cpu(const struct cgroup_host *cg)
{
	return cg->is_used && (cg->v2_fd >= 0 || cg->v1_fds[CGROUPS_CPUACCT] >= 0);
}

/* Hybrid: makes <id> and gives its fd, to start the runtime in. Otherwise -1, and all is well. */
int cgroup_prepare(const struct cgroup_host *cg, const char *id, int *ret_fd);
/* Lets `uid`, the sandbox's root, move its processes between its exec groups. */
int cgroup_delegate(const struct cgroup_host *cg, const char *id, uid_t uid);
/* Kills what is in there and removes it, also what a runtime left; waits up to `timeout_ms`. */
int cgroup_remove(const struct cgroup_host *cg, const char *id, int timeout_ms);
/* The fds that cgroup_remove() works with; how many. */
unsigned cgroup_fds(const struct cgroup_host *cg, int *fds, unsigned max);

/* Its directory below that root, which may be -1; -ENOENT: it has none there. */
int cgroup_open(const struct cgroup_host *cg, int root, const char *id);

struct cgroup_stats {
	uint64_t cpu_us, memory_bytes, memory_peak_bytes, pids, oom_kills;
	uint64_t held_bytes; /* of memory_bytes: what cannot be given back */
};
/* What this host does not count is 0; -ENODEV: the sandbox has no cgroup. */
int cgroup_read(const struct cgroup_host *cg, const char *id, struct cgroup_stats *ret);
/* held_bytes alone; `memory`: where the sandbox's files of memory are. */
int cgroup_read_held(const struct cgroup_host *cg, int memory, uint64_t *ret);
/* The file that has the line "oom_kill <n>", to be read; -ENOENT where memory is not counted. */
int cgroup_open_counter(const struct cgroup_host *cg, const char *id);
/* The one with its processor time, as proto/keeper.h has it; -ENOENT where that is not counted. */
int cgroup_open_usage(const struct cgroup_host *cg, const char *id);

/* The directory that has those of the sandboxes, for others to read in: ".." ends at the root. */
int cgroup_groups_open(const struct cgroup_host *cg);
int cgroup_group_make(const struct cgroup_host *cg, const char *id, uint32_t group, uid_t uid,
		      int *ret_fd);
/* -ENOENT: it is not there, or not any more. */
int cgroup_group_open(const struct cgroup_host *cg, const char *id, uint32_t group, int *ret_fd);
int cgroup_group_kill(const struct cgroup_host *cg, const char *id, uint32_t group);
int cgroup_group_is_empty(const struct cgroup_host *cg, const char *id, uint32_t group);
/* It must be empty. Nobody can enter it any more. */
int cgroup_group_remove(const struct cgroup_host *cg, const char *id, uint32_t group);
/* Removes those below that number that are empty. How many stay. */
uint32_t cgroup_groups_sweep(const struct cgroup_host *cg, const char *id, uint32_t below);
/* Of its directory. */
void cgroup_group_name(char name[CGROUP_GROUP_NAME], uint32_t group);
/* Calls `each` for the exec groups below a sandbox's own directory. */
void cgroup_for_groups(int sandbox, void (*each)(int sandbox, const char *name, void *data),
		       void *data);
/* One more than the highest number that is there. */
uint32_t cgroup_groups_made(const struct cgroup_host *cg, const char *id);

#endif
