#include "container/pool_mark.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "container/dir.h"
#include "container/ids.h"

#define NEW_MARK POOL_MARK ".new"

int pool_has_disk(int disk)
{
	struct stat st;

	if (fstatat(disk, POOL_MARK, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return 1;
	return errno == ENOENT ? 0 : -errno;
}

/* What is no folder is no disk of ours. */
static int is_marked(int sandboxes_fd, const char *name)
{
	cleanup_fd int disk = name[0] == '.' ? -ENOENT : dir_open(sandboxes_fd, name);

	if (disk < 0)
		return disk == -ENOENT || disk == -ENOTDIR ? 0 : disk;
	return pool_has_disk(disk);
}

int pool_has_disks(int sandboxes_fd)
{
	struct dirent **entries;
	int count = scandirat(sandboxes_fd, ".", &entries, NULL, NULL), r = count < 0 ? -errno : 0;

	for (int i = 0; i < count; i++) {
		if (r == 0)
			r = is_marked(sandboxes_fd, entries[i]->d_name);
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
	return r;
}

static int has_name(int sandboxes_fd, const char *folder, const char *name)
{
	cleanup_fd int disk = folder[0] == '.' ? -ENOENT : dir_open(sandboxes_fd, folder);
	char found[POOL_NAME_SIZE];
	int r = disk < 0 ? disk : pool_mark_read(disk, found);

	if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP || r == -EBADMSG)
		return 0;
	return r < 0 ? r : strcmp(found, name) == 0;
}

int pool_mark_is_in(int sandboxes_fd, const char *name)
{
	struct dirent **entries;
	int count = scandirat(sandboxes_fd, ".", &entries, NULL, NULL), r = count < 0 ? -errno : 0;

	for (int i = 0; i < count; i++) {
		if (r == 0)
			r = has_name(sandboxes_fd, entries[i]->d_name, name);
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
	return r;
}

static void name_of(uint32_t number, const char *token, char ret[POOL_NAME_SIZE])
{
	snprintf(ret, POOL_NAME_SIZE, "%u-%.*s", number, POOL_TOKEN_LEN, token);
}

int pool_name_parse(const char *name, uint32_t *ret_number, const char **ret_token)
{
	size_t digits = strspn(name, "0123456789");
	const char *token = name + digits + 1;

	if (digits == 0 || digits > 5 || name[digits] != '-' || atoi(name) >= (int)IDS_RANGES ||
	    strlen(token) != POOL_TOKEN_LEN || strspn(token, "0123456789abcdef") != POOL_TOKEN_LEN)
		return -EINVAL;
	*ret_number = (uint32_t)atoi(name);
	*ret_token = token;
	return 0;
}

int pool_mark_read(int disk, char ret[POOL_NAME_SIZE])
{
	char token[64], name[POOL_NAME_SIZE];
	const char *ignored;
	uint64_t range;
	uint32_t number;
	ssize_t len = dir_read(disk, POOL_MARK, token, sizeof(token));
	int r = len < 0 ? (int)len : dir_read_number(disk, "range", &range);

	if (r < 0)
		return r == -EINVAL || r == -EFBIG ? -EBADMSG : r;
	if (len != POOL_TOKEN_LEN + 1 || token[POOL_TOKEN_LEN] != '\n' || range >= IDS_RANGES)
		return -EBADMSG;
	name_of((uint32_t)range, token, name);
	if (pool_name_parse(name, &number, &ignored) < 0)
		return -EBADMSG;
	memcpy(ret, name, sizeof(name));
	return 0;
}

/* It appears whole, or not at all. */
int pool_mark_make(int disk, uint32_t number, char ret[POOL_NAME_SIZE])
{
	cleanup_fd int mark = -1;
	char text[POOL_TOKEN_LEN + 2];
	uint64_t drawn;
	int r;

	if (getrandom(&drawn, sizeof(drawn), 0) != sizeof(drawn))
		return -EIO;
	snprintf(text, sizeof(text), "%016llx\n", (unsigned long long)drawn);
	if (unlinkat(disk, NEW_MARK, 0) < 0 && errno != ENOENT)
		return -errno;
	mark = dir_open_file(disk, NEW_MARK, O_WRONLY | O_CREAT | O_EXCL, 0600);
	r = mark < 0 ? mark : dir_write_all(mark, str_of(text));
	if (r == 0 && renameat2(disk, NEW_MARK, disk, POOL_MARK, 1 /* RENAME_NOREPLACE */) < 0)
		r = -errno;
	if (r < 0 && mark >= 0)
		unlinkat(disk, NEW_MARK, 0);
	if (r == 0)
		name_of(number, text, ret);
	return r;
}
