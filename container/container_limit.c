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
	return 0;
}

/* One in memory that was given no size has the one that it was started with. */
static int limit_disk(struct container *c, const struct container_host *host, uint64_t bytes,
		      struct err *err)
{
	if (bytes == c->spec.limits.disk_bytes || (c->spec.is_ephemeral && !bytes))
		return 0;
	return container_limit_disk(c, host, bytes, err);
}

static int limit_cgroup(const struct container *c, const struct container_host *host,
			const struct container_limits *old, const struct container_limits *new,
			struct err *err)
{
	const struct cgroup_limits before = of_cgroup(old), after = of_cgroup(new);

	if (!host->cgroup.is_used)
		return 0;
	return cgroup_limit(&host->cgroup, c->spec.id.text, &before, &after, err);
}

int container_limit(struct container *c, const struct container_host *host,
		    const struct container_limits *limits, struct err *err)
{
	const struct container_limits before = c->spec.limits;
	struct container_limits asked = before;
	struct err unused;
	int r;

	asked.memory_bytes = limits->memory_bytes;
	asked.swap_bytes = limits->swap_bytes;
	asked.cpu_milli = limits->cpu_milli;
	asked.pids = limits->pids;
	r = limits_complete(&asked, host, err);
	if (r == 0)
		r = check_fixed(c, host, &asked, err);
	if (r == 0)
		r = limit_disk(c, host, limits->disk_bytes, err);
	if (r < 0)
		return r;
	asked.disk_bytes = c->spec.limits.disk_bytes;
	r = limit_cgroup(c, host, &before, &asked, err);
	if (r == 0) {
		c->spec.limits = asked;
		r = container_record(c, host, err);
		if (r == 0)
			return 0;
		err->code = ERR_INTERNAL;
		limit_cgroup(c, host, &asked, &before, &unused);
	}
	limit_disk(c, host, before.disk_bytes, &unused);
	c->spec.limits = before;
	return r;
}
