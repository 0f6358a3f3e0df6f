#include "proto/settings_limits.h"

#include <errno.h>

#include "base/cleanup.h"
#include "proto/keeper.h"

#define OUTPUT_MIN      (64ULL << 10)
#define CPU_TIME_MS_MAX (INT64_MAX / 1000)
#define IO_RANGE        "from 1M to 1T in a second"
#define IO_OPS_RANGE    "from 100 to 1000000000 in a second"

/* clang-format off */
#define AT(member) offsetof(struct settings_limits_body, member)

const struct json_field settings_limits_fields[] = {
	{ "memory",           JSON_SIZE,   AT(memory) },
	{ "memory_threshold", JSON_NUMBER, AT(memory_threshold) },
	{ "swap",             JSON_SIZE,   AT(swap) },
	{ "cpus",             JSON_NUMBER, AT(cpus) },
	{ "cpu_time_ms",      JSON_UINT,   AT(cpu_time_ms) },
	{ "pids",             JSON_UINT,   AT(pids) },
	{ "files",            JSON_UINT,   AT(files) },
	{ "file_size",        JSON_SIZE,   AT(file_size) },
	{ "disk",             JSON_SIZE,   AT(disk) },
	{ "inodes",           JSON_UINT,   AT(inodes) },
	{ "io_read",          JSON_SIZE,   AT(io_read) },
	{ "io_write",         JSON_SIZE,   AT(io_write) },
	{ "io_read_ops",      JSON_UINT,   AT(io_read_ops) },
	{ "io_write_ops",     JSON_UINT,   AT(io_write_ops) },
	{ "output_bytes",     JSON_SIZE,   AT(output_bytes) },
	{ NULL },
};
/* clang-format on */

struct settings_limits_body settings_limits_give(const struct settings_limits *limits)
{
	return (struct settings_limits_body){
		.memory = limits->memory_bytes,
		.memory_threshold = limits->memory_threshold_milli / 1000.0,
		.swap = limits->swap_bytes,
		.cpus = limits->cpu_milli / 1000.0,
		.cpu_time_ms = limits->cpu_time_ms,
		.pids = limits->pids,
		.files = limits->files,
		.file_size = limits->file_size,
		.disk = limits->disk_bytes,
		.inodes = limits->inodes,
		.io_read = limits->io_read,
		.io_write = limits->io_write,
		.io_read_ops = limits->io_read_ops,
		.io_write_ops = limits->io_write_ops,
		.output_bytes = limits->output_bytes,
	};
}

struct settings_limits settings_limits_take(const struct settings_limits_body *body)
{
	return (struct settings_limits){
		.memory_bytes = body->memory,
		.memory_threshold_milli = (uint32_t)(body->memory_threshold * 1000 + 0.5),
		.swap_bytes = body->swap,
		.cpu_milli = (uint32_t)(body->cpus * 1000 + 0.5),
		.cpu_time_ms = body->cpu_time_ms,
		.pids = (uint32_t)body->pids,
		.files = (uint32_t)body->files,
		.file_size = body->file_size,
		.disk_bytes = body->disk,
		.inodes = body->inodes,
		.io_read = body->io_read,
		.io_write = body->io_write,
		.io_read_ops = (uint32_t)body->io_read_ops,
		.io_write_ops = (uint32_t)body->io_write_ops,
		.output_bytes = body->output_bytes,
	};
}

/* 0 is the default, everywhere. */
int settings_limits_check(const struct settings_limits_body *b, struct err *err)
{
	const double cpus_min = KEEPER_CPU_MILLI_MIN / 1000.0;
	const double cpus_max = KEEPER_CPU_MILLI_MAX / 1000.0;
	const struct {
		const char *field, *range;
		uint64_t value, min, max;
	} limits[] = {
		{"memory", "from 8M to 1024T", b->memory, KEEPER_MEMORY_MIN, KEEPER_MEMORY_MAX},
		{"swap", "at most 1024T", b->swap, 0, KEEPER_MEMORY_MAX},
		{"cpu_time_ms", "from 1 to 9223372036854775", b->cpu_time_ms, 1, CPU_TIME_MS_MAX},
		{"pids", "from 8 to 4194304", b->pids, KEEPER_PIDS_MIN, KEEPER_PIDS_MAX},
		{"files", "from 64 to 1048576", b->files, KEEPER_FILES_MIN, KEEPER_FILES_MAX},
		{"file_size", "at least 64K", b->file_size, KEEPER_FILE_SIZE_MIN, INT64_MAX},
		{"disk", "from 1M to 1024T", b->disk, KEEPER_DISK_MIN, KEEPER_DISK_MAX},
		{"inodes", "from 64 to 4294967295", b->inodes, KEEPER_INODES_MIN,
		 KEEPER_INODES_MAX},
		{"io_read", IO_RANGE, b->io_read, KEEPER_IO_MIN, KEEPER_IO_MAX},
		{"io_write", IO_RANGE, b->io_write, KEEPER_IO_MIN, KEEPER_IO_MAX},
		{"io_read_ops", IO_OPS_RANGE, b->io_read_ops, KEEPER_IO_OPS_MIN, KEEPER_IO_OPS_MAX},
		{"io_write_ops", IO_OPS_RANGE, b->io_write_ops, KEEPER_IO_OPS_MIN,
		 KEEPER_IO_OPS_MAX},
		{"output_bytes", "at least 64K", b->output_bytes, OUTPUT_MIN, INT64_MAX},
	};

	for (size_t i = 0; i < array_len(limits); i++) {
		uint64_t value = limits[i].value;

		if (value && (value < limits[i].min || value > limits[i].max))
			return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
				       "limits.%s must be %s, or 0 for the default",
				       limits[i].field, limits[i].range);
	}
	if (b->cpus != 0 && !(b->cpus >= cpus_min && b->cpus <= cpus_max))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "limits.cpus must be from 0.01 to 1000, or 0 for the default");
	if (b->memory_threshold != 0 && !(b->memory_threshold >= 0.01 && b->memory_threshold <= 1))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "limits.memory_threshold must be a part of the memory, from 0.01 "
			       "to 1, or 0 for none");
	return 0;
}

static void write_limit(struct json_writer *w, const char *key, uint64_t value)
{
	json_key(w, key);
	if (value)
		json_int(w, (int64_t)value);
	else
		json_null(w);
}

static void write_part(struct json_writer *w, const char *key, uint32_t milli)
{
	json_key(w, key);
	if (milli)
		json_double(w, milli / 1000.0);
	else
		json_null(w);
}

void settings_limits_write(const struct settings_limits *limits, struct json_writer *w)
{
	json_key(w, "limits");
	json_object(w);
	write_limit(w, "memory", limits->memory_bytes);
	write_part(w, "memory_threshold", limits->memory_threshold_milli);
	write_limit(w, "swap", limits->swap_bytes);
	write_part(w, "cpus", limits->cpu_milli);
	write_limit(w, "cpu_time_ms", limits->cpu_time_ms);
	write_limit(w, "pids", limits->pids);
	write_limit(w, "files", limits->files);
	write_limit(w, "file_size", limits->file_size);
	write_limit(w, "disk", limits->disk_bytes);
	write_limit(w, "inodes", limits->inodes);
	write_limit(w, "io_read", limits->io_read);
	write_limit(w, "io_write", limits->io_write);
	write_limit(w, "io_read_ops", limits->io_read_ops);
	write_limit(w, "io_write_ops", limits->io_write_ops);
	write_limit(w, "output_bytes", limits->output_bytes);
	json_object_end(w);
}

void settings_write_limits(const struct settings *settings, struct json_writer *w)
{
	settings_limits_write(&settings->limits, w);
}

bool settings_limits_keep(const struct settings_limits *a, const struct settings_limits *b)
{
	return a->memory_bytes == b->memory_bytes && a->swap_bytes == b->swap_bytes &&
	       a->cpu_milli == b->cpu_milli && a->pids == b->pids &&
	       a->disk_bytes == b->disk_bytes && a->io_read == b->io_read &&
	       a->io_write == b->io_write && a->io_read_ops == b->io_read_ops &&
	       a->io_write_ops == b->io_write_ops;
}

bool settings_limits_equal(const struct settings_limits *a, const struct settings_limits *b)
{
	return settings_limits_keep(a, b) && a->files == b->files && a->file_size == b->file_size &&
	       a->inodes == b->inodes && a->memory_threshold_milli == b->memory_threshold_milli &&
	       a->cpu_time_ms == b->cpu_time_ms && a->output_bytes == b->output_bytes;
}
