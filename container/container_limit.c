/* Other limits for a container that runs. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "container/cgroup_limits.h"
#include "container/container.h"
#include "container/limits.h"

static struct cgroup_limits of_cgroup(const struct container_limits *limits)
{
	return (struct cgroup_limits){limits->memory_bytes, limits->swap_bytes, limits->cpu_milli,
				      limits->pids};
}

/* What the cgroup does not hold was decided at the start. */
static int check_fixed(const struct container *c, const struct container_host *host,
		       const struct container_limits *limits, struct err *err)
{
	if (!host->cgroup.can_limit_pids && limits->pids != c->spec.limits.pids)
		return err_set(
			err, -EOPNOTSUPP, ERR_UNSUPPORTED,
			"the limit of pids cannot be changed while the sandbox runs: without "
			"a cgroup for it its first process holds it, from its start on. Stop "
			"the sandbox first");
	/* DISK: until container_limit_disk() is there, that is refused here, and here only. */
	if (limits->disk_bytes != c->spec.limits.disk_bytes)
		return err_set(err, -EOPNOTSUPP, ERR_UNSUPPORTED,
			       "the limit of disk cannot be changed while the sandbox runs: stop "
			       "it first");
	return 0;
}

int container_limit(struct container *c, const struct container_host *host,
		    const struct container_limits *limits, struct err *err)
{
	struct container_limits before = c->spec.limits, now = before;
	struct container_limits asked = {
		.memory_bytes = limits->memory_bytes,
		.swap_bytes = limits->swap_bytes,
		.cpu_milli = limits->cpu_milli,
		.pids = limits->pids,
		.disk_bytes = limits->disk_bytes,
	};
	struct cgroup_limits old = of_cgroup(&before), new;
	int r = limits_complete(&asked, host, err);

	if (r == 0)
		r = check_fixed(c, host, &asked, err);
	if (r < 0)
		return r;
	new = of_cgroup(&asked);
	r = host->cgroup.is_used ? cgroup_limit(&host->cgroup, c->spec.id.text, &old, &new, err)
				 : 0;
	if (r < 0)
		return r;
	now.memory_bytes = asked.memory_bytes;
	now.swap_bytes = asked.swap_bytes;
	now.cpu_milli = asked.cpu_milli;
	now.pids = asked.pids;
	c->spec.limits = now;
	r = container_record(c, host, err);
	if (r < 0) {
		struct err unused;

		err->code = ERR_INTERNAL;
		c->spec.limits = before;
		if (host->cgroup.is_used)
			cgroup_limit(&host->cgroup, c->spec.id.text, &new, &old, &unused);
	}
	return r;
}
