/* Other limits for a container that runs. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "container/cgroup_limits.h"
#include "container/child.h"
#include "container/container.h"
#include "container/container_io.h"
#include "container/dir.h"
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
	if (c->spec.is_ephemeral && !bytes)
		return 0;
	if (bytes == c->spec.limits.disk_bytes)
		return container_pool_settle(c, host, err);
	return container_limit_disk(c, host, bytes, err);
}

static int limit_io(struct container *c, const struct container_host *host,
		    const struct keeper_io *io, struct err *err)
{
	struct keeper_io *now = &c->spec.limits.io;
	struct err unused;
	int r;

	/* Whoever adopts one asks for all its limits again, and tells if they do not hold. */
	if (!c->is_io_unsure && io->read_bytes == now->read_bytes &&
	    io->write_bytes == now->write_bytes && io->read_ops == now->read_ops &&
	    io->write_ops == now->write_ops)
		return 0;
	r = container_io_check(c, host, io, err);
	if (r < 0)
		return r;
	r = container_io_set(c, host, io, err);
	c->is_io_unsure = r < 0 && container_io_set(c, host, now, &unused) < 0;
	if (r == 0)
		*now = *io;
	return r;
}

static int limit_cgroup(const struct container *c, const struct container_host *host,
			const struct container_limits *old, const struct container_limits *new,
			struct err *err)
{
	const struct cgroup_change change = {of_cgroup(old), of_cgroup(new)};
	cleanup(cgroup_files_close) struct cgroup_files files = {-1, -1, -1};
	int r;

	if (!host->cgroup.is_used)
		return 0;
	r = cgroup_files_open(&host->cgroup, c->spec.id.text, &files);
	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "its cgroup cannot be opened: %s",
			       strerror(-r));
	return cgroup_limit(&host->cgroup, &files, &change, err);
}

int container_limit_begin(struct container *c, const struct container_host *host,
			  const struct container_limits *limits, struct container_change *ret,
			  struct err *err)
{
	struct container_limits asked = c->spec.limits;
	struct err unused;
	int r;

	ret->before = asked;
	asked.memory_bytes = limits->memory_bytes;
	asked.swap_bytes = limits->swap_bytes;
	asked.cpu_milli = limits->cpu_milli;
	asked.pids = limits->pids;
	asked.io = limits->io;
	r = limits_complete(&asked, host, err);
	if (r == 0)
		r = check_fixed(c, host, &asked, err);
	if (r == 0)
		r = limit_io(c, host, &asked.io, err);
	if (r == 0) {
		r = limit_disk(c, host, limits->disk_bytes, err);
		if (r < 0)
			limit_io(c, host, &ret->before.io, &unused);
	}
	asked.disk_bytes = c->spec.limits.disk_bytes;
	ret->after = asked;
	return r;
}

bool container_limit_takes_long(const struct container *c, const struct container_host *host,
				const struct container_change *change)
{
	const struct cgroup_limits after = of_cgroup(&change->after);
	cleanup(cgroup_files_close) struct cgroup_files files = {-1, -1, -1};

	return host->cgroup.is_used &&
	       cgroup_files_open(&host->cgroup, c->spec.id.text, &files) == 0 &&
	       cgroup_limit_takes_long(&host->cgroup, &files, &after);
}

int container_limit_now(const struct container *c, const struct container_host *host,
			const struct container_change *change, struct err *err)
{
	return limit_cgroup(c, host, &change->before, &change->after, err);
}

/* In the child. */
static int work(const struct container_host *host, const struct cgroup_files *files,
		const struct container_change *change, int to)
{
	const struct cgroup_change wanted = {of_cgroup(&change->before), of_cgroup(&change->after)};
	struct err err = {0};

	if (cgroup_limit(&host->cgroup, files, &wanted, &err) == 0)
		return 0;
	dir_write_all(to, (struct str){(const char *)&err, sizeof(err)});
	return 1;
}

static unsigned add_fds(int *fds, unsigned count, const int *more, unsigned more_count)
{
	for (unsigned i = 0; i < more_count; i++)
		if (more[i] >= 0)
			fds[count++] = more[i];
	return count;
}

int container_limit_work(const struct container *c, const struct container_host *host,
			 const struct container_change *change, int *ret_fd, struct err *err)
{
	const struct cgroup_host *cg = &host->cgroup;
	cleanup(cgroup_files_close) struct cgroup_files files = {-1, -1, -1};
	cleanup_fd int from = -1, to = -1;
	int keep[CGROUPS_KINDS + 5], ends[2], r;
	unsigned count = 0;
	pid_t pid;

	r = cgroup_files_open(cg, c->spec.id.text, &files);
	if (r == 0 && pipe2(ends, O_CLOEXEC) < 0)
		r = -errno;
	if (r == 0) {
		from = ends[0];
		to = ends[1];
		count = add_fds(keep, count, (const int[]){files.memory, files.cpu, files.pids}, 3);
		count = add_fds(keep, count, (const int[]){to, cg->v2_fd}, 2);
		count = add_fds(keep, count, cg->v1_fds, CGROUPS_KINDS);
		r = child_fork(keep, count, &pid);
	}
	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "its limits cannot be changed: %s",
			       strerror(-r));
	if (pid == 0)
		_exit(work(host, &files, change, to));
	*ret_fd = take_fd(&from);
	return r;
}

void container_limit_undo(const struct container *c, const struct container_host *host,
			  const struct container_change *change)
{
	const struct cgroup_limits before = of_cgroup(&change->before);
	cleanup(cgroup_files_close) struct cgroup_files files = {-1, -1, -1};

	if (host->cgroup.is_used && cgroup_files_open(&host->cgroup, c->spec.id.text, &files) == 0)
		cgroup_limit_restore(&host->cgroup, &files, &before);
}

int container_limit_end(struct container *c, const struct container_host *host,
			const struct container_change *change, int result, struct err *err)
{
	struct err unused;

	if (result == 0) {
		c->spec.limits = change->after;
		result = container_record(c, host, err);
		if (result == 0)
			return 0;
		err->code = ERR_INTERNAL;
		container_limit_undo(c, host, change);
	}
	if (limit_disk(c, host, change->before.disk_bytes, &unused) < 0)
		c->is_limit_unsure = c->is_pooled;
	limit_io(c, host, &change->before.io, &unused);
	c->spec.limits = change->before;
	return result;
}
