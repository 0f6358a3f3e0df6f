#include "container/pool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "container/btrfs.h"
#include "container/dir.h"
#include "container/mount.h"
#include "container/ids.h"
#include "container/loop_device.h"
#include "container/pool_image.h"
#include "container/tree.h"

#define MIB       (1ULL << 20)
#define POINT     ".pool"
#define POOLED    "pooled"
#define GONE      "gone"
#define AHEAD_MIN (1024 * MIB)
#define AHEAD_MAX (16384 * MIB)
#define SLACK     (32 * MIB) /* for what btrfs needs itself */
#define NAME_LEN  16

struct pool {
	struct pool_place place;
	const char *lacks;
	char mkfs[PATH_MAX];
	bool is_there, is_mounted, has_thrown;
	int image_fd, loop_fd, root_fd;
};

int pool_new(struct pool **ret, const struct pool_place *place, const struct host_facts *facts)
{
	struct pool *pool = calloc(1, sizeof(*pool));
	struct stat st;

	if (!pool)
		return -ENOMEM;
	pool->place = *place;
	pool->image_fd = pool->loop_fd = pool->root_fd = -1;
	pool->is_there = fstatat(place->state_fd, POOL_IMAGE, &st, AT_SYMLINK_NOFOLLOW) == 0;
	pool->lacks = host_lacks_for_disks(facts, pool->is_there);
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
	return pool && pool->is_there;
}

const char *pool_lacks(const struct pool *pool)
{
	return pool->lacks;
}

int pool_fd(const struct pool *pool)
{
	return pool ? pool->root_fd : -1;
}

/* --- opening --- */

static void name_of(uint32_t number, char ret[NAME_LEN])
{
	snprintf(ret, NAME_LEN, "%u", number);
}

static int note_owner(int dir, const char *name, bool *owned)
{
	cleanup_fd int disk = dir_open(dir, name);
	uint64_t number;
	int r;

	/* A file in the trash is no disk. */
	if (disk < 0)
		return disk == -ENOTDIR || disk == -ELOOP || disk == -ENOENT ? 0 : disk;
	if (!pool_has_disk(disk))
		return 0;
	r = dir_read_number(disk, "range", &number);
	if (r == 0 && number < IDS_RANGES)
		owned[number] = true;
	return r;
}

/* Disks that say that they are here, by the ranges that they have. */
static int find_owners(int dir, bool *owned, bool is_trash)
{
	struct dirent **entries;
	int count = scandirat(dir, ".", &entries, NULL, NULL), r = count < 0 ? -errno : 0;

	for (int i = 0; i < count; i++) {
		const char *name = entries[i]->d_name;

		if (r == 0 && name[0] != '.') {
			r = note_owner(dir, name, owned);
		} else if (r == 0 && !is_trash && strcmp(name, ".trash") == 0) {
			cleanup_fd int trash = dir_open(dir, name);

			r = trash < 0 ? trash : find_owners(trash, owned, true);
		}
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
	return r;
}

/*
 * Subvolumes that belong to nobody: somebody has removed a sandbox's folder by hand, or the power
 * failed. When it is not certain whose one is, all stay.
 */
static void remove_unowned(struct pool *pool)
{
	cleanup_free bool *owned = calloc(IDS_RANGES, sizeof(*owned));
	struct dirent **entries;
	int count;

	if (!owned || find_owners(pool->place.sandboxes_fd, owned, false) < 0)
		return;
	count = scandirat(pool->root_fd, ".", &entries, NULL, NULL);
	for (int i = 0; i < count; i++) {
		const char *name = entries[i]->d_name;
		bool is_number = *name && strspn(name, "0123456789") == strlen(name);

		if (is_number &&
		    (strlen(name) > 5 || atoi(name) >= (int)IDS_RANGES || !owned[atoi(name)]))
			btrfs_destroy_subvolume(pool->root_fd, name);
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
}

static int open_image(struct pool *pool, bool may_make, struct err *err)
{
	struct stat st;
	int r;

	pool->image_fd = dir_open_file(pool->place.state_fd, POOL_IMAGE, O_RDWR | O_NOFOLLOW, 0);
	if (pool->image_fd == -ENOENT && may_make) {
		r = pool_image_make(pool->place.state_fd, pool->mkfs, err);
		if (r < 0)
			return r;
		pool->is_there = true;
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

static int mount_pool(struct pool *pool, const char *device, struct err *err)
{
	const struct mount_option options[] = {
		{"source", device},
		{"nodiscard", NULL}, /* it would make holes in the image */
		{NULL, NULL},
	};
	cleanup_fd int mount = mount_make("btrfs", options, MOUNT_SAFE, err);
	struct btrfs_room room;
	struct stat st;
	int r = mount < 0 ? mount : mount_attach_below(mount, pool->place.run_fd, POINT, err);

	if (r < 0)
		return r;
	pool->is_mounted = true;
	/* The mount's own fd leads there, but is not open. */
	pool->root_fd = dir_open(mount, ".");
	r = pool->root_fd < 0 ? pool->root_fd : btrfs_enable_quota(pool->root_fd);
	if (r < 0)
		return err_set(err, r, ERR_UNSUPPORTED, "this host's btrfs has no quotas: %s",
			       strerror(-r));
	/* A keeper may have died between the image's growth and that of what is in it. */
	if (btrfs_room(pool->root_fd, &room) == 0 && fstat(pool->image_fd, &st) == 0 &&
	    room.size + MIB <= (uint64_t)st.st_size && loop_device_grow(pool->loop_fd) == 0)
		btrfs_grow(pool->root_fd);
	return 0;
}

int pool_open(struct pool *pool, bool may_make, struct err *err)
{
	char device[LOOP_DEVICE_PATH_MAX];
	int r;

	if (pool->root_fd >= 0)
		return 0;
	if (pool->lacks)
		return err_set(err, -EOPNOTSUPP, ERR_UNSUPPORTED,
			       "this host cannot limit disks: %s", pool->lacks);
	r = open_image(pool, may_make, err);
	if (r == 0) {
		pool->loop_fd = loop_device_open(pool->image_fd, POOL_IMAGE, device, err);
		r = pool->loop_fd < 0 ? pool->loop_fd : mount_pool(pool, device, err);
	}
	if (r < 0) {
		close_all(pool);
		return r;
	}
	remove_unowned(pool);
	pool->has_thrown = true; /* perhaps; a worker will see */
	return 0;
}

/* --- disks --- */

bool pool_has_disk(int disk)
{
	struct stat st;

	return fstatat(disk, POOLED, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* The mark first: what has a mark and no subvolume is a disk that nobody has written to. */
static int make_disk(struct pool *pool, int disk, const char *name)
{
	cleanup_fd int mark = -1;
	int r;

	if (!pool_has_disk(disk)) {
		r = btrfs_destroy_subvolume(pool->root_fd, name);
		mark = r < 0 ? r : dir_open_file(disk, POOLED, O_WRONLY | O_CREAT | O_EXCL, 0600);
		if (mark < 0)
			return mark;
	}
	r = btrfs_make_subvolume(pool->root_fd, name);
	return r == -EEXIST ? 0 : r;
}

int pool_open_disk(struct pool *pool, int disk, uint32_t number, struct err *err)
{
	cleanup_fd int fd = -1;
	struct btrfs_room room;
	char name[NAME_LEN];
	int r;

	/* The workers are ahead of this, unless the host had no room for a while. */
	if (btrfs_room(pool->root_fd, &room) == 0 && room.unallocated < SLACK)
		pool_grow(pool, SLACK);
	name_of(number, name);
	r = make_disk(pool, disk, name);
	fd = r < 0 ? r : dir_open(pool->root_fd, name);
	/* First, since a disk that has more than it may have cannot even be changed so. */
	r = fd < 0 ? fd : btrfs_limit(pool->root_fd, fd, 0);
	if (r == 0 && fchmod(fd, 0700) < 0)
		r = -errno;
	if (r == -ENOSPC || r == -EDQUOT)
		return err_set(err, r, ERR_DISK_LIMIT,
			       "the pool of limited disks is full, and the host has no room to let "
			       "it grow");
	if (r < 0)
		return err_set(err, r, ERR_START_FAILED, "cannot make the sandbox's disk: %s",
			       strerror(-r));
	return take_fd(&fd);
}

int pool_limit_disk(struct pool *pool, uint32_t number, uint64_t bytes, struct err *err)
{
	cleanup_fd int fd = -1;
	char name[NAME_LEN];
	int r;

	name_of(number, name);
	fd = dir_open(pool->root_fd, name);
	r = fd < 0 ? fd : btrfs_limit(pool->root_fd, fd, bytes);
	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "cannot limit the sandbox's disk: %s",
			       strerror(-r));
	return 0;
}

int pool_remove_disk(int pool_fd, uint32_t number)
{
	char name[NAME_LEN];

	name_of(number, name);
	return btrfs_destroy_subvolume(pool_fd, name);
}

/* The bytes as the limit counts them, which knows how little small files take; files are counted.
 */
int pool_measure_disk(int pool_fd, uint32_t number, uint64_t *ret_bytes, uint64_t *ret_files)
{
	cleanup_fd int fd = -1;
	struct tree_usage usage;
	char name[NAME_LEN];
	int r;

	name_of(number, name);
	r = tree_measure(pool_fd, name, &usage);
	if (r < 0)
		return r;
	fd = dir_open(pool_fd, name);
	*ret_files = usage.files;
	if (fd < 0 || btrfs_used(fd, ret_bytes) < 0)
		*ret_bytes = usage.bytes;
	return 0;
}

/* --- what goes --- */

int pool_throw_away(struct pool *pool, int disk, int upper, const char *name)
{
	cleanup_fd int gone = dir_make(disk, GONE, 0700);

	if (gone < 0)
		return gone;
	pool->has_thrown = true;
	for (unsigned i = 0;; i++) {
		char entry[NAME_LEN];

		name_of(i, entry);
		if (renameat2(upper, name, gone, entry, 1 /* RENAME_NOREPLACE */) == 0 ||
		    errno == ENOENT)
			return 0;
		if (errno != EEXIST)
			return -errno;
	}
}

bool pool_has_thrown(const struct pool *pool)
{
	return pool && pool->root_fd >= 0 && pool->has_thrown;
}

void pool_is_swept(struct pool *pool)
{
	pool->has_thrown = false;
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

int pool_grow(struct pool *pool, uint64_t owed)
{
	struct btrfs_room room;
	uint64_t want = wanted(pool, owed);
	int r = btrfs_room(pool->root_fd, &room);

	if (r < 0 || room.unallocated >= want)
		return r;
	r = pool_image_grow(pool->image_fd, want - room.unallocated);
	if (r == 0)
		r = loop_device_grow(pool->loop_fd);
	return r < 0 ? r : btrfs_grow(pool->root_fd);
}

void pool_fds(const struct pool *pool, int ret[POOL_FDS])
{
	ret[0] = pool->image_fd;
	ret[1] = pool->loop_fd;
	ret[2] = pool->root_fd;
}
