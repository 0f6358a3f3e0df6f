#include "container/owners.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

#define LINE_SIZE 1024
#define LINES_MAX (1U << 20)

static bool read_id(struct str text, uint32_t *ret)
{
	uint64_t number = 0;

	for (size_t i = 0; i < text.len; i++) {
		if (text.at[i] < '0' || text.at[i] > '9' || number > UINT32_MAX)
			return false;
		number = number * 10 + (uint64_t)(text.at[i] - '0');
	}
	*ret = (uint32_t)number;
	return text.len > 0 && number < UINT32_MAX;
}

/*
 * The line "name:password:id:next:..." with that id, in either file; `next` of it, unless it is no
 * number. -ENOENT: there is none. Of a line that is very long the beginning is enough.
 */
static int find(const char *path, uint32_t id, uint32_t *ret_next)
{
	cleanup_file FILE *file = fopen(path, "re");
	char line[LINE_SIZE];
	bool is_begin = true;

	if (!file)
		return -errno;
	for (unsigned i = 0; i < LINES_MAX && fgets(line, sizeof(line), file); i++) {
		bool is_line = is_begin;
		struct str rest = str_of(line);
		uint32_t found;

		is_begin = strchr(line, '\n');
		str_cut(&rest, ':');
		str_cut(&rest, ':');
		if (!is_line || !read_id(str_cut(&rest, ':'), &found) || found != id)
			continue;
		return ret_next && !read_id(str_cut(&rest, ':'), ret_next) ? -EINVAL : 0;
	}
	return ferror(file) ? -EIO : -ENOENT;
}

int owners_group(uid_t uid, gid_t gid, gid_t *ret)
{
	int r = find("/etc/passwd", uid, ret);

	if (r != -ENOENT)
		return r;
	if (uid != gid || find("/etc/group", gid, NULL) != -ENOENT)
		return -ENOENT;
	*ret = gid;
	return 0;
}
