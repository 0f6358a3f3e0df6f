#include "container/pool_image.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "container/child.h"
#include "container/dir.h"

#define MIB         (1ULL << 20)
#define FIRST_SIZE  (256 * MIB)
#define LEAST_SIZE  (128 * MIB) /* btrfs itself wants 110 */
#define STEP        (16 * MIB)
#define KEEPS_MIN   (64 * MIB) /* the pool takes nobody's last block */
#define KEEPS_MAX   (16384 * MIB)
#define KEEPS_PART  50 /* of the file system */
#define NEW_IMAGE   POOL_IMAGE ".new"
#define MKFS_MS     60000
#define EXTENTS     64 /* looked at at a time */
#define ZFS_MAGIC   0x2fc12fc1U
#define SUPER_AT    0x10000 /* where a btrfs says what it is */
#define SUPER_MAGIC "_BHRfS_M"
#define FD_LOG      4 /* as container/child.c gives it */

uint64_t pool_image_room(int fd)
{
	struct statvfs st;
	uint64_t room, keeps;

	if (fstatvfs(fd, &st) < 0)
		return 0;
	room = (uint64_t)st.f_bavail * st.f_frsize;
	keeps = (uint64_t)st.f_blocks * st.f_frsize / KEEPS_PART;
	keeps = keeps < KEEPS_MIN ? KEEPS_MIN : keeps > KEEPS_MAX ? KEEPS_MAX : keeps;
	return room > keeps ? room - keeps : 0;
}

static int allocate(int fd, uint64_t from, uint64_t bytes)
{
	int r;

	do
		r = fallocate(fd, 0, (off_t)from, (off_t)bytes) < 0 ? -errno : 0;
	while (r == -EINTR);
	return r;
}

/* In the child: its words are on its standard error. */
static int say_to_log(const void *data)
{
	(void)data;
	return dup2(FD_LOG, STDERR_FILENO) < 0 ? -errno : 0;
}

static void read_words(int log, char *ret, size_t size)
{
	ssize_t n = pread(log, ret, size - 1, 0);

	ret[n > 0 ? n : 0] = '\0';
	ret[strcspn(ret, "\n")] = '\0';
}

static int run_mkfs(int state_fd, const char *mkfs, struct err *err)
{
	/*
	 * Data and metadata share their room ("-M"), so that neither can be short of it while the
	 * other has some; one copy of all suffices, as in any other file; and no discard, see
	 * pool.h.
	 */
	static const char *const argv[] = {"mkfs.btrfs", "-q", "-f",     "-K",      "-M", "-m",
					   "single",     "-d", "single", NEW_IMAGE, NULL};
	static const char *const envp[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", NULL};
	cleanup_fd int log = memfd_create("berth-mkfs-log", MFD_CLOEXEC);
	const struct child_program program = {
		.path = mkfs,
		.argv = argv,
		.envp = envp,
		.cwd_fd = state_fd,
		.cgroup_fd = -1,
		.log_fd = log,
		.passed_fd = -1,
		.setup = log < 0 ? NULL : say_to_log,
	};
	char words[256] = "";
	pid_t pid;
	cleanup_fd int pidfd = child_start(&program, &pid);
	int status = pidfd < 0 ? pidfd : child_wait(pid, pidfd, MKFS_MS);

	if (status == 0)
		return 0;
	if (log >= 0)
		read_words(log, words, sizeof(words));
	return err_set(err, status < 0 ? status : -EIO, ERR_START_FAILED,
		       "%s could not make the pool of limited disks: %s", mkfs,
		       status < 0 ? strerror(-status)
		       : *words   ? words
				  : "it said nothing");
}

static int make_new(int state_fd, const char *mkfs, struct err *err)
{
	/* What a keeper that died has left goes: another file may be behind that name. */
	int gone = unlinkat(state_fd, NEW_IMAGE, 0) < 0 && errno != ENOENT ? -errno : 0;
	cleanup_fd int fd =
		gone < 0 ? gone
			 : dir_open_file(state_fd, NEW_IMAGE, O_RDWR | O_CREAT | O_EXCL, 0600);
	uint64_t size = pool_image_room(state_fd) < FIRST_SIZE ? LEAST_SIZE : FIRST_SIZE;
	int flags = 0, r = fd < 0 ? fd : fchmod(fd, 0600) < 0 ? -errno : 0;

	/* On a btrfs of the host each write would need new blocks. Others know no such flag. */
	if (r == 0 && ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0) {
		flags |= FS_NOCOW_FL;
		ioctl(fd, FS_IOC_SETFLAGS, &flags);
	}
	if (r == 0)
		r = pool_image_room(state_fd) < size ? -ENOSPC : allocate(fd, 0, size);
	if (r == -ENOSPC || r == -EDQUOT)
		return err_set(err, r, ERR_DISK_LIMIT,
			       "the host's disk has no room for the pool of limited disks, which "
			       "begins with %llu MiB",
			       LEAST_SIZE / MIB);
	if (r == -EOPNOTSUPP)
		return err_set(err, r, ERR_UNSUPPORTED,
			       "this host cannot limit disks: the file system of the state "
			       "directory cannot reserve blocks (fallocate)");
	if (r < 0)
		return err_set(err, r, ERR_START_FAILED, "<state>/" NEW_IMAGE ": %s", strerror(-r));
	r = run_mkfs(state_fd, mkfs, err);
	if (r == 0 && fsync(fd) < 0)
		r = err_set(err, -errno, ERR_START_FAILED, "<state>/" NEW_IMAGE ": %s",
			    strerror(errno));
	return r;
}

int pool_image_make(int state_fd, const char *mkfs, struct err *err)
{
	int r = make_new(state_fd, mkfs, err);

	if (r == 0 && (renameat2(state_fd, NEW_IMAGE, state_fd, POOL_IMAGE, RENAME_NOREPLACE) < 0 ||
		       fsync(state_fd) < 0))
		r = err_set(err, -errno, ERR_START_FAILED, "<state>/" POOL_IMAGE ": %s",
			    strerror(errno));
	if (r < 0)
		unlinkat(state_fd, NEW_IMAGE, 0);
	return r;
}

/* As btrfs knows it, which mounts nothing that is shorter; 0 if it does not say. */
static uint64_t known_size(int fd)
{
	uint64_t known;
	char magic[sizeof(SUPER_MAGIC) - 1];

	if (pread(fd, magic, sizeof(magic), SUPER_AT + 0x40) != sizeof(magic) ||
	    memcmp(magic, SUPER_MAGIC, sizeof(magic)) != 0 ||
	    pread(fd, &known, sizeof(known), SUPER_AT + 0x70) != sizeof(known))
		return 0;
	return le64toh(known);
}

/*
 * A copy of it has the same blocks (`cp --reflink`, a snapshot): a write there takes new ones,
 * which the host may not have. What cannot be seen is taken for its own.
 */
static bool is_shared(int fd)
{
	size_t size = sizeof(struct fiemap) + EXTENTS * sizeof(struct fiemap_extent);
	cleanup_free struct fiemap *map = malloc(size);
	uint64_t from = 0;

	while (map) {
		const struct fiemap_extent *last;

		memset(map, 0, size);
		map->fm_start = from;
		map->fm_length = FIEMAP_MAX_OFFSET - from;
		map->fm_extent_count = EXTENTS;
		if (ioctl(fd, FS_IOC_FIEMAP, map) < 0 || map->fm_mapped_extents == 0)
			return false;
		for (unsigned i = 0; i < map->fm_mapped_extents; i++)
			if (map->fm_extents[i].fe_flags & FIEMAP_EXTENT_SHARED)
				return true;
		last = &map->fm_extents[map->fm_mapped_extents - 1];
		if (last->fe_flags & FIEMAP_EXTENT_LAST)
			return false;
		from = last->fe_logical + last->fe_length;
	}
	return false;
}

/* Where the file system cannot do that, pool_image_risk() tells. */
static int unshare_blocks(int fd, uint64_t size)
{
	int r;

	if (!is_shared(fd))
		return 0;
	do
		r = fallocate(fd, FALLOC_FL_UNSHARE_RANGE, 0, (off_t)size) < 0 ? -errno : 0;
	while (r == -EINTR);
	return r == -EOPNOTSUPP || r == -EINVAL ? 0 : r;
}

const char *pool_image_risk(int fd)
{
	struct statfs st;
	int flags = 0;

	if (fstatfs(fd, &st) == 0 && (uint32_t)st.f_type == ZFS_MAGIC)
		return "is on zfs, which reserves no blocks";
	if (is_shared(fd))
		return "shares blocks with a copy or a snapshot of it";
	if (fstatfs(fd, &st) == 0 && (uint32_t)st.f_type == BTRFS_SUPER_MAGIC &&
	    (ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0 || !(flags & FS_NOCOW_FL)))
		return "is on btrfs without the attribute C (chattr), so each write takes new "
		       "blocks";
	return NULL;
}

bool pool_image_is_whole(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && known_size(fd) <= (uint64_t)st.st_size &&
	       (uint64_t)st.st_blocks * 512 >= (uint64_t)st.st_size && !is_shared(fd);
}

int pool_image_fill(int fd, struct err *err)
{
	struct stat st;
	uint64_t size, known = known_size(fd);
	int r = fstat(fd, &st) < 0 ? -errno : 0;

	size = r < 0 ? 0 : (uint64_t)st.st_size;
	if (r == 0 && known > size && known - size > pool_image_room(fd))
		r = -ENOSPC;
	else if (r == 0 && (known > size || (uint64_t)st.st_blocks * 512 < size))
		r = allocate(fd, 0, known > size ? known : size);
	if (r == 0)
		r = unshare_blocks(fd, known > size ? known : size);
	if (r < 0)
		return err_set(err, r, r == -ENOSPC ? ERR_DISK_LIMIT : ERR_START_FAILED,
			       "not all blocks of <state>/" POOL_IMAGE " can be had: %s",
			       strerror(-r));
	return 0;
}

int pool_image_grow(int fd, uint64_t bytes)
{
	uint64_t room = pool_image_room(fd), done;
	struct stat st;
	int r;

	bytes = (bytes + STEP - 1) / STEP * STEP;
	/* Not all at once: others need some, too, and what it has taken it never gives back. */
	if (bytes > room / 2)
		bytes = room / 2 / STEP * STEP;
	if (bytes == 0)
		return -ENOSPC;
	if (fstat(fd, &st) < 0)
		return -errno;
	/* It is never cut: somebody may have told btrfs how long it is. */
	for (done = 0, r = 0; done < bytes && r == 0; done += r == 0 ? STEP : 0)
		r = allocate(fd, (uint64_t)st.st_size + done, STEP);
	return done ? 0 : r;
}
