#include "container/cgroup_cpus.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "container/cgroup_pass.h"
#include "container/dir.h"

#define CPUS_MAX 65536

static bool take_number(const char **at, unsigned long *ret)
{
	char *end;

	if (!isdigit((unsigned char)**at))
		return false;
	*ret = strtoul(*at, &end, 10);
	*at = end;
	return *ret < CPUS_MAX;
}

/* "8" or "0-3", and the comma behind it. */
static int take_range(const char **at, unsigned long *ret_first, unsigned long *ret_last)
{
	if (!take_number(at, ret_first))
		return -EINVAL;
	*ret_last = *ret_first;
	if (**at == '-') {
		++*at;
		if (!take_number(at, ret_last) || *ret_last < *ret_first)
			return -EINVAL;
	}
	if (**at && **at != ',')
		return -EINVAL;
	if (**at)
		++*at;
	return 0;
}

/* Without `end`. */
static int add_range(struct buf *out, unsigned long first, unsigned long end)
{
	const char *comma = buf_len(out) ? "," : "";

	if (first >= end)
		return 0;
	return first + 1 == end ? buf_printf(out, "%s%lu", comma, first)
				: buf_printf(out, "%s%lu-%lu", comma, first, end - 1);
}

int cgroup_cpus_parse(struct cgroup_cpus *ret, const char *list)
{
	cleanup(buf_close) struct buf all, but_one;
	struct cgroup_cpus cpus = {0};
	unsigned long first, last;
	int r = -EINVAL;

	buf_init(&all, sizeof(cpus.all) - 1);
	buf_init(&but_one, sizeof(cpus.but_one) - 1);
	while (*list) {
		r = take_range(&list, &first, &last);
		if (r == 0)
			r = add_range(&all, first, last + 1);
		if (r == 0)
			r = add_range(&but_one, first, *list ? last + 1 : last);
		if (r < 0)
			break;
		cpus.count += (unsigned)(last - first + 1);
	}
	if (r < 0)
		return r;
	memcpy(cpus.all, buf_at(&all), buf_len(&all));
	if (buf_len(&but_one))
		memcpy(cpus.but_one, buf_at(&but_one), buf_len(&but_one));
	*ret = cpus;
	return 0;
}

void cgroup_cpus_find(struct cgroup_host *cg)
{
	const char *file = cg->is_v2 ? "cpuset.cpus.effective" : "cpuset.effective_cpus";
	int dir = cg->is_v2 ? cg->v2_fd : cg->v1_fds[CGROUPS_CPUSET];
	char list[CGROUP_CPUS_SIZE];
	ssize_t len = dir >= 0 ? dir_read(dir, file, list, sizeof(list)) : -ENOENT;

	if (len <= 0 || (cg->is_v2 && !cgroup_pass_down(dir, "cpuset")))
		return;
	list[strcspn(list, "\n")] = '\0';
	cg->cpus.can_choose = cgroup_cpus_parse(&cg->cpus, list) == 0;
}

int cgroup_cpus_set(const struct cgroup_host *cg, const char *id, bool is_all)
{
	int root = cg->is_v2 ? cg->v2_fd : cg->v1_fds[CGROUPS_CPUSET];
	cleanup_fd int dir = cgroup_open(cg, root, id);
	/* In v2 nothing is whatever there is above, also what comes later. */
	const char *all = cg->is_v2 ? "\n" : cg->cpus.all;

	return dir < 0 ? dir : dir_write(dir, "cpuset.cpus", is_all ? all : cg->cpus.but_one);
}
