#include "container/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "container/dir.h"

#define REMOVE_DEPTH_MAX  48
#define MEASURE_DEPTH_MAX 1024

/* The open directories from the top to where we are. */
struct descent {
	unsigned depth;
	DIR *dirs[MEASURE_DEPTH_MAX];
	char names[REMOVE_DEPTH_MAX + 1][NAME_MAX + 1]; /* by which the removed ones were entered */
};

static int enter(struct descent *descent, int parent, const char *name)
{
	int fd = dir_open_here(parent, name);
	DIR *dir;

	/* A directory without permissions opens for root; rootless its owner is one of our ids. */
	if (fd < 0)
		return fd;
	dir = fdopendir(fd);
	if (!dir) {
		int error = -errno;

		close(fd);
		return error;
	}
	descent->dirs[descent->depth++] = dir;
	return 0;
}

static void leave(struct descent *descent)
{
	closedir(descent->dirs[--descent->depth]);
}

static void leave_all(struct descent *descent)
{
	while (descent->depth)
		leave(descent);
}

static struct dirent *next_entry(DIR *dir)
{
	struct dirent *entry;

	do
		entry = readdir(dir);
	while (entry && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0));
	return entry;
}

/*
 * Takes one entry of the innermost directory away: unlinks it, enters it, or, very deep down, moves
 * it up beside the top, to be met there later. 1: the directory is empty.
 */
static int remove_one(struct descent *descent, unsigned *moved)
{
	DIR *here = descent->dirs[descent->depth - 1];
	struct dirent *entry;
	char name[64];
	int r;

	errno = 0;
	entry = next_entry(here);
	if (!entry)
		return errno ? -errno : 1;
	if (unlinkat(dirfd(here), entry->d_name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	if (unlinkat(dirfd(here), entry->d_name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	if (errno != ENOTEMPTY && errno != EEXIST)
		return -errno;
	if (descent->depth < REMOVE_DEPTH_MAX) {
		snprintf(descent->names[descent->depth], sizeof(descent->names[0]), "%s",
			 entry->d_name);
		return enter(descent, dirfd(here), entry->d_name);
	}
	/* The names of the tree's own entries are unknown: try until one is free. */
	do {
		snprintf(name, sizeof(name), ".deep-%u", (*moved)++);
		r = renameat2(dirfd(here), entry->d_name, dirfd(descent->dirs[0]), name,
			      1 /* RENAME_NOREPLACE */);
	} while (r < 0 && errno == EEXIST);
	return r < 0 ? -errno : 0;
}

/* Out of an emptied directory, and away with it. What was moved up meanwhile comes later. */
static int leave_and_remove(struct descent *descent)
{
	const char *name = descent->names[descent->depth - 1];

	leave(descent);
	if (!descent->depth)
		return 0;
	if (unlinkat(dirfd(descent->dirs[descent->depth - 1]), name, AT_REMOVEDIR) == 0 ||
	    errno == ENOTEMPTY || errno == EEXIST || errno == ENOENT)
		return 0;
	return -errno;
}

/* Empties the tree as far as one pass sees it. */
static int remove_pass(struct descent *descent, int dir, const char *name, unsigned *moved)
{
	int r = enter(descent, dir, name);

	while (r == 0 && descent->depth) {
		r = remove_one(descent, moved);
		if (r == 1)
			r = leave_and_remove(descent);
	}
	leave_all(descent);
	return r;
}

int tree_remove(int dir, const char *name)
{
	struct descent descent;
	unsigned moved = 0;

	descent.depth = 0;
	for (;;) {
		int r;

		if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
			return 0;
		if (errno != EISDIR && errno != EPERM)
			return -errno;
		if (unlinkat(dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
			return 0;
		if (errno != ENOTEMPTY && errno != EEXIST)
			return -errno;
		r = remove_pass(&descent, dir, name, &moved);
		if (r < 0 && r != -ENOENT)
			return r;
	}
}

static int measure_one(struct descent *descent, struct tree_usage *ret)
{
	DIR *here = descent->dirs[descent->depth - 1];
	struct dirent *entry;
	struct stat st;
	int r;

	errno = 0;
	entry = next_entry(here);
	if (!entry)
		return errno ? -errno : 1;
	if (fstatat(dirfd(here), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	ret->files++;
	/* Hard links share: each of them is charged its part. */
	ret->bytes += (uint64_t)st.st_blocks * 512 /
		      (S_ISDIR(st.st_mode) || st.st_nlink == 0 ? 1 : st.st_nlink);
	if (!S_ISDIR(st.st_mode) || descent->depth == MEASURE_DEPTH_MAX)
		return 0;
	r = enter(descent, dirfd(here), entry->d_name);
	/* It may be gone or another thing by now, or a mount: not ours to count. */
	if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP || r == -EXDEV)
		return 0;
	/* Each folder on the way holds one. */
	return r == -EMFILE ? 0 : r;
}

int tree_measure(int dir, const char *name, struct tree_usage *ret)
{
	struct descent descent;
	int r;

	descent.depth = 0;
	*ret = (struct tree_usage){0};
	r = enter(&descent, dir, name);
	while (r == 0 && descent.depth) {
		r = measure_one(&descent, ret);
		if (r == 1) {
			leave(&descent);
			r = 0;
		}
	}
	leave_all(&descent);
	return r;
}
