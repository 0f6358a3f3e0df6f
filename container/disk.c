#include "container/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "container/child.h"
#include "container/container_io.h"
#include "container/dir.h"
#include "container/host_state.h"
#include "container/limits.h"
#include "container/trash.h"
#include "container/tree.h"
#include "proto/keeper.h"

static int check_id(const struct sandbox_id *id, struct err *err)
{
	size_t len = strnlen(id->text, sizeof(id->text));

	if (len == sizeof(id->text) || !sandbox_id_is_valid((struct str){id->text, len}))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "that is no sandbox id");
	return 0;
}

/* If its disk is there. Whether it can be opened is seen by who needs it. */
static bool open_pool_of(const struct container_host *host, const char *id)
{
	cleanup_fd int disk = -1;
	struct err ignored;

	if (!pool_is_there(host->pool))
		return false;
	disk = dir_open(host->sandboxes_fd, id);
	return disk >= 0 && pool_has_disk(disk) > 0 && pool_open(host->pool, false, &ignored) == 0;
}

void disk_adopt(struct container *c, const struct container_host *host)
{
	struct err unused;

	/* The record knows. If it cannot be opened, it is tried again: keeper_pool.c. */
	c->is_limit_unsure = c->is_pooled && host->pool;
	container_pool_settle(c, host, &unused);
}

int container_pool_settle(struct container *c, const struct container_host *host, struct err *err)
{
	int r = c->is_limit_unsure ? pool_open(host->pool, false, err) : 0;

	if (r == 0 && c->is_limit_unsure)
		r = pool_limit_disk(host->pool, c->disk_name, c->spec.limits.disk_bytes, err);
	if (r == 0)
		c->is_limit_unsure = false;
	return r;
}

int container_limit_disk(struct container *c, const struct container_host *host, uint64_t bytes,
			 struct err *err)
{
	int r;

	if (c->spec.is_ephemeral)
		return err_set(err, -EOPNOTSUPP, ERR_UNSUPPORTED,
			       "an ephemeral disk has the size that it was started with: stop the "
			       "sandbox first");
	if (!c->is_pooled && bytes == 0)
		return 0;
	if (!c->is_pooled)
		return host->is_rootless ? limits_refuse_rootless_disk(err)
					 : limits_refuse_late_disk(err);
	if (bytes && (bytes < KEEPER_DISK_MIN || bytes > KEEPER_DISK_MAX))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "disk must be from %llu to %llu",
			       KEEPER_DISK_MIN, KEEPER_DISK_MAX);
	r = pool_open(host->pool, false, err);
	if (r == 0)
		r = pool_limit_disk(host->pool, c->disk_name, bytes, err);
	if (r < 0)
		return r;
	c->spec.limits.disk_bytes = bytes;
	c->is_limit_unsure = false;
	return 0;
}

uint64_t container_pool_owes(const struct container *c)
{
	if (!c->is_pooled)
		return 0;
	return c->spec.limits.disk_bytes ? c->spec.limits.disk_bytes : UINT64_MAX;
}

int container_pool_room(const struct container_host *host, uint64_t owed)
{
	return host->pool ? (int)pool_room(host->pool, owed) : POOL_HAS_ALL;
}

uint64_t container_pool_trace(const struct container_host *host)
{
	return host->pool ? pool_trace(host->pool) : 0;
}

/* 1: it may be made for this one. 0: it has its disk there already. Negative: it will not be there,
 * or that is for others to say. */
static int may_make_pool(const struct container_spec *spec, const struct container_host *host)
{
	cleanup_fd int disk = dir_open(host->sandboxes_fd, spec->id.text);
	struct stat st;

	if (!host->pool || spec->is_ephemeral)
		return -EPERM;
	if (disk >= 0 && pool_has_disk(disk) != 0)
		return 0;
	if (!spec->limits.disk_bytes ||
	    (disk >= 0 && fstatat(disk, "upper", &st, AT_SYMLINK_NOFOLLOW) == 0))
		return -EPERM;
	return !spec->has_disk;
}

bool container_pool_is_unready(const struct container_spec *spec, const struct container_host *host)
{
	int may_make;

	if (pool_fd(host->pool) >= 0 || (!spec->limits.disk_bytes && !pool_is_there(host->pool)))
		return false;
	may_make = may_make_pool(spec, host);
	return may_make >= 0 && pool_is_unready(host->pool, may_make > 0);
}

int container_pool_prepare(const struct container_spec *spec, const struct container_host *host,
			   pid_t *ret_pid, int *ret_fd)
{
	bool may_make = may_make_pool(spec, host) > 0;
	int ends[2], keep[3] = {host->state_fd, host->sandboxes_fd}, r;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	keep[2] = ends[1];
	r = child_fork(keep, 3, ret_pid);
	if (r >= 0 && *ret_pid == 0) {
		struct err err = {0};

		if (pool_prepare(host->pool, may_make, &err) == 0)
			_exit(0);
		dir_write_all(ends[1], (struct str){(const char *)&err, sizeof(err)});
		_exit(1);
	}
	close(ends[1]);
	if (r < 0)
		close(ends[0]);
	else
		*ret_fd = ends[0];
	return r;
}

void container_pool_failed(const struct container_host *host, const struct err *err)
{
	pool_set_failed(host->pool, err);
}

int container_pool_open(const struct container_host *host, struct err *err)
{
	return host->pool ? pool_open(host->pool, false, err) : 0;
}

int container_pool_grow(const struct container_host *host, uint64_t owed, pid_t *ret_pid)
{
	int fds[POOL_FDS], r;

	pool_fds(host->pool, fds);
	r = child_fork(fds, POOL_FDS, ret_pid);
	if (r >= 0 && *ret_pid == 0)
		_exit(pool_grow(host->pool, owed) < 0);
	return r;
}

static int pool_for_trash(const struct container_host *host)
{
	if (pool_fd(host->pool) >= 0)
		return pool_fd(host->pool);
	return pool_is_there(host->pool) ? TRASH_POOL_CLOSED : TRASH_POOL_LOST;
}

static int fork_for_trash(const struct trash *trash, pid_t *ret_pid)
{
	const int keep[] = {trash->fd, trash->sandboxes_fd, trash->pool_fd};

	return child_fork(keep, trash->pool_fd < 0 ? 2 : 3, ret_pid);
}

int container_remove_disk(const struct container_host *host, const struct sandbox_id *id,
			  pid_t *ret_pid, struct err *err)
{
	cleanup_fd int trash = -1;
	struct trash place;
	struct stat st;
	int r = check_id(id, err);

	if (r < 0)
		return r;
	if (fstatat(host->run_fd, id->text, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return err_set(err, -EBUSY, ERR_CONFLICT, "the sandbox is not taken down yet");
	open_pool_of(host, id->text);
	trash = trash_open(host);
	/* Under its own name it is gone at once: the next start with this id makes a new disk. */
	r = trash < 0 ? trash : trash_move(trash, host->sandboxes_fd, id->text, id->text);
	place = (struct trash){trash, host->sandboxes_fd, pool_for_trash(host)};
	if (r == 0)
		r = fork_for_trash(&place, ret_pid);
	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "cannot remove the sandbox's disk: %s",
			       strerror(-r));
	if (*ret_pid == 0)
		_exit(trash_empty(&place, id->text));
	return r;
}

bool container_has_trash(const struct container_host *host)
{
	cleanup_fd int trash = trash_open(host);

	return (trash >= 0 && !trash_is_empty(trash)) || pool_has_thrown(host->pool);
}

static int empty_all(const struct trash *trash)
{
	int failed = trash->pool_fd < 0 ? 0 : pool_empty_gone(trash->pool_fd);

	return trash_empty(trash, NULL) || failed;
}

int container_empty_trash(const struct container_host *host, pid_t *ret_pid, struct err *err)
{
	cleanup_fd int trash = trash_open(host);
	struct trash place;
	struct err ignored;
	int r;

	/* Some of it may be there; if it cannot be opened, that stays. */
	if (pool_is_there(host->pool))
		pool_open(host->pool, false, &ignored);
	place = (struct trash){trash, host->sandboxes_fd, pool_for_trash(host)};
	r = trash < 0 ? trash : fork_for_trash(&place, ret_pid);
	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "cannot empty the trash: %s", strerror(-r));
	if (*ret_pid == 0)
		_exit(empty_all(&place));
	/* What the next start throws away is for the next worker. */
	if (host->pool)
		pool_set_thrown(host->pool, false);
	return r;
}

void container_keep_trash(const struct container_host *host)
{
	if (host->pool)
		pool_set_thrown(host->pool, true);
}

/* One in memory is nowhere but below its root, which a keeper that adopted it has not mounted. */
static int open_root(const struct container *c)
{
	char path[48];
	int fd;

	if (c->init_pidfd < 0 || !c->spec.is_ephemeral)
		return -1;
	snprintf(path, sizeof(path), "/proc/%d/root", (int)c->init_pid);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	/* Then it may be that of another process. */
	if (fd >= 0 && container_is_dead(c))
		close_fdp(&fd);
	return fd;
}

static void add_ephemeral(int root, uint64_t numbers[2])
{
	struct statfs st;

	if (root < 0 || fstatfs(root, &st) < 0 || st.f_type != OVERLAYFS_SUPER_MAGIC)
		return;
	numbers[0] += (uint64_t)(st.f_blocks - st.f_bfree) * (uint64_t)st.f_bsize;
	numbers[1] += st.f_files - st.f_ffree;
}

/* What is not in its folder. */
static int add_elsewhere(const struct container_host *host, const char *id, int root,
			 uint64_t numbers[2])
{
	cleanup_fd int disk = dir_open(host->sandboxes_fd, id);
	char name[POOL_NAME_SIZE];
	uint64_t bytes, files;
	struct stat st;
	int r;

	if (disk < 0 || fstatat(disk, "upper", &st, AT_SYMLINK_NOFOLLOW) == 0)
		return disk == -ENOENT ? 0 : disk < 0 ? disk : 0;
	r = pool_has_disk(disk);
	if (r == 0)
		add_ephemeral(root, numbers);
	if (r <= 0)
		return r;
	r = pool_fd(host->pool) < 0 ? -EAGAIN : pool_mark_read(disk, name);
	if (r == 0)
		r = pool_measure_disk(pool_fd(host->pool), name, &bytes, &files);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	numbers[0] += bytes;
	numbers[1] += files;
	return 0;
}

static int tell_usage(const struct container_host *host, const char *id, int root, int to)
{
	struct tree_usage usage;
	uint64_t numbers[2];
	int r = tree_measure(host->sandboxes_fd, id, &usage);

	if (r < 0 && r != -ENOENT)
		return 1;
	numbers[0] = usage.bytes;
	numbers[1] = usage.files;
	if (add_elsewhere(host, id, root, numbers) < 0)
		return 1;
	return dir_write_all(to, (struct str){(const char *)numbers, sizeof(numbers)}) < 0;
}

int container_disk_usage(const struct container_host *host, const struct container *c,
			 pid_t *ret_pid, int *ret_fd, struct err *err)
{
	const struct sandbox_id *id = &c->spec.id;
	cleanup_fd int root = open_root(c);
	int ends[2], keep[4], count = 0, r = check_id(id, err);

	if (r < 0)
		return r;
	open_pool_of(host, id->text);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_set(err, -errno, ERR_INTERNAL, "cannot make a pipe: %s",
			       strerror(errno));
	keep[count++] = host->sandboxes_fd;
	keep[count++] = ends[1];
	if (root >= 0)
		keep[count++] = root;
	if (pool_fd(host->pool) >= 0)
		keep[count++] = pool_fd(host->pool);
	r = child_fork(keep, (unsigned)count, ret_pid);
	if (r >= 0 && *ret_pid == 0)
		_exit(tell_usage(host, id->text, root, ends[1]));
	close(ends[1]);
	if (r < 0) {
		close(ends[0]);
		return err_set(err, r, ERR_INTERNAL, "cannot fork: %s", strerror(-r));
	}
	*ret_fd = ends[0];
	return r;
}
