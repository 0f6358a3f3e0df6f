#include "container/container_io.h"

#include <errno.h>
#include <string.h>

#include "container/cgroup_io.h"
#include "container/host_state.h"

static int refuse(struct err *err, const char *why)
{
	return err_set(err, -EOPNOTSUPP, ERR_UNSUPPORTED, "this host cannot limit io: %s", why);
}

static int check_controller(const struct container_host *host, struct err *err)
{
	if (host->cgroup.can_limit_io)
		return 0;
	if (!host->is_rootless)
		return refuse(err, "there is no cgroup controller for it (io, or blkio in v1)");
	return refuse(err, "without root it needs a cgroup with the controller io, which systemd "
			   "does not give to users by itself. Root can have it done: "
			   "\"Delegate=cpu io memory pids\" below [Service] in "
			   "/etc/systemd/system/user@.service.d/delegate.conf");
}

/* In the pool there is always a disk to limit. */
static int check_disk(const struct container *c, const struct container_host *host, struct err *err)
{
	const struct block_place *place = &host->place;

	if (place->disk || c->is_pooled || c->spec.is_ephemeral)
		return 0;
	if (place->is_spread)
		return refuse(err, "the file system of the sandboxes is spread over several disks");
	return err_set(err, -EOPNOTSUPP, ERR_UNSUPPORTED,
		       "this host cannot limit io: the file system of the sandboxes (%s) is on no "
		       "disk of this machine",
		       place->type[0] ? place->type : "unknown");
}

static int check_writes(const struct container *c, const struct container_host *host,
			struct err *err)
{
	const struct cgroup_host *cg = &host->cgroup;

	if (!cg->is_v2)
		return refuse(err,
			      "io_write and io_write_ops need cgroup v2. In v1 the kernel "
			      "writes to disk later, and in nobody's name, so that most writes "
			      "would be as fast as before");
	if (!cg->can_limit_memory)
		return refuse(err, "io_write and io_write_ops need the cgroup controller memory, "
				   "too: by it the kernel knows whose data it writes to disk");
	if (host->place.names_writers || c->is_pooled || c->spec.is_ephemeral)
		return 0;
	return err_set(err, -EOPNOTSUPP, ERR_UNSUPPORTED,
		       "this host cannot limit io: io_write and io_write_ops need ext4, xfs, btrfs "
		       "or f2fs, as %s does not tell the kernel whose data it writes to disk",
		       host->place.type);
}

int container_io_check(const struct container *c, const struct container_host *host,
		       const struct keeper_io *io, struct err *err)
{
	int r = 0;

	if (container_io_is_any(io))
		r = check_controller(host, err);
	if (r == 0 && container_io_is_any(io))
		r = check_disk(c, host, err);
	if (r == 0 && (io->write_bytes || io->write_ops))
		r = check_writes(c, host, err);
	return r;
}

/* Its own disk is behind an overlay, and not to be seen from inside. */
static dev_t own_disk(const struct container *c, const struct container_host *host)
{
	if (c->spec.is_ephemeral)
		return 0;
	return c->is_pooled ? pool_device(host->pool) : host->place.disk;
}

int container_io_set(const struct container *c, const struct container_host *host,
		     const struct keeper_io *io, struct err *err)
{
	dev_t own = own_disk(c, host);
	struct block_devices disks;
	int r;

	if (c->is_ending)
		return 0;
	r = block_devices_of(c->init_pid, &disks);
	if (r == 0 && own)
		r = block_devices_add(&disks, own);
	if (r == 0 && disks.count == 0)
		return refuse(err, "nothing that the sandbox reaches is on a disk of this machine");
	if (r == 0)
		r = cgroup_io_set(&host->cgroup, c->spec.id.text, &disks, io);
	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "the limit of io cannot be set: %s",
			       strerror(-r));
	return 0;
}

void container_hurry(const struct container *c, const struct container_host *host)
{
	if (container_io_is_any(&c->spec.limits.io))
		cgroup_io_lift(&host->cgroup, c->spec.id.text);
}

/* Of one that has just died there is nothing to be seen. */
int container_slow_down(const struct container *c, const struct container_host *host)
{
	struct err unused;
	int r = 0;

	if (container_io_is_any(&c->spec.limits.io))
		r = container_io_set(c, host, &c->spec.limits.io, &unused);
	return r < 0 && !container_is_dead(c) ? r : 0;
}
