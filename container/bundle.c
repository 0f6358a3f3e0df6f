#include "container/bundle.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "container/dir.h"
#include "container/ephemeral.h"
#include "container/image.h"
#include "container/limits.h"
#include "container/oci_config.h"
#include "container/rootfs.h"
#include "container/runtime.h"
#include "container/trash.h"
#include "container/tree.h"

#define UPPER_NEW "upper.new"

static int write_owned(int dir, const char *name, uid_t owner, const char *text)
{
	cleanup_fd int fd = dir_open_file(dir, name, O_WRONLY | O_CREAT | O_EXCL, 0644);
	int r = fd < 0 ? fd : dir_write_all(fd, str_of(text));

	if (r == 0 && (fchmod(fd, 0644) < 0 || fchown(fd, owner, owner) < 0))
		r = -errno;
	return r;
}

/* What a new disk holds: the sandbox's name. Nobody has written to it yet. */
static int fill_upper(int upper, uid_t owner, const char *id)
{
	cleanup_fd int etc = dir_make(upper, "etc", 0755);
	char text[256];
	int r = etc < 0 ? etc : 0;

	if (r == 0 && fchown(etc, owner, owner) < 0)
		r = -errno;
	snprintf(text, sizeof(text), "%s\n", id);
	if (r == 0)
		r = write_owned(etc, "hostname", owner, text);
	snprintf(text, sizeof(text),
		 "127.0.0.1 localhost %s\n::1 localhost ip6-localhost ip6-loopback\n", id);
	return r < 0 ? r : write_owned(etc, "hosts", owner, text);
}

/* "upper" appears whole: a keeper that dies before leaves UPPER_NEW, and the next one begins anew.
 */
static int make_upper(int disk, uid_t owner, const char *id)
{
	cleanup_fd int upper = -1, work = dir_make(disk, "work", 0700);
	struct stat st;
	int r;

	if (work < 0)
		return work;
	if (fstatat(disk, "upper", &st, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	if (errno != ENOENT)
		return -errno;
	r = tree_remove(disk, UPPER_NEW);
	upper = r < 0 ? r : dir_make(disk, UPPER_NEW, 0755);
	if (upper < 0)
		return upper;
	if (fchown(upper, owner, owner) < 0)
		return -errno;
	r = fill_upper(upper, owner, id);
	if (r == 0 && renameat2(disk, UPPER_NEW, disk, "upper", 1 /* RENAME_NOREPLACE */) < 0)
		r = -errno;
	return r;
}

static int place_in_pool(struct container *c, const struct container_host *host, int disk,
			 bool may_make, struct err *err)
{
	struct pool_disk which = {.number = c->range, .is_old = c->spec.has_disk};
	int fd = pool_open(host->pool, may_make && !which.is_old, err);

	if (fd < 0)
		return fd;
	c->is_pooled = true;
	fd = pool_open_disk(host->pool, disk, &which, err);
	memcpy(c->disk_name, which.name, sizeof(which.name));
	return fd;
}

/* 1: it is in the pool. A disk that is there stays where it is, since it would have to be copied.
 */
static int check_place(const struct container_spec *spec, int disk, struct err *err)
{
	struct stat st;
	bool has_upper = fstatat(disk, "upper", &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
	int is_marked = pool_has_disk(disk);

	if (is_marked < 0)
		return err_set(err, is_marked, ERR_START_FAILED,
			       "where the sandbox's disk is cannot be seen: %s",
			       strerror(-is_marked));
	if (spec->is_ephemeral && (is_marked || has_upper))
		return err_set(err, -EALREADY, ERR_CONFLICT,
			       "the sandbox has a disk already: it can be made ephemeral only "
			       "before its first start. Make another sandbox for that");
	if (has_upper && (spec->limits.disk_bytes || is_marked))
		return limits_refuse_late_disk(err);
	return is_marked;
}

/* Where "upper" and "work" are: here, in the pool, or in memory. */
static int place_disk(struct container *c, const struct container_host *host, int disk,
		      struct err *err)
{
	int is_marked = check_place(&c->spec, disk, err);

	if (is_marked < 0)
		return is_marked;
	if (c->spec.is_ephemeral)
		return ephemeral_attach(host, &c->spec.limits, err);
	/* Rootless a limit was refused before. */
	if (!host->pool)
		return err_set(err, -EPERM, ERR_UNSUPPORTED,
			       "the sandbox's disk is in <state>/pool.img, which only a keeper "
			       "that is root can open");
	return place_in_pool(c, host, disk, !is_marked, err);
}

/* The mark decides, and not whether a pool is there: it may be missing. */
static bool is_placed_elsewhere(const struct container *c, int disk)
{
	return c->spec.is_ephemeral || c->spec.limits.disk_bytes || pool_has_disk(disk) != 0;
}

int bundle_check_disk(const struct container_spec *spec, const struct container_host *host,
		      struct err *err)
{
	cleanup_fd int disk = dir_open(host->sandboxes_fd, spec->id.text);
	int r = disk < 0 ? 0 : check_place(spec, disk, err);

	if (r < 0 || spec->is_ephemeral || !spec->limits.disk_bytes)
		return r < 0 ? r : 0;
	return pool_check(host->pool, err);
}

/* Which ranges its disks have is known only when it is open. Whoever needs it says what fails. */
static void look_into_pool(const struct container *c, const struct container_host *host)
{
	struct err ignored;

	if (c->spec.limits.disk_bytes && !c->spec.is_ephemeral && pool_is_there(host->pool))
		pool_open(host->pool, false, &ignored);
}

static int open_disk(struct container *c, const struct container_host *host, bool *ret_is_new,
		     struct err *err)
{
	const char *id = c->spec.id.text;
	cleanup_fd int disk = -1;
	int r;

	look_into_pool(c, host);
	/* Only what we made ourselves may be removed again when the start fails. */
	*ret_is_new = mkdirat(host->sandboxes_fd, id, 0700) == 0;
	disk = dir_make(host->sandboxes_fd, id, 0700);
	if (disk < 0)
		return err_set(err, disk, ERR_START_FAILED, "cannot make the sandbox's disk: %s",
			       strerror(-disk));
	r = ids_assign(host->ids, disk, id, &c->range, err);
	if (r < 0)
		return r;
	if (is_placed_elsewhere(c, disk)) {
		int placed = place_disk(c, host, disk, err);

		if (placed < 0)
			return placed;
		close(disk);
		disk = placed;
	}
	r = make_upper(disk, ids_map(host->ids, c->range).first, id);
	if (r < 0)
		return err_set(err, r, ERR_START_FAILED, "cannot make the sandbox's disk: %s",
			       strerror(-r));
	return take_fd(&disk);
}

int bundle_open_disk(struct container *c, const struct container_host *host, bool *ret_is_new,
		     struct err *err)
{
	int r = open_disk(c, host, ret_is_new, err);

	/* To the keeper that would be remains below <run>, as bundle_make() tells. */
	return r == -EEXIST ? -EALREADY : r;
}

/* Not before the overlay stands: on a full disk it could only be mounted to be read. */
static int limit_disk(const struct container *c, const struct container_host *host, struct err *err)
{
	if (!c->is_pooled)
		return 0;
	return pool_limit_disk(host->pool, c->disk_name, c->spec.limits.disk_bytes, err);
}

void bundle_detach_disk(const struct container *c, const struct container_host *host)
{
	if (c->spec.is_ephemeral)
		ephemeral_detach(host);
}

void bundle_drop_disk(const struct container *c, const struct container_host *host)
{
	const char *id = c->spec.id.text;
	cleanup_fd int disk = dir_open(host->sandboxes_fd, id), trash = -1;
	int r;

	if (disk == -ENOENT)
		return;
	/* What it has in the pool is for a worker, who tries until it is gone; without the mark it
	 * would be nobody's, and under its name it would be a disk. */
	if (disk < 0 || pool_has_disk(disk) != 0) {
		trash = trash_open(host);
		r = trash < 0 ? trash : trash_move(trash, host->sandboxes_fd, id, id);
	} else {
		r = tree_remove(host->sandboxes_fd, id);
	}
	if (r < 0)
		log_warn("sandbox=%s its disk, which was of no use, is still there: %s", id,
			 strerror(-r));
}

static int write_config(const struct container *c, const struct container_host *host, int bundle,
			struct err *err)
{
	cleanup(buf_close) struct buf text;
	int r;

	buf_init(&text, OCI_CONFIG_MAX);
	r = oci_config_write(&text, host, c);
	if (r == 0)
		r = dir_replace(bundle, "config.json", (struct str){buf_at(&text), buf_len(&text)},
				0600);
	if (r < 0)
		return err_set(err, r, ERR_START_FAILED, "cannot write config.json: %s",
			       strerror(-r));
	return 0;
}

int bundle_make(const struct container *c, const struct container_host *host, int disk_fd,
		struct err *err)
{
	struct rootfs_plan plan = {
		.id = c->spec.id.text,
		.image = c->spec.image,
		.map = ids_map(host->ids, c->range),
		.is_read_only = c->spec.is_read_only,
		.shares_host = strcmp(c->spec.image, IMAGE_HOST) == 0,
		.mounts = c->spec.mounts,
		.is_pooled = c->is_pooled,
	};
	cleanup_fd int run = -1, bundle = -1;
	int r;

	if (plan.shares_host)
		plan.image = host->image.path;
	if (mkdirat(host->run_fd, c->spec.id.text, 0711) < 0)
		return errno == EEXIST
			       ? err_set(err, -EEXIST, ERR_CONFLICT,
					 "remains of an earlier start must be taken down first")
			       : err_set(err, -errno, ERR_START_FAILED,
					 "cannot make its run directory: %s", strerror(errno));
	run = dir_make(host->run_fd, c->spec.id.text, 0711);
	bundle = run < 0 ? run : dir_make(run, "bundle", 0711);
	if (bundle < 0)
		r = err_set(err, bundle, ERR_START_FAILED, "cannot make its run directory: %s",
			    strerror(-bundle));
	else
		r = rootfs_mount(host, &plan, disk_fd, bundle, err);
	if (r == 0)
		r = write_config(c, host, bundle, err);
	if (r == 0)
		r = limit_disk(c, host, err);
	if (r < 0)
		bundle_remove(host, c->spec.id.text);
	return r;
}

int bundle_remove(const struct container_host *host, const char *id)
{
	cleanup_fd int run = dir_open(host->run_fd, id);
	cleanup_fd int bundle = run < 0 ? -1 : dir_open(run, "bundle");
	int r = bundle < 0 ? 0 : rootfs_unmount(bundle);

	if (bundle >= 0)
		runtime_unmount_copies(bundle);
	return r < 0 ? r : tree_remove(host->run_fd, id);
}

int bundle_bind_agent(const struct container *c, const struct container_host *host, struct err *err)
{
	cleanup_fd int run = dir_open(host->run_fd, c->spec.id.text);
	cleanup_fd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	/* By the fd: the path itself may be longer than an address can hold. */
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/agent.sock", run);
	if (run < 0 || fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    fchmodat(run, "agent.sock", 0600, 0) < 0 ||
	    fchownat(run, "agent.sock", host->daemon_uid, host->daemon_gid, AT_SYMLINK_NOFOLLOW) <
		    0)
		return err_set(err, run < 0 ? run : -errno, ERR_START_FAILED,
			       "cannot make its agent socket: %s",
			       strerror(run < 0 ? -run : errno));
	return take_fd(&fd);
}
