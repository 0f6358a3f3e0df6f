#include "container/container_io.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "container/cgroup_io.h"
#include "container/host_state.h"
#include "container/io_guard.h"

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

/* What is behind an overlay is not to be seen from inside: its own disk, and that of its image. */
static dev_t own_disk(const struct container *c, const struct container_host *host)
{
	if (c->spec.is_ephemeral)
		return 0;
	return c->is_pooled ? pool_device(host->pool) : host->place.disk;
}

/* One may be mounted there, or be a subvolume. Of "host" it is where its /etc is. */
static dev_t image_disk(const struct container *c, const struct container_host *host)
{
	struct err unused;
	cleanup_fd int image = strcmp(c->spec.image, IMAGE_HOST) == 0
				       ? -1
				       : image_open(host->images_fd, c->spec.image, &unused);
	struct block_place place;
	struct stat all, one;

	if (image < 0 || fstat(image, &one) < 0 || fstat(host->images_fd, &all) < 0 ||
	    one.st_dev == all.st_dev)
		return host->images_place.disk;
	block_place_find(image, &place);
	return place.disk;
}

/* Which device that is can only be seen while it is open. */
static int open_pool(const struct container *c, const struct container_host *host, struct err *err)
{
	return c->is_pooled && host->pool ? pool_open(host->pool, false, err) : 0;
}

static int find_disks(const struct container *c, const struct container_host *host,
		      struct block_devices *ret)
{
	const dev_t hidden[] = {own_disk(c, host), image_disk(c, host)};
	int r = block_devices_of(c->init_pid, ret);

	for (size_t i = 0; i < array_len(hidden) && r == 0; i++)
		if (hidden[i])
			r = block_devices_add(ret, hidden[i]);
	return r;
}

int container_io_set(const struct container *c, const struct container_host *host,
		     const struct keeper_io *io, struct err *err)
{
	struct block_devices disks;
	int r, opened;

	if (c->is_ending)
		return 0;
	/* Which disks have one is in its cgroup. */
	if (!container_io_is_any(io)) {
		cgroup_io_lift(&host->cgroup, c->spec.id.text);
		return 0;
	}
	opened = open_pool(c, host, err);
	r = find_disks(c, host, &disks);
	if (r == 0 && disks.count == 0 && opened == 0)
		return refuse(err, "nothing that the sandbox reaches is on a disk of this machine");
	if (r == 0)
		r = cgroup_io_set(&host->cgroup, c->spec.id.text, &disks, io);
	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "the limit of io cannot be set: %s",
			       strerror(-r));
	return opened; /* the others are held meanwhile */
}

void container_hurry(const struct container *c, const struct container_host *host)
{
	if (container_io_is_any(&c->spec.limits.io))
		cgroup_io_lift(&host->cgroup, c->spec.id.text);
}

/* Of one that has just died there is nothing to be seen. */
int container_slow_down(struct container *c, const struct container_host *host)
{
	struct err unused;
	int r = 0;

	if (container_io_is_any(&c->spec.limits.io) || c->is_io_unsure)
		r = container_io_set(c, host, &c->spec.limits.io, &unused);
	c->is_io_unsure = r < 0 && !container_is_dead(c);
	return c->is_io_unsure ? r : 0;
}

int container_guard(const struct container_host *host, const _Atomic uint64_t *pulse, int told_fd,
		    pid_t *ret_pid)
{
	return io_guard_start(&host->cgroup, pulse, told_fd, ret_pid);
}
