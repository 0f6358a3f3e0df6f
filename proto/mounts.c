#include "proto/mounts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "proto/frame.h"

static int read_size(const char *text, uint64_t *ret)
{
	uint64_t size = 0;

	if (!*text || strlen(text) > 16)
		return -EBADMSG;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return -EBADMSG;
		size = size * 10 + (uint64_t)(*text - '0');
	}
	*ret = size;
	return size < MOUNTS_SIZE_MIN || size > MOUNTS_SIZE_MAX ? -EBADMSG : 0;
}

int mounts_next(struct str *list, struct mount_item *ret)
{
	const char *strings[MOUNTS_STRINGS];

	*ret = (struct mount_item){0};
	if (!list->len)
		return 0;
	if (frame_list_count(*list) < MOUNTS_STRINGS)
		return -EBADMSG;
	for (size_t i = 0; i < MOUNTS_STRINGS; i++)
		strings[i] = frame_list_next(list);
	ret->is_read_only = strcmp(strings[1], "ro") == 0;
	if (!ret->is_read_only && strcmp(strings[1], "rw") != 0)
		return -EBADMSG;
	ret->target = strings[3];
	if (strcmp(strings[0], "bind") == 0) {
		ret->kind = MOUNT_BIND;
		ret->source = strings[2];
		return 1;
	}
	ret->kind = MOUNT_TMPFS;
	if (strcmp(strings[0], "tmpfs") != 0 || read_size(strings[2], &ret->size) < 0)
		return -EBADMSG;
	return 1;
}

bool mounts_is_path(struct str path)
{
	if (!path.len || path.len > MOUNTS_PATH_MAX || path.at[0] != '/')
		return false;
	for (size_t i = 0; i < path.len; i++) {
		unsigned char c = (unsigned char)path.at[i];

		if (c < 0x20 || c == 0x7f)
			return false;
	}
	if (path.len == 1)
		return true;
	for (size_t at = 0; at < path.len;) {
		size_t end = at + 1;
		struct str name;

		while (end < path.len && path.at[end] != '/')
			end++;
		name = (struct str){path.at + at + 1, end - at - 1};
		if (!name.len || name.len > MOUNTS_NAME_MAX || str_eq(name, STR(".")) ||
		    str_eq(name, STR("..")))
			return false;
		at = end;
	}
	return true;
}

bool mounts_is_below(struct str path, struct str folder)
{
	if (folder.len == 1)
		return true;
	return path.len >= folder.len && memcmp(path.at, folder.at, folder.len) == 0 &&
	       (path.len == folder.len || path.at[folder.len] == '/');
}

bool mounts_is_reserved(struct str target)
{
	/* What is not writable in "host" is nobody's to cover in another image either. */
	static const char *const folders[] = {"/proc", "/sys", "/dev",   "/run",   "/usr",   "/bin",
					      "/sbin", "/lib", "/lib32", "/lib64", "/libx32"};

	if (target.len <= 1)
		return true;
	for (size_t i = 0; i < array_len(folders); i++) {
		if (mounts_is_below(target, str_of(folders[i])))
			return true;
	}
	return false;
}

static bool is_taken(const struct mount_item *items, unsigned count, const char *target)
{
	for (unsigned i = 0; i < count; i++) {
		if (mounts_is_below(str_of(target), str_of(items[i].target)) ||
		    mounts_is_below(str_of(items[i].target), str_of(target)))
			return true;
	}
	return false;
}

int mounts_check(struct str list, unsigned *ret_which)
{
	struct mount_item items[MOUNTS_MAX];
	unsigned count = 0;
	int r = 0;

	*ret_which = 0;
	if (list.len > MOUNTS_LIST_MAX)
		return -E2BIG;
	while (list.len) {
		struct mount_item item;

		*ret_which = count;
		r = mounts_next(&list, &item);
		if (r < 0)
			return r;
		if (count == MOUNTS_MAX)
			return -E2BIG;
		if ((item.kind == MOUNT_BIND && !mounts_is_path(str_of(item.source))) ||
		    !mounts_is_path(str_of(item.target)))
			return -EINVAL;
		if (mounts_is_reserved(str_of(item.target)))
			return -EPERM;
		if (is_taken(items, count, item.target))
			return -EEXIST;
		items[count++] = item;
	}
	return 0;
}
