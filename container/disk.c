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
#include "container/dir.h"
#include "container/host_state.h"
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
	struct err ignored;

	/* The record knows. If it cannot be opened, it is tried again: keeper_pool.c. */
	if (c->is_pooled && host->pool)
		pool_open(host->pool, false, &ignored);
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
		return err_set(err, -EEXIST, ERR_CONFLICT,
			       "the sandbox has a disk without a limit already: limits.disk can be "
			       "given only before its first start");
	if (bytes && (bytes < KEEPER_DISK_MIN || bytes > KEEPER_DISK_MAX))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "disk must be from %llu to %llu",
			       KEEPER_DISK_MIN, KEEPER_DISK_MAX);
	r = pool_open(host->pool, false, err);
	if (r == 0)
		r = pool_limit_disk(host->pool, c->disk_name, bytes, err);
	if (r == 0)
		c->spec.limits.disk_bytes = bytes;
	return r;
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

int container_remove_disk(const struct container_host *host, const struct sandbox_id *id,
			  pid_t *ret_pid, struct err *err)
{
	cleanup_fd int trash = -1;
	int keep[2];
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
	keep[0] = trash;
	keep[1] = pool_for_trash(host);
	if (r == 0)
		r = child_fork(keep, keep[1] < 0 ? 1 : 2, ret_pid);
	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "cannot remove the sandbox's disk: %s",
			       strerror(-r));
	if (*ret_pid == 0)
		_exit(trash_empty(trash, keep[1], id->text));
	return r;
}

bool container_has_trash(const struct container_host *host)
{
	cleanup_fd int trash = trash_open(host);

	return (trash >= 0 && !trash_is_empty(trash)) || pool_has_thrown(host->pool);
}

static int empty_all(int trash, int pool)
{
	int failed = pool < 0 ? 0 : pool_empty_gone(pool);

	return trash_empty(trash, pool, NULL) || failed;
}

int container_empty_trash(const struct container_host *host, pid_t *ret_pid, struct err *err)
{
	cleanup_fd int trash = trash_open(host);
	struct err ignored;
	int keep[2], r;

	/* Some of it may be there; if it cannot be opened, that stays. */
	if (pool_is_there(host->pool))
		pool_open(host->pool, false, &ignored);
	keep[0] = trash;
	keep[1] = pool_for_trash(host);
	r = trash < 0 ? trash : child_fork(keep, keep[1] < 0 ? 1 : 2, ret_pid);
	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "cannot empty the trash: %s", strerror(-r));
	if (*ret_pid == 0)
		_exit(empty_all(trash, keep[1]));
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

/* One in memory is nowhere but below its root. */
static void add_ephemeral(const struct container_host *host, const char *id, uint64_t numbers[2])
{
	cleanup_fd int run = dir_open(host->run_fd, id);
	cleanup_fd int root = run < 0 ? -1 : dir_open(run, "bundle/rootfs");
	struct statfs st;

	if (root < 0 || fstatfs(root, &st) < 0 || st.f_type != OVERLAYFS_SUPER_MAGIC)
		return;
	numbers[0] += (uint64_t)(st.f_blocks - st.f_bfree) * (uint64_t)st.f_bsize;
	numbers[1] += st.f_files - st.f_ffree;
}

/* What is not in its folder. */
static int add_elsewhere(const struct container_host *host, const char *id, uint64_t numbers[2])
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
		add_ephemeral(host, id, numbers);
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

static int tell_usage(const struct container_host *host, const char *id, int to)
{
	struct tree_usage usage;
	uint64_t numbers[2];
	int r = tree_measure(host->sandboxes_fd, id, &usage);

	if (r < 0 && r != -ENOENT)
		return 1;
	numbers[0] = usage.bytes;
	numbers[1] = usage.files;
	if (add_elsewhere(host, id, numbers) < 0)
		return 1;
	return dir_write_all(to, (struct str){(const char *)numbers, sizeof(numbers)}) < 0;
}

int container_disk_usage(const struct container_host *host, const struct sandbox_id *id,
			 pid_t *ret_pid, int *ret_fd, struct err *err)
{
	int ends[2], keep[4], count = 0, r = check_id(id, err);

	if (r < 0)
		return r;
	open_pool_of(host, id->text);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_set(err, -errno, ERR_INTERNAL, "cannot make a pipe: %s",
			       strerror(errno));
	keep[count++] = host->sandboxes_fd;
	keep[count++] = host->run_fd;
	keep[count++] = ends[1];
	if (pool_fd(host->pool) >= 0)
		keep[count++] = pool_fd(host->pool);
	r = child_fork(keep, (unsigned)count, ret_pid);
	if (r >= 0 && *ret_pid == 0)
		_exit(tell_usage(host, id->text, ends[1]));
	close(ends[1]);
	if (r < 0) {
		close(ends[0]);
		return err_set(err, r, ERR_INTERNAL, "cannot fork: %s", strerror(-r));
	}
	*ret_fd = ends[0];
	return r;
}
