#include "container/cgroup_limits.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "container/dir.h"

#define V1_MEMORY "memory.limit_in_bytes"
#define V1_TOTAL  "memory.memsw.limit_in_bytes"
#define V1_USAGE  "memory.usage_in_bytes"

void cgroup_files_close(struct cgroup_files *files)
{
	close_fdp(&files->memory);
	close_fdp(&files->cpu);
	close_fdp(&files->pids);
}

static int open_one(const struct cgroup_host *cg, const char *id, bool is_able, int kind, int *ret)
{
	int fd = is_able ? cgroup_open(cg, cg->is_v2 ? cg->v2_fd : cg->v1_fds[kind], id) : -1;

	*ret = fd < 0 ? -1 : fd;
	return is_able && fd < 0 ? fd : 0;
}

int cgroup_files_open(const struct cgroup_host *cg, const char *id, struct cgroup_files *ret)
{
	int r;

	*ret = (struct cgroup_files){-1, -1, -1};
	r = open_one(cg, id, cg->can_limit_memory, CGROUPS_MEMORY, &ret->memory);
	if (r == 0)
		r = open_one(cg, id, cg->can_limit_cpu, CGROUPS_CPU, &ret->cpu);
	if (r == 0)
		r = open_one(cg, id, cg->can_limit_pids, CGROUPS_PIDS, &ret->pids);
	return r;
}

/* --- memory --- */

/* UINT64_MAX: no limit. */
static int read_max(int dir, const char *file, uint64_t *ret)
{
	char text[64];
	ssize_t len = dir_read(dir, file, text, sizeof(text));

	if (len < 0)
		return (int)len;
	if (strncmp(text, "max", 3) == 0) {
		*ret = UINT64_MAX;
		return 0;
	}
	return dir_read_number(dir, file, ret);
}

static int refuse_held(uint64_t held, uint64_t limit, struct err *err)
{
	return err_set(err, -EBUSY, ERR_CONFLICT,
		       "the sandbox holds %" PRIu64 " bytes of memory that cannot be given back, "
		       "which is more than a limit of %" PRIu64 " bytes: end something in it, or "
		       "choose a higher limit",
		       held, limit);
}

static int check_held(const struct cgroup_host *cg, int dir, uint64_t limit, struct err *err)
{
	uint64_t held;
	int r = cgroup_read_held(cg, dir, &held);

	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "how much memory it holds cannot be read: %s",
			       strerror(-r));
	return held > limit ? refuse_held(held, limit, err) : 0;
}

/*
 * In v2 the limit itself would kill. "high" makes the kernel give back what it can, and slows down
 * whoever asks for more, so that what is held is known when the limit comes.
 */
static int make_room_v2(const struct cgroup_host *cg, int dir, uint64_t limit, struct err *err)
{
	int r = dir_write_number(dir, "memory.high", limit);

	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "its memory cannot be reclaimed: %s",
			       strerror(-r));
	return check_held(cg, dir, limit, err);
}

static int set_memory_v2(const struct cgroup_host *cg, int dir, const struct cgroup_limits *limits)
{
	int r = cg->can_limit_swap ? dir_write_number(dir, "memory.swap.max", limits->swap_bytes)
				   : 0;

	/* A kernel without swap has no such file, and no such memory. */
	if (r == -ENOENT && !limits->swap_bytes)
		r = 0;
	return r < 0 ? r : dir_write_number(dir, "memory.max", limits->memory_bytes);
}

/* The limit of both together may never be below that of memory, not even in between. */
static int set_memory_v1(const struct cgroup_host *cg, int dir, const struct cgroup_limits *limits)
{
	uint64_t memory = limits->memory_bytes, total = memory + limits->swap_bytes, now;
	int r;

	if (!cg->can_limit_swap)
		return dir_write_number(dir, V1_MEMORY, memory);
	r = dir_read_number(dir, V1_TOTAL, &now);
	if (r == 0 && memory > now) {
		r = dir_write_number(dir, V1_TOTAL, total);
		return r < 0 ? r : dir_write_number(dir, V1_MEMORY, memory);
	}
	if (r == 0)
		r = dir_write_number(dir, V1_MEMORY, memory);
	return r < 0 ? r : dir_write_number(dir, V1_TOTAL, total);
}

/* --- the others --- */

uint32_t cgroup_cpu_weight(uint32_t cpu_milli)
{
	return !cpu_milli || cpu_milli >= 1000 ? 100 : cpu_milli < 20 ? 1 : cpu_milli / 10;
}

static int set_cpu_weight(const struct cgroup_host *cg, int dir, uint32_t milli)
{
	uint32_t weight = cgroup_cpu_weight(milli);

	return cg->is_v2 ? dir_write_number(dir, "cpu.weight", weight)
			 : dir_write_number(dir, "cpu.shares", weight * CGROUP_V1_SHARES / 100);
}

static int set_cpu(const struct cgroup_host *cg, int dir, uint32_t milli)
{
	uint64_t quota_us = (uint64_t)milli * (CGROUP_CPU_PERIOD_US / 1000);
	char text[64];
	int r = set_cpu_weight(cg, dir, milli);

	if (r < 0)
		return r;
	if (!cg->is_v2)
		return milli ? dir_write_number(dir, "cpu.cfs_quota_us", quota_us)
			     : dir_write(dir, "cpu.cfs_quota_us", "-1");
	if (milli)
		snprintf(text, sizeof(text), "%" PRIu64 " %d", quota_us, CGROUP_CPU_PERIOD_US);
	else
		snprintf(text, sizeof(text), "max %d", CGROUP_CPU_PERIOD_US);
	return dir_write(dir, "cpu.max", text);
}

static int set_all(const struct cgroup_host *cg, const struct cgroup_files *at,
		   const struct cgroup_limits *limits, const char **ret_what)
{
	int r = 0;

	*ret_what = "memory";
	if (at->memory >= 0 && limits->memory_bytes)
		r = cg->is_v2 ? set_memory_v2(cg, at->memory, limits)
			      : set_memory_v1(cg, at->memory, limits);
	if (r == 0 && at->cpu >= 0) {
		*ret_what = "cpus";
		r = set_cpu(cg, at->cpu, limits->cpu_milli);
	}
	if (r == 0 && at->pids >= 0 && limits->pids) {
		*ret_what = "pids";
		r = dir_write_number(at->pids, "pids.max", limits->pids);
	}
	return r;
}

/* In v1: what it holds has grown since it was looked at, or cannot be written back so soon. */
static int refuse_busy(const struct cgroup_host *cg, int dir, uint64_t memory, struct err *err)
{
	if (check_held(cg, dir, memory, err) < 0)
		return -EBUSY;
	return err_set(err, -EBUSY, ERR_CONFLICT,
		       "the sandbox uses more memory than %" PRIu64
		       " bytes, and the kernel could not take it back: try again, end something in "
		       "it, or choose a higher limit",
		       memory);
}

/* 1: it is lower than it is now. In v1 also if that of both together is. */
static int is_lower(const struct cgroup_host *cg, const struct cgroup_files *at,
		    const struct cgroup_limits *limits)
{
	uint64_t max = 0, total = 0;
	int r;

	if (at->memory < 0)
		return 0;
	r = read_max(at->memory, cg->is_v2 ? "memory.max" : V1_MEMORY, &max);
	if (r == 0 && !cg->is_v2 && cg->can_limit_swap)
		r = read_max(at->memory, V1_TOTAL, &total);
	return r < 0 ? r
		     : limits->memory_bytes < max ||
			       limits->memory_bytes + limits->swap_bytes < total;
}

bool cgroup_limit_takes_long(const struct cgroup_host *cg, const struct cgroup_files *files,
			     const struct cgroup_limits *limits)
{
	return is_lower(cg, files, limits) > 0;
}

/* To lower the limit of memory is to wait until the kernel has taken back what is above it. */
static bool would_wait(const struct cgroup_host *cg, const struct cgroup_files *files,
		       const struct cgroup_limits *limits)
{
	uint64_t used;
	int lower = is_lower(cg, files, limits);

	if (lower <= 0)
		return lower < 0;
	return dir_read_number(files->memory, cg->is_v2 ? "memory.current" : V1_USAGE, &used) < 0 ||
	       used >= limits->memory_bytes;
}

void cgroup_limit_restore(const struct cgroup_host *cg, const struct cgroup_files *files,
			  const struct cgroup_limits *limits)
{
	struct cgroup_files others = *files;
	const char *unused;

	if (would_wait(cg, files, limits))
		others.memory = -1;
	set_all(cg, &others, limits, &unused);
	/* One who was killed on the way has left it low, and everything in there slow. */
	if (files->memory >= 0 && cg->is_v2)
		dir_write(files->memory, "memory.high", "max");
}

static int set_or_restore(const struct cgroup_host *cg, const struct cgroup_files *files,
			  const struct cgroup_change *change, struct err *err)
{
	const char *what, *unused;
	int r = set_all(cg, files, &change->after, &what);

	if (r == -EBUSY)
		refuse_busy(cg, files->memory, change->after.memory_bytes, err);
	else if (r < 0)
		err_set(err, r, ERR_INTERNAL, "the limit of %s cannot be changed: %s", what,
			strerror(-r));
	if (r < 0)
		set_all(cg, files, &change->before, &unused);
	return r;
}

int cgroup_limit(const struct cgroup_host *cg, const struct cgroup_files *files,
		 const struct cgroup_change *change, struct err *err)
{
	uint64_t memory = change->after.memory_bytes;
	int lower = is_lower(cg, files, &change->after), r = 0;

	if (lower < 0)
		return err_set(err, lower, ERR_INTERNAL, "its cgroup cannot be read: %s",
			       strerror(-lower));
	if (lower)
		r = check_held(cg, files->memory, memory, err);
	if (r == 0 && lower && cg->is_v2)
		r = make_room_v2(cg, files->memory, memory, err);
	if (r == 0)
		r = set_or_restore(cg, files, change, err);
	/* Always: one who was killed on the way has left it low, and everything in there slow. */
	if (files->memory >= 0 && cg->is_v2)
		dir_write(files->memory, "memory.high", "max");
	return r;
}
