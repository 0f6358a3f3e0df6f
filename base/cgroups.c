#include "base/cgroups.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

#define FIELDS_MAX 32

/* clang-format off */
static const char *const controllers[CGROUPS_KINDS] = {
	[CGROUPS_MEMORY]  = "memory",
	[CGROUPS_CPU]     = "cpu",
	[CGROUPS_PIDS]    = "pids",
	[CGROUPS_FREEZER] = "freezer",
	[CGROUPS_CPUACCT] = "cpuacct",
	[CGROUPS_BLKIO]   = "blkio",
	[CGROUPS_CPUSET]  = "cpuset",
};
/* clang-format on */

/* Is the word in a list such as "rw,cpu,cpuacct"? */
static bool has_word(struct str list, struct str word)
{
	while (list.len)
		if (str_eq(str_cut(&list, ','), word))
			return true;
	return false;
}

/* mountinfo writes blanks, newlines and backslashes as three octal digits. */
static bool unescape(char ret[PATH_MAX], struct str s)
{
	size_t n = 0;

	if (s.len >= PATH_MAX)
		return false;
	for (size_t i = 0; i < s.len; i++) {
		if (s.at[i] == '\\' && i + 3 < s.len && s.at[i + 1] >= '0' && s.at[i + 1] <= '3') {
			ret[n++] = (char)((s.at[i + 1] - '0') * 64 + (s.at[i + 2] - '0') * 8 +
					  (s.at[i + 3] - '0'));
			i += 3;
		} else {
			ret[n++] = s.at[i];
		}
	}
	ret[n] = '\0';
	return true;
}

static void keep(struct cgroups *ret, enum cgroups_kind kind, struct str mount)
{
	/* The first one stays: later mounts of the same hierarchy are copies in odd places. */
	if (ret->of[kind].mount[0])
		return;
	if (!unescape(ret->of[kind].mount, mount))
		ret->of[kind].mount[0] = '\0';
}

/* "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate" */
static void parse_line(struct cgroups *ret, struct str line)
{
	struct str fields[FIELDS_MAX];
	size_t count = 0, dash = 6;

	while (line.len && count < FIELDS_MAX)
		fields[count++] = str_cut(&line, ' ');
	while (dash < count && !str_eq(fields[dash], STR("-")))
		dash++;
	if (dash + 3 >= count)
		return;
	if (str_eq(fields[dash + 1], STR("cgroup2")))
		keep(ret, CGROUPS_UNIFIED, fields[4]);
	if (!str_eq(fields[dash + 1], STR("cgroup")))
		return;
	ret->v1 = true;
	for (int kind = CGROUPS_MEMORY; kind < CGROUPS_KINDS; kind++)
		if (has_word(fields[dash + 3], str_of(controllers[kind])))
			keep(ret, (enum cgroups_kind)kind, fields[4]);
}

void cgroups_parse(struct cgroups *ret, struct str mountinfo)
{
	memset(ret, 0, sizeof(*ret));
	while (mountinfo.len)
		parse_line(ret, str_cut(&mountinfo, '\n'));
}

enum host_cgroups cgroups_mode(const struct cgroups *cgroups)
{
	bool v2 = cgroups->of[CGROUPS_UNIFIED].mount[0];

	if (v2)
		return cgroups->v1 ? HOST_CGROUPS_HYBRID : HOST_CGROUPS_V2;
	return cgroups->v1 ? HOST_CGROUPS_V1 : HOST_CGROUPS_NONE;
}
