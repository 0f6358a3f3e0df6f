#include "container/limits.h"

#include <errno.h>

#include "proto/keeper.h"

#define MEMORY_DEFAULT (2ULL << 30)
#define PIDS_DEFAULT   1024
#define FILES_DEFAULT  65536
/* Of a disk in memory. */
#define EPHEMERAL_DEFAULT (256ULL << 20)
#define INODES_DEFAULT    65536

static int check_range(uint64_t asked, uint64_t min, uint64_t max, const char *what,
		       struct err *err)
{
	if (asked != 0 && (asked < min || asked > max))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "%s must be from %llu to %llu",
			       what, (unsigned long long)min, (unsigned long long)max);
	return 0;
}

static int check_able(uint64_t asked, bool is_able, const char *what, struct err *err)
{
	if (asked != 0 && !is_able)
		return err_set(err, -EOPNOTSUPP, ERR_UNSUPPORTED,
			       "this host cannot limit %s (no such cgroup controller for us)",
			       what);
	return 0;
}

static int check_io(const struct keeper_io *io, struct err *err)
{
	int r = check_range(io->read_bytes, KEEPER_IO_MIN, KEEPER_IO_MAX, "io_read", err);

	if (r == 0)
		r = check_range(io->write_bytes, KEEPER_IO_MIN, KEEPER_IO_MAX, "io_write", err);
	if (r == 0)
		r = check_range(io->read_ops, KEEPER_IO_OPS_MIN, KEEPER_IO_OPS_MAX, "io_read_ops",
				err);
	if (r == 0)
		r = check_range(io->write_ops, KEEPER_IO_OPS_MIN, KEEPER_IO_OPS_MAX, "io_write_ops",
				err);
	return r;
}

static int check(const struct container_limits *limits, const struct container_host *host,
		 struct err *err)
{
	const struct cgroup_host *cg = &host->cgroup;
	int r = check_range(limits->memory_bytes, KEEPER_MEMORY_MIN, KEEPER_MEMORY_MAX, "memory",
			    err);

	if (r == 0)
		r = check_range(limits->swap_bytes, 0, KEEPER_MEMORY_MAX, "swap", err);
	if (r == 0)
		r = check_range(limits->cpu_milli, KEEPER_CPU_MILLI_MIN, KEEPER_CPU_MILLI_MAX,
				"cpu_milli", err);
	if (r == 0)
		r = check_range(limits->pids, KEEPER_PIDS_MIN, KEEPER_PIDS_MAX, "pids", err);
	if (r == 0)
		r = check_range(limits->files, KEEPER_FILES_MIN, KEEPER_FILES_MAX, "files", err);
	if (r == 0)
		r = check_range(limits->file_size, 1, INT64_MAX, "file_size", err);
	if (r == 0)
		r = check_io(&limits->io, err);
	if (r == 0)
		r = check_able(limits->memory_bytes, cg->can_limit_memory, "memory", err);
	if (r == 0)
		r = check_able(limits->swap_bytes, cg->can_limit_swap, "swap", err);
	if (r == 0)
		r = check_able(limits->cpu_milli, cg->can_limit_cpu, "cpus", err);
	if (r == 0 && limits->files > host->files_max)
		r = err_set(err, -EOPNOTSUPP, ERR_UNSUPPORTED,
			    "this host allows at most %llu open files (limits.files): more are for "
			    "a keeper whose own limit (`ulimit -Hn`, LimitNOFILE=) is higher",
			    (unsigned long long)host->files_max);
	return r;
}

int limits_refuse_late_disk(struct err *err)
{
	return err_set(err, -EALREADY, ERR_CONFLICT,
		       "the sandbox has a disk without a limit already: limits.disk can be given "
		       "only before its first start. Make another sandbox with it, and copy the "
		       "files there");
}

int limits_refuse_rootless_disk(struct err *err)
{
	return err_set(
		err, -EOPNOTSUPP, ERR_UNSUPPORTED,
		"without root a disk that lasts cannot be limited, but only one in memory: "
		"a sandbox that has \"ephemeral\": true takes limits.disk and limits.inodes");
}

static int check_disk(const struct container_spec *spec, const struct container_host *host,
		      struct err *err)
{
	const struct container_limits *limits = &spec->limits;
	int r = check_range(limits->disk_bytes, KEEPER_DISK_MIN, KEEPER_DISK_MAX, "disk", err);

	if (r == 0)
		r = check_range(limits->inodes, KEEPER_INODES_MIN, KEEPER_INODES_MAX, "inodes",
				err);
	if (r < 0 || spec->is_ephemeral)
		return r;
	if (limits->disk_bytes && host->is_rootless)
		return limits_refuse_rootless_disk(err);
	if (limits->inodes)
		return err_set(err, -EOPNOTSUPP, ERR_UNSUPPORTED,
			       "limits.inodes is for sandboxes with \"ephemeral\": true, and must "
			       "be 0 for others: there limits.disk bounds the number of files, as "
			       "each takes some of it");
	return 0;
}

int limits_complete_disk(struct container_spec *spec, const struct container_host *host,
			 struct err *err)
{
	struct container_limits *limits = &spec->limits;
	int r = check_disk(spec, host, err);

	if (r < 0 || !spec->is_ephemeral)
		return r;
	if (!limits->disk_bytes)
		limits->disk_bytes =
			limits->memory_bytes ? limits->memory_bytes / 2 : EPHEMERAL_DEFAULT;
	if (!limits->inodes)
		limits->inodes = INODES_DEFAULT;
	return 0;
}

int limits_complete(struct container_limits *limits, const struct container_host *host,
		    struct err *err)
{
	int r = check(limits, host, err);

	if (r < 0)
		return r;
	if (!limits->memory_bytes && host->cgroup.can_limit_memory)
		limits->memory_bytes = host->memory_bytes / 2 < MEMORY_DEFAULT
					       ? host->memory_bytes / 2
					       : MEMORY_DEFAULT;
	if (!limits->pids)
		limits->pids = PIDS_DEFAULT;
	if (!limits->files)
		limits->files =
			host->files_max < FILES_DEFAULT ? (uint32_t)host->files_max : FILES_DEFAULT;
	return 0;
}
