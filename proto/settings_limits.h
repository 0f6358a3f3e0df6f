/* "limits" as it stands in a body, and back: a part of proto/settings.c. */
#ifndef BERTH_PROTO_SETTINGS_LIMITS_H
#define BERTH_PROTO_SETTINGS_LIMITS_H

#include "proto/settings.h"

/* As they are read; what a body does not name keeps the value that was there before. */
struct settings_limits_body {
	uint64_t memory, swap, pids, files, file_size, output_bytes, cpu_time_ms, disk, inodes;
	uint64_t io_read, io_write, io_read_ops, io_write_ops;
	double cpus, memory_threshold;
};

extern const struct json_field settings_limits_fields[];

struct settings_limits_body settings_limits_give(const struct settings_limits *limits);
int settings_limits_check(const struct settings_limits_body *body, struct err *err);
struct settings_limits settings_limits_take(const struct settings_limits_body *body);
/* "limits", into an object that the caller has opened. */
void settings_limits_write(const struct settings_limits *limits, struct json_writer *w);

#endif
