#include "container/ids.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "container/dir.h"
#include "container/pool_mark.h"

struct ids {
	int sandboxes_fd;
	bool is_rootless;
	uint32_t ids_mapped;
	uint32_t next; /* where to look first: a number comes back as late as possible */
	bool taken[IDS_RANGES], adopted[IDS_RANGES];
};

static void close_dirp(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

/* A disk without a range has no files yet; one with nonsense is not started, so nothing is. */
static int scan_one(bool *taken, int dir, const char *name)
{
	char path[NAME_MAX + 16];
	uint64_t range;
	int r;

	snprintf(path, sizeof(path), "%s/range", name);
	r = dir_read_number(dir, path, &range);
	if (r == 0 && range < IDS_RANGES)
		taken[range] = true;
	/* A file in the trash is no disk, and a symlink anywhere neither. */
	return r == -ENOENT || r == -ENOTDIR || r == -ELOOP || r == -EINVAL ? 0 : r;
}

/* Disks that are being removed (".trash") hold their range until their last file is gone. */
static int scan_dir(bool *taken, int parent, const char *name, int depth)
{
	int fd = dir_open(parent, name);
	cleanup(close_dirp) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!dir) {
		int error = fd < 0 ? fd : -errno;

		if (fd >= 0)
			close(fd);
		return error;
	}
	while ((errno = 0, entry = readdir(dir))) {
		int r = 0;

		if (strcmp(entry->d_name, ".trash") == 0 && depth == 0)
			r = scan_dir(taken, dirfd(dir), entry->d_name, 1);
		else if (entry->d_name[0] != '.')
			r = scan_one(taken, dirfd(dir), entry->d_name);
		if (r < 0)
			return r;
	}
	return -errno;
}

/* A scan that failed has changed nothing: what is unknown must not look free. */
static int scan(struct ids *ids)
{
	bool taken[IDS_RANGES];
	int r;

	memcpy(taken, ids->adopted, sizeof(taken));
	r = scan_dir(taken, ids->sandboxes_fd, ".", 0);

	if (r == 0)
		memcpy(ids->taken, taken, sizeof(taken));
	return r;
}

int ids_new(struct ids **ret, int sandboxes_fd, bool is_rootless, uint32_t ids_mapped)
{
	cleanup_free struct ids *ids = calloc(1, sizeof(*ids));
	int r;

	if (!ids)
		return -ENOMEM;
	ids->sandboxes_fd = sandboxes_fd;
	ids->is_rootless = is_rootless;
	ids->ids_mapped = ids_mapped;
	r = is_rootless ? 0 : scan(ids);
	if (r < 0)
		return r;
	*ret = take(ids);
	return 0;
}

void ids_free(struct ids *ids)
{
	free(ids);
}

bool ids_has_ranges(const struct ids *ids)
{
	return !ids->is_rootless;
}

struct id_map ids_map(const struct ids *ids, uint32_t range)
{
	if (!ids->is_rootless)
		return (struct id_map){IDS_FIRST + range * IDS_PER_RANGE, IDS_PER_RANGE};
	if (ids->ids_mapped < 2)
		return (struct id_map){0, 1};
	return (struct id_map){1, ids->ids_mapped - 1 < IDS_PER_RANGE ? ids->ids_mapped - 1
								      : IDS_PER_RANGE};
}

/* The next free one, or IDS_RANGES. */
static uint32_t find_free(const struct ids *ids)
{
	for (uint32_t i = 0; i < IDS_RANGES; i++)
		if (!ids->taken[(ids->next + i) % IDS_RANGES])
			return (ids->next + i) % IDS_RANGES;
	return IDS_RANGES;
}

static int record(struct ids *ids, int sandbox_fd, uint32_t range)
{
	char text[16];
	int r;

	snprintf(text, sizeof(text), "%u\n", range);
	r = dir_replace(sandbox_fd, "range", str_of(text), 0600);
	if (r == 0) {
		ids->taken[range] = true;
		ids->next = (range + 1) % IDS_RANGES;
	}
	return r;
}

/* Here or in the pool: files belong to a range that is not known any more. */
static bool has_disk(int sandbox_fd)
{
	struct stat st;

	return fstatat(sandbox_fd, "upper", &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT ||
	       pool_has_disk(sandbox_fd) != 0;
}

void ids_take(struct ids *ids, uint32_t range)
{
	if (range < IDS_RANGES)
		ids->taken[range] = ids->adopted[range] = true;
}

int ids_assign(struct ids *ids, int sandbox_fd, uint32_t *ret, struct err *err)
{
	uint64_t known;
	uint32_t range = 0;
	int r = dir_read_number(sandbox_fd, "range", &known);

	if (r == 0 && known < (ids->is_rootless ? 1 : IDS_RANGES)) {
		*ret = (uint32_t)known;
		return 0;
	}
	if (r != -ENOENT || has_disk(sandbox_fd))
		return err_set(err, r == 0 || r == -ENOENT ? -EINVAL : r, ERR_START_FAILED,
			       "the sandbox's disk does not say which user ids it belongs to");
	if (!ids->is_rootless) {
		range = find_free(ids);
		/* What was removed since we looked is known only to the file system. */
		r = range == IDS_RANGES ? scan(ids) : 0;
		if (r < 0)
			return err_set(err, r, ERR_START_FAILED,
				       "which user ids are taken cannot be read: %s", strerror(-r));
		range = find_free(ids);
		if (range == IDS_RANGES)
			return err_set(err, -ENOSPC, ERR_CAPACITY_EXCEEDED,
				       "all %u ranges of user ids are taken", IDS_RANGES);
	}
	r = record(ids, sandbox_fd, range);
	if (r < 0)
		return err_set(err, r, ERR_START_FAILED, "cannot record the sandbox's user ids: %s",
			       strerror(-r));
	*ret = range;
	return 0;
}
