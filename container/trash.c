#include "container/trash.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "container/dir.h"
#include "container/tree.h"

#define TRASH ".trash"

int trash_open(const struct container_host *host)
{
	return dir_make(host->sandboxes_fd, TRASH, 0700);
}

int trash_move(int trash_fd, int dir, const char *name, const char *id)
{
	for (unsigned i = 0;; i++) {
		char entry[128];

		snprintf(entry, sizeof(entry), "%s-%u", id, i);
		if (renameat2(dir, name, trash_fd, entry, 1 /* RENAME_NOREPLACE */) == 0 ||
		    errno == ENOENT)
			return 0;
		if (errno != EEXIST)
			return -errno;
	}
}

bool trash_is_empty(int trash_fd)
{
	int fd = dir_open(trash_fd, ".");
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry = NULL;

	if (!dir) {
		close_fdp(&fd);
		return true;
	}
	while ((entry = readdir(dir)) && entry->d_name[0] == '.')
		;
	closedir(dir);
	return !entry;
}

static bool is_of(const char *entry, const char *id)
{
	size_t len = strlen(id);

	return strncmp(entry, id, len) == 0 && entry[len] == '-' && entry[len + 1] &&
	       entry[len + 1 + strspn(entry + len + 1, "0123456789")] == '\0';
}

/* Its number says which one it is, so "range" goes after it, with the rest. */
static int remove_pooled(const struct trash *trash, int disk)
{
	char name[POOL_NAME_SIZE];
	int r = pool_has_disk(disk);

	if (r <= 0 || trash->pool_fd == TRASH_POOL_LOST)
		return r < 0 ? r : 0;
	if (trash->pool_fd < 0)
		return -EAGAIN;
	r = pool_mark_read(disk, name);
	/* What does not say which one it is was never written to. */
	if (r < 0)
		return r == -ENOENT || r == -EBADMSG ? 0 : r;
	/* Of a folder and its copy the one that stays has it. */
	r = pool_mark_is_in(trash->sandboxes_fd, name);
	if (r != 0)
		return r < 0 ? r : 0;
	return pool_remove_disk(trash->pool_fd, name);
}

/*
 * The range of a disk is taken until the last file that belongs to it is gone. What is no folder is
 * no disk; one that cannot be opened now may be one, and stays.
 */
static int remove_entry(const struct trash *trash, const char *name)
{
	cleanup_fd int disk = dir_open(trash->fd, name);
	int r;

	if (disk < 0 && disk != -ENOTDIR && disk != -ELOOP && disk != -ENOENT)
		return disk;
	r = disk < 0 ? 0 : remove_pooled(trash, disk);
	if (disk >= 0 && r == 0)
		r = tree_remove(disk, "upper");
	if (disk >= 0 && r == 0)
		r = tree_remove(disk, "work");
	return r < 0 ? r : tree_remove(trash->fd, name);
}

int trash_empty(const struct trash *trash, const char *id)
{
	struct dirent **entries;
	int count = scandirat(trash->fd, ".", &entries, NULL, NULL), failed = 0;

	for (int i = 0; i < count; i++) {
		const char *name = entries[i]->d_name;

		if (name[0] != '.' && (!id || is_of(name, id)) && remove_entry(trash, name) < 0)
			failed = 1;
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
	return count < 0 || failed;
}
