#include "container/pool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "container/btrfs.h"
#include "container/dir.h"
#include "container/loop_device.h"
#include "container/mount.h"
#include "container/pool_image.h"
#include "container/pool_lost.h"
#include "container/tree.h"

#define MIB        (1ULL << 20)
#define POINT      ".pool"
#define GONE       "gone"
#define AHEAD_MIN  (1024 * MIB)
#define AHEAD_MAX  (16384 * MIB)
#define SLACK      (32 * MIB) /* for what btrfs needs itself */
#define GONE_TRIES 10
#define RETRY_MS   5000 /* after an attempt to attach or mount it that failed */

struct pool {
	struct pool_place place;
	const char *lacks;
	char mkfs[PATH_MAX];
	bool is_mounted, has_thrown;
	int image_fd, loop_fd, root_fd;
	struct err failure; /* of the last attempt, until retry_ms */
	int failed;
	uint64_t retry_ms;
};

int pool_new(struct pool **ret, const struct pool_place *place, const struct host_facts *facts)
{
	struct pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return -ENOMEM;
	pool->place = *place;
	pool->image_fd = pool->loop_fd = pool->root_fd = -1;
	pool->lacks = host_lacks_for_disks(facts, pool_is_there(pool));
	host_find_program("mkfs.btrfs", pool->mkfs);
	*ret = pool;
	return 0;
}

static void close_all(struct pool *pool)
{
	if (pool->is_mounted)
		mount_detach_below(pool->place.run_fd, POINT);
	pool->is_mounted = false;
	close_fdp(&pool->root_fd);
	close_fdp(&pool->loop_fd);
	close_fdp(&pool->image_fd);
	pool->image_fd = pool->loop_fd = pool->root_fd = -1;
}

void pool_free(struct pool *pool)
{
	if (pool)
		close_all(pool);
	free(pool);
}

bool pool_is_there(const struct pool *pool)
{
	struct stat st;

	return pool && (pool->root_fd >= 0 ||
			fstatat(pool->place.state_fd, POOL_IMAGE, &st, AT_SYMLINK_NOFOLLOW) == 0 ||
			errno != ENOENT);
}

const char *pool_lacks(const struct pool *pool)
{
	return pool->lacks;
}

dev_t pool_device(const struct pool *pool)
{
	struct stat st;

	return pool && fstat(pool->loop_fd, &st) == 0 ? st.st_rdev : 0;
}

int pool_fd(const struct pool *pool)
{
	return pool ? pool->root_fd : -1;
}

/* --- opening --- */

static int say_read_only(struct err *err)
{
	return err_set(err, -EROFS, ERR_START_FAILED,
		       "btrfs has made the pool of limited disks read-only, since it could not "
		       "write or found an error, as the kernel's log tells: stop all sandboxes "
		       "with limits.disk, then restart berth-keeper");
}

/* An empty one in the place of one that is missing would have its disks look new. */
static int make_image(struct pool *pool, bool may_make, struct err *err)
{
	int r = may_make ? pool_has_disks(pool->place.sandboxes_fd) : 0;

	if (!may_make)
		return err_set(err, -ENOENT, ERR_START_FAILED,
			       "its disk was in <state>/" POOL_IMAGE ", which is not there: put "
			       "it back, or delete the sandbox and make it anew");
	if (r > 0)
		return err_set(err, -ENOENT, ERR_START_FAILED,
			       "other sandboxes have their disks in <state>/" POOL_IMAGE ", which "
			       "is not there: put it back, or delete them");
	if (r < 0)
		return err_set(err, r, ERR_START_FAILED,
			       "whether disks are missing in the pool cannot be seen: %s",
			       strerror(-r));
	return pool_image_make(pool->place.state_fd, pool->mkfs, err);
}

static int open_image(struct pool *pool, bool may_make, struct err *err)
{
	struct stat st;

	pool->image_fd = dir_open_file(pool->place.state_fd, POOL_IMAGE, O_RDWR | O_NOFOLLOW, 0);
	if (pool->image_fd == -ENOENT) {
		int r = make_image(pool, may_make, err);

		if (r < 0)
			return r;
		pool->image_fd =
			dir_open_file(pool->place.state_fd, POOL_IMAGE, O_RDWR | O_NOFOLLOW, 0);
	}
	if (pool->image_fd < 0 || fstat(pool->image_fd, &st) < 0)
		return err_set(err, pool->image_fd < 0 ? pool->image_fd : -errno, ERR_START_FAILED,
			       "<state>/" POOL_IMAGE ", where limited disks are, cannot be opened: "
			       "%s",
			       strerror(pool->image_fd < 0 ? -pool->image_fd : errno));
	/* The kernel trusts what it mounts. */
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
		return err_set(err, -EPERM, ERR_START_FAILED,
			       "<state>/" POOL_IMAGE " is not the file that the keeper made: it "
			       "must be root's alone");
	return pool_image_fill(pool->image_fd, err);
}

/* Once for each time that it is opened. */
static void warn(const struct pool *pool)
{
	const char *risk = pool_image_risk(pool->image_fd);

	if (risk)
		log_warn("<state>/" POOL_IMAGE " %s, so writes of limited sandboxes may fail when "
			 "the host's disk is full, and btrfs is read-only from then on: see "
			 "README.md (Disks)",
			 risk);
}

/* Mounted read-only elsewhere, it can be mounted so here, too; what has another reason cannot. */
static bool is_read_only(const char *device)
{
	const struct mount_option options[] = {{"source", device}, {"ro", NULL}, {NULL, NULL}};
	struct err unused;
	cleanup_fd int mount = mount_make("btrfs", options, MOUNT_SAFE, &unused);

	return mount >= 0;
}

static int mount_pool(struct pool *pool, const char *device, struct err *err)
{
	const struct mount_option options[] = {
		{"source", device},
		{"nodiscard", NULL}, /* it would make holes in the image */
		{NULL, NULL},
	};
	cleanup_fd int mount = mount_make("btrfs", options, MOUNT_SAFE, err);
	int r = mount < 0 ? mount : mount_attach_below(mount, pool->place.run_fd, POINT, err);

	/* Its sandboxes have it mounted read-only: to write there is to disagree. */
	if (r == -EBUSY && is_read_only(device))
		return say_read_only(err);
	if (r < 0)
		return r;
	pool->is_mounted = true;
	/* The mount's own fd leads there, but is not open. */
	pool->root_fd = dir_open(mount, ".");
	r = pool->root_fd < 0 ? pool->root_fd : btrfs_enable_quota(pool->root_fd);
	if (r == -EROFS)
		return say_read_only(err);
	if (r < 0)
		return err_set(err, r, ERR_UNSUPPORTED, "this host's btrfs has no quotas: %s",
			       strerror(-r));
	r = pool->place.ids && *pool->place.ids ? pool_take_numbers(pool->root_fd, *pool->place.ids)
						: 0;
	return r < 0 ? err_set(err, r, ERR_START_FAILED,
			       "whose the disks in <state>/" POOL_IMAGE " are cannot be read: %s",
			       strerror(-r))
		     : 0;
}

static int attach_and_mount(struct pool *pool, struct err *err)
{
	char device[LOOP_DEVICE_PATH_MAX];

	pool->loop_fd = loop_device_open(pool->image_fd, POOL_IMAGE, device, err);
	if (pool->loop_fd < 0)
		return pool->loop_fd;
	/* One that was attached before may not know how long its file is by now. */
	loop_device_grow(pool->loop_fd);
	return mount_pool(pool, device, err);
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* All who want it would else have everybody wait for what fails. */
static void remember(struct pool *pool, int failed, const struct err *err)
{
	pool->failed = failed;
	pool->failure = *err;
	pool->retry_ms = now_ms() + RETRY_MS;
}

void pool_set_failed(struct pool *pool, const struct err *err)
{
	remember(pool, -EIO, err);
}

bool pool_is_unready(const struct pool *pool, bool may_make)
{
	cleanup_fd int fd = -1;

	if (pool->root_fd >= 0 || pool->lacks || now_ms() < pool->retry_ms)
		return false;
	fd = dir_open_file(pool->place.state_fd, POOL_IMAGE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
	/* Where one is missed, that is told at once. */
	if (fd == -ENOENT)
		return may_make && pool_has_disks(pool->place.sandboxes_fd) == 0;
	return fd >= 0 && !pool_image_is_whole(fd);
}

int pool_prepare(struct pool *pool, bool may_make, struct err *err)
{
	return open_image(pool, may_make, err);
}

int pool_check(const struct pool *pool, struct err *err)
{
	if (pool->root_fd >= 0 || !pool->lacks)
		return 0;
	return err_set(err, -EOPNOTSUPP, ERR_UNSUPPORTED, "this host cannot limit disks: %s",
		       pool->lacks);
}

int pool_open(struct pool *pool, bool may_make, struct err *err)
{
	int r = pool_check(pool, err);

	if (r < 0 || pool->root_fd >= 0)
		return r;
	if (now_ms() < pool->retry_ms) {
		*err = pool->failure;
		return pool->failed;
	}
	r = open_image(pool, may_make, err);
	if (r == 0)
		r = attach_and_mount(pool, err);
	if (r < 0) {
		/* That it is not there is seen at once, and by everybody. */
		if (r != -ENOENT)
			remember(pool, r, err);
		close_all(pool);
		return r;
	}
	warn(pool);
	pool_lost_find(&pool->place, pool->root_fd);
	pool->has_thrown = true; /* perhaps; a worker will see */
	return 0;
}

/* --- disks --- */

/* A mark that is not whole is of a start that the power ended. */
static int find_name(int disk, struct pool_disk *which)
{
	int r = pool_mark_read(disk, which->name);

	if (which->is_old || (r != -ENOENT && r != -EBADMSG))
		return r;
	if (r == -EBADMSG && unlinkat(disk, POOL_MARK, 0) < 0)
		return -errno;
	return pool_mark_make(disk, which->number, which->name);
}

/*
 * The mark first: what has a mark and no subvolume is a disk that nobody has written to, unless
 * somebody knows better. Nothing is destroyed here: nothing else has that name.
 */
static int find_disk(struct pool *pool, int disk, struct pool_disk *which)
{
	int r = find_name(disk, which);
	int fd = r < 0 ? r : dir_open(pool->root_fd, which->name);

	if (r < 0 || fd != -ENOENT)
		return fd;
	r = pool_lost_bring_back(pool->root_fd, which->name);
	if (r == -ENOENT && !which->is_old)
		r = btrfs_make_subvolume(pool->root_fd, which->name);
	return r < 0 ? r : dir_open(pool->root_fd, which->name);
}

static int cannot_open(const struct pool_disk *which, int r, struct err *err)
{
	if (r == -ENOSPC || r == -EDQUOT)
		return err_set(err, r, ERR_DISK_LIMIT,
			       "the pool of limited disks is full; if the host has room it grows "
			       "now: try again");
	if (r == -EROFS)
		return say_read_only(err);
	if (which->is_old && (r == -ENOENT || r == -EBADMSG))
		return err_set(err, r, ERR_START_FAILED,
			       "its part of <state>/" POOL_IMAGE " is missing: put back the "
			       "one that goes with its folder, or delete the sandbox and make it "
			       "anew");
	return err_set(err, r, ERR_START_FAILED, "cannot make the sandbox's disk: %s",
		       strerror(-r));
}

int pool_open_disk(struct pool *pool, int disk, struct pool_disk *which, struct err *err)
{
	cleanup_fd int fd = find_disk(pool, disk, which);
	int r;

	if (fd < 0)
		return cannot_open(which, fd, err);
	/* First, since a disk that has more than it may have cannot even be changed so. */
	r = btrfs_limit(pool->root_fd, fd, 0);
	if (r < 0 && r != -ENOSPC && r != -EDQUOT && r != -EROFS)
		return err_set(err, r, ERR_START_FAILED, "cannot lift the limit of its disk: %s",
			       strerror(-r));
	if (r == 0 && fchmod(fd, 0700) < 0)
		r = -errno;
	return r < 0 ? cannot_open(which, r, err) : take_fd(&fd);
}

int pool_limit_disk(struct pool *pool, const char *name, uint64_t bytes, struct err *err)
{
	cleanup_fd int fd = dir_open(pool->root_fd, name);
	int r = fd < 0 ? fd : btrfs_limit(pool->root_fd, fd, bytes);

	if (r == -EROFS)
		return say_read_only(err);
	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "cannot limit the sandbox's disk: %s",
			       strerror(-r));
	return 0;
}

int pool_remove_disk(int pool_fd, const char *name)
{
	int r = pool_lost_bring_back(pool_fd, name);

	return r < 0 && r != -ENOENT && r != -EEXIST ? r : btrfs_destroy_subvolume(pool_fd, name);
}

/* The bytes as the limit counts them, which knows how little small files take; files are counted.
 */
int pool_measure_disk(int pool_fd, const char *name, uint64_t *ret_bytes, uint64_t *ret_files)
{
	cleanup_fd int fd = -1;
	struct tree_usage usage;
	int r = tree_measure(pool_fd, name, &usage);

	if (r < 0)
		return r;
	fd = dir_open(pool_fd, name);
	*ret_files = usage.files;
	if (fd < 0 || btrfs_used(fd, ret_bytes) < 0)
		*ret_bytes = usage.bytes;
	return 0;
}

int pool_commit(int pool_fd)
{
	return btrfs_commit(pool_fd);
}

/* --- what goes --- */

static int move_to_gone(struct pool *pool, int disk, int upper, const char *name)
{
	cleanup_fd int gone = dir_make(disk, GONE, 0700);

	if (gone < 0)
		return gone;
	pool->has_thrown = true;
	for (unsigned i = 0;; i++) {
		char entry[16];

		snprintf(entry, sizeof(entry), "%u", i);
		if (renameat2(upper, name, gone, entry, 1 /* RENAME_NOREPLACE */) == 0)
			return 0;
		if (errno != EEXIST)
			return -errno;
	}
}

/* A worker that empties it removes the folder, too, perhaps just now. */
int pool_throw_away(struct pool *pool, int disk, int upper, const char *name)
{
	struct stat st;
	int r = -ENOENT;

	for (int i = 0; r == -ENOENT && i < GONE_TRIES; i++) {
		r = move_to_gone(pool, disk, upper, name);
		if (r == -ENOENT && fstatat(upper, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return errno == ENOENT ? 0 : -errno;
	}
	return r;
}

bool pool_has_thrown(const struct pool *pool)
{
	return pool && pool->root_fd >= 0 && pool->has_thrown;
}

void pool_set_thrown(struct pool *pool, bool has_thrown)
{
	pool->has_thrown = has_thrown;
}

int pool_empty_gone(int pool_fd)
{
	struct dirent **entries;
	int count = scandirat(pool_fd, ".", &entries, NULL, NULL), failed = count < 0;

	for (int i = 0; i < count; i++) {
		cleanup_fd int disk =
			entries[i]->d_name[0] == '.' ? -1 : dir_open(pool_fd, entries[i]->d_name);

		if (disk >= 0 && tree_remove(disk, GONE) < 0)
			failed = 1;
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
	return failed;
}

/* --- growth --- */

/*
 * A burst goes to memory as fast as that is, while growth waits for what is on its way to the disk:
 * so it is seconds ahead, as far as the host has room.
 */
static uint64_t ahead(const struct pool *pool)
{
	uint64_t part = pool_image_room(pool->image_fd) / 8;

	return part < AHEAD_MIN ? AHEAD_MIN : part > AHEAD_MAX ? AHEAD_MAX : part;
}

/* What should be unallocated: that is what a writer takes when nothing else is free. */
static uint64_t wanted(const struct pool *pool, uint64_t owed)
{
	uint64_t most = ahead(pool);

	return owed > most ? most : owed + owed / 8 + SLACK;
}

enum pool_room pool_room(const struct pool *pool, uint64_t owed)
{
	struct btrfs_room room;
	uint64_t want;

	if (pool->root_fd < 0 || btrfs_room(pool->root_fd, &room) < 0)
		return POOL_HAS_ALL; /* nothing that we could do about it */
	want = wanted(pool, owed);
	if (room.unallocated >= want && want >= owed)
		return POOL_HAS_ALL;
	return room.unallocated >= want / 2 ? POOL_HAS_ENOUGH : POOL_MUST_GROW;
}

uint64_t pool_trace(const struct pool *pool)
{
	struct btrfs_room room;
	struct statfs st;

	if (pool->root_fd < 0 || fstatfs(pool->root_fd, &st) < 0 ||
	    btrfs_room(pool->root_fd, &room) < 0)
		return 0;
	return (uint64_t)st.f_bfree * (uint64_t)st.f_bsize + room.unallocated;
}

/* What the image has, btrfs has, too: a worker may have died in between. */
static int take_all(struct pool *pool, struct btrfs_room *ret)
{
	struct stat st;
	int r = btrfs_room(pool->root_fd, ret);

	if (r == 0 && fstat(pool->image_fd, &st) < 0)
		r = -errno;
	if (r < 0 || ret->size + MIB > (uint64_t)st.st_size)
		return r;
	r = loop_device_grow(pool->loop_fd);
	if (r == 0)
		r = btrfs_grow(pool->root_fd);
	return r < 0 ? r : btrfs_room(pool->root_fd, ret);
}

int pool_grow(struct pool *pool, uint64_t owed)
{
	struct btrfs_room room;
	uint64_t want = wanted(pool, owed);
	int r = take_all(pool, &room);

	if (r < 0 || room.unallocated >= want)
		return r;
	r = pool_image_grow(pool->image_fd, want - room.unallocated);
	return r < 0 ? r : take_all(pool, &room);
}

void pool_fds(const struct pool *pool, int ret[POOL_FDS])
{
	ret[0] = pool->image_fd;
	ret[1] = pool->loop_fd;
	ret[2] = pool->root_fd;
}
