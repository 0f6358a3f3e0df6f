/*
 * Stopping a whole sandbox where it stands: init, and every exec group below it.
 *
 *	v2, hybrid    cgroup.freeze of each exec group, and when all of them are frozen that of <id>
 *	v1            freezer.state of <id>
 *
 * Why one after the other: "frozen 1" in cgroup.events is true of a cgroup that has only processes,
 * or only cgroups, in it. <id> has both, and the kernel says it of <id> as soon as the last group
 * became frozen, while init still runs. When no group changes any more, it says the truth.
 *
 * The kernel stops each process on its way out of the kernel: one that hangs there is not frozen.
 */
#ifndef BERTH_CONTAINER_FREEZER_H
#define BERTH_CONTAINER_FREEZER_H

#include <stdbool.h>
#include <stdint.h>

struct cgroup_host;

/* Tries it, with a cgroup of its own. */
bool freezer_works(const struct cgroup_host *cg);
/* Where it writes; -1: nowhere. */
int freezer_fd(const struct cgroup_host *cg);

/* 1: all of it is frozen. 0: not yet, and it must be called again until it is, or be thawed. */
int freezer_freeze(const struct cgroup_host *cg, const char *id);
/*
 * As freezer_freeze(), but neither init nor the exec group of that number; v2 only. Groups that are
 * empty are passed by: whoever is cloned into one that is frozen holds up init. -EBUSY: something
 * beside init is in no group.
 */
int freezer_freeze_others(const struct cgroup_host *cg, const char *id, uint32_t group);
int freezer_thaw(const struct cgroup_host *cg, const char *id);
int freezer_is_frozen(const struct cgroup_host *cg, const char *id);

#endif
