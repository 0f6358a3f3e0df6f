/* The flags of `run` and `create` that become a sandbox's settings. */
#ifndef BERTH_CMD_SETTINGS_H
#define BERTH_CMD_SETTINGS_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "cmd/berth/mounts.h"

/* NULL: not given. */
struct settings_flags {
	const char *image, *trust, *memory, *memory_threshold, *cpus, *cpu_time, *pids, *disk,
		*inodes;
	const char *io_read, *io_write, *io_read_ops, *io_write_ops;
	const char *sleep_after, *sleep_mode, *max_awake, *stop_after, *stop_grace, *delete_after;
	bool read_only, ephemeral, keep_alive, hold_open_sockets;
	struct mounts_flags mounts;
};

/* The body of POST or PUT /v1/sandbox. `id` and `start` only for POST; NULL, false: left out. */
int settings_body(const struct settings_flags *flags, const char *id, bool start, struct buf *out,
		  struct err *err);

/* The field "limits", if there are any. -EDESTADDRREQ: one makes no sense. */
int settings_limits_write(struct json_writer *w, const struct settings_flags *flags,
			  struct err *err);

/* Why json_writer_end() could not make a body of what was typed; for client_failed(). */
int settings_unwritten(int error, struct err *err);

#endif
