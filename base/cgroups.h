/*
 * Where the cgroup hierarchies are, from the text of /proc/self/mountinfo. No files are read here.
 */
#ifndef BERTH_BASE_CGROUPS_H
#define BERTH_BASE_CGROUPS_H

#include <limits.h>
#include <stdbool.h>

#include "base/host.h"
#include "base/str.h"

enum cgroups_kind {
	CGROUPS_UNIFIED,
	CGROUPS_MEMORY,
	CGROUPS_CPU,
	CGROUPS_PIDS,
	CGROUPS_FREEZER,
	CGROUPS_CPUACCT,
	CGROUPS_BLKIO,
	CGROUPS_CPUSET,
	CGROUPS_KINDS
};

struct cgroups {
	bool v1; /* any v1 hierarchy, with a controller or only a name */
	/* By kind: the unified hierarchy, and the v1 hierarchies of these controllers. */
	struct {
		char mount[PATH_MAX]; /* "" if there is none */
	} of[CGROUPS_KINDS];
};

void cgroups_parse(struct cgroups *ret, struct str mountinfo);
enum host_cgroups cgroups_mode(const struct cgroups *cgroups);

#endif
