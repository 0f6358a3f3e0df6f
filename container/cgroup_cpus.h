/*
 * On which processors a sandbox runs.
 *
 * Who wakes up beside somebody that is always busy may have to wait until the kernel looks again
 * who is to run: some milliseconds, however much more it is entitled to. So a sandbox that may use
 * a part of one processor is kept off one of them, which the others then have without such
 * neighbours. It is held by cpuset.cpus, for all that is inside, at once and from then on.
 */
#ifndef BERTH_CONTAINER_CGROUP_CPUS_H
#define BERTH_CONTAINER_CGROUP_CPUS_H

#include "container/cgroup.h"

/*
 * A list of the kernel's ("0-3,8"), and the same without its last one: programs that count them
 * begin at 0. -EINVAL: it is none.
 */
int cgroup_cpus_parse(struct cgroup_cpus *ret, const char *list);

/* Looks what there is, into cg->cpus, once: later ones are not taken into account. */
void cgroup_cpus_find(struct cgroup_host *cg);

/* All, or all but one. */
int cgroup_cpus_set(const struct cgroup_host *cg, const char *id, bool is_all);

#endif
