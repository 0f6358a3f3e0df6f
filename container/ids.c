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
#include "proto/sandbox_id.h"

/* Of each range, whether somebody has it, and which sandbox's folder says so; "": none that could
 * be started. */
struct table {
	bool taken[IDS_RANGES];
	struct sandbox_id owners[IDS_RANGES];
};

struct ids {
	int sandboxes_fd;
	bool is_rootless;
	uint32_t ids_mapped;
	uint32_t next; /* where to look first: a number comes back as late as possible */
	struct table *table;
	bool adopted[IDS_RANGES];
};

static void close_dirp(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

static void own(struct table *table, uint32_t range, const char *name)
{
	struct sandbox_id *owner = &table->owners[range];

	table->taken[range] = true;
	if (sandbox_id_is_valid(str_of(name)))
		snprintf(owner->text, sizeof(owner->text), "%.*s", SANDBOX_ID_MAX, name);
}

/* A disk without a range has no files yet; one with nonsense is not started, so nothing is. */
static int scan_one(struct table *table, int dir, const char *name, bool is_trash)
{
	char path[NAME_MAX + 16];
	uint64_t range;
	int r;

	snprintf(path, sizeof(path), "%s/range", name);
	r = dir_read_number(dir, path, &range);
	if (r == 0 && range < IDS_RANGES && (is_trash || table->owners[range].text[0]))
		table->taken[range] = true;
	else if (r == 0 && range < IDS_RANGES)
		own(table, (uint32_t)range, name);
	/* A file in the trash is no disk, and a symlink anywhere neither. */
	return r == -ENOENT || r == -ENOTDIR || r == -ELOOP || r == -EINVAL ? 0 : r;
}

/* Disks that are being removed (".trash") hold their range until their last file is gone. */
static int scan_dir(struct table *table, int parent, const char *name, int depth)
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
			r = scan_dir(table, dirfd(dir), entry->d_name, 1);
		else if (entry->d_name[0] != '.')
			r = scan_one(table, dirfd(dir), entry->d_name, depth > 0);
		if (r < 0)
			return r;
	}
	return -errno;
}

/* A scan that failed has changed nothing: what is unknown must not look free. */
static int scan(struct ids *ids)
{
	cleanup_free struct table *table = calloc(1, sizeof(*table));
	int r;

	if (!table)
		return -ENOMEM;
	memcpy(table->taken, ids->adopted, sizeof(table->taken));
	r = scan_dir(table, ids->sandboxes_fd, ".", 0);
	if (r < 0)
		return r;
	free(ids->table);
	ids->table = take(table);
	return 0;
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
	if (ids)
		free(ids->table);
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
		if (!ids->table->taken[(ids->next + i) % IDS_RANGES])
			return (ids->next + i) % IDS_RANGES;
	return IDS_RANGES;
}

static int record(struct ids *ids, int sandbox_fd, const char *id, uint32_t range)
{
	char text[16];
	int r;

	snprintf(text, sizeof(text), "%u\n", range);
	r = dir_replace(sandbox_fd, "range", str_of(text), 0600);
	if (r == 0 && !ids->is_rootless) {
		own(ids->table, range, id);
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
	if (range < IDS_RANGES && !ids->is_rootless)
		ids->table->taken[range] = ids->adopted[range] = true;
}

/* A copy of a folder, or one that was away while its number was given to another. */
static int check_alone(struct ids *ids, const char *id, uint32_t range, struct err *err)
{
	const char *owner = ids->table->owners[range].text;
	char path[SANDBOX_ID_MAX + 16];
	uint64_t now;
	int r;

	if (*owner && strcmp(owner, id) != 0) {
		snprintf(path, sizeof(path), "%s/range", owner);
		r = dir_read_number(ids->sandboxes_fd, path, &now);
		if (r < 0 && r != -ENOENT && r != -ENOTDIR && r != -ELOOP && r != -EINVAL)
			return err_set(err, r, ERR_START_FAILED,
				       "which user ids are taken cannot be read: %s", strerror(-r));
		if (r == 0 && now == range)
			return err_set(err, -ENOTUNIQ, ERR_CONFLICT,
				       "its folder and that of sandbox \"%s\" say that they have "
				       "the same user ids (<state>/sandboxes/%s/range), as a copy "
				       "does, or one that was put back too late: delete or move "
				       "away one of them",
				       owner, owner);
	}
	own(ids->table, range, id);
	return 0;
}

int ids_assign(struct ids *ids, int sandbox_fd, const char *id, uint32_t *ret, struct err *err)
{
	uint64_t known;
	uint32_t range = 0;
	int r = dir_read_number(sandbox_fd, "range", &known);

	if (r == 0 && known < (ids->is_rootless ? 1 : IDS_RANGES)) {
		*ret = (uint32_t)known;
		return ids->is_rootless ? 0 : check_alone(ids, id, (uint32_t)known, err);
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
	r = record(ids, sandbox_fd, id, range);
	if (r < 0)
		return err_set(err, r, ERR_START_FAILED, "cannot record the sandbox's user ids: %s",
			       strerror(-r));
	*ret = range;
	return 0;
}
