/* What the API tells about a sandbox, and the requests that several verbs make. */
#ifndef BERTH_CMD_SANDBOX_H
#define BERTH_CMD_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "cmd/berth/client.h"
#include "proto/json.h"

#define SANDBOX_ARENA_MAX (64 * 1024 * 1024)
#define SANDBOX_PATH_MAX  512

/* What keeps a sandbox awake. */
struct sandbox_hold {
	struct str kind, id, since, detail;
};

/* Of a sleep: `mode` and `reason`; of a wake: `from`. What was not told is empty. */
struct sandbox_receipt {
	struct str mode, reason, from, at;
	uint64_t generation;
	struct json_strings kept;
};

/* What is mounted in it. */
struct sandbox_mount {
	struct str type, source, target;
	uint64_t size;
	bool is_read_only;
};

/* One of its exposed ports. */
struct sandbox_port {
	uint64_t port;
	struct str url, hostname, name;
	bool is_public;
};

/* As far as it was told. */
struct sandbox_info {
	struct str id, state, image, trust, created_at, started_at, last_active_at;
	uint64_t generation;
	bool is_read_only, is_ephemeral, restart_needed, keep_alive, hold_open_sockets;
	struct str sleep_after, max_awake, stop_after, delete_after, stop_grace, sleep_mode;
	struct json_objects holds; /* struct sandbox_hold */
	bool holds_given;
	struct str sleeps_at, deletes_at, next_alarm_at;
	struct sandbox_receipt last_sleep, last_wake;
	struct {
		uint64_t memory, swap, cpu_time_ms, pids, files, file_size, disk, inodes;
		uint64_t io_read, io_write, io_read_ops, io_write_ops, output_bytes;
		double cpus, memory_threshold;
	} limits;
	struct {
		struct str mode;
	} network;
	struct json_map labels;
	struct json_objects ports;  /* struct sandbox_port */
	struct json_objects mounts; /* struct sandbox_mount */
	struct {
		struct str at, disk_at;
		uint64_t cpu_ms, memory_bytes, memory_peak_bytes, pids, disk_bytes, files;
		uint64_t rx_bytes, tx_bytes;
		/* Those that the host counts. */
		bool cpu_given, memory_given, peak_given, pids_given, disk_given;
	} usage;
	bool usage_given;
	struct {
		struct str at;
		uint64_t kills, generation;
	} last_oom;
	struct {
		struct str code, message, at;
	} last_failure;
};

struct sandbox_list {
	struct json_objects sandboxes; /* struct sandbox_info */
	struct str cursor;             /* empty: that was all */
};

/* Text lives in the arena. */
int sandbox_parse(struct arena *arena, const struct answer *answer, struct sandbox_info *ret,
		  struct err *err);
/* What PUT and GET .../port/{n} answer. */
int sandbox_port_parse(struct arena *arena, const struct answer *answer, struct sandbox_port *ret,
		       struct err *err);
/* What POST .../sleep answers. */
int sandbox_receipt_parse(struct arena *arena, const struct answer *answer,
			  struct sandbox_receipt *ret, struct err *err);

/* Of a run, or kept warm for one: nobody may stop it, and nothing of it would be kept. */
bool sandbox_is_passing(const struct sandbox_info *info);

/* Who is shown every page and every sandbox on it; each may be NULL, or stop with an errno. */
struct sandbox_visitor {
	int (*page)(void *arg, const struct answer *answer);
	int (*sandbox)(void *arg, const struct sandbox_info *info);
	void *arg;
	bool usage_wanted;                  /* measured now */
	const struct client_stream *stream; /* for its interrupt_fd; NULL: none */
};

int sandbox_each(const struct globals *globals, const struct sandbox_visitor *visitor,
		 struct answer *answer, struct err *err);

/*
 * "/v1/sandbox/<id><suffix>"; an id that can be none is refused, -EDESTADDRREQ, before it can mean
 * another path.
 */
int sandbox_path(const char *id, const char *suffix, char ret[SANDBOX_PATH_MAX], struct err *err);

/* POST .../sleep {"mode": "stop"} */
int sandbox_stop(const struct globals *globals, const char *id, struct answer *ret,
		 struct err *err);
int sandbox_remove(const struct globals *globals, const char *id, struct answer *ret,
		   struct err *err);

typedef int sandbox_act(const struct globals *globals, const char *id, struct answer *ret,
			struct err *err);

/*
 * Does the same to all sandboxes that a call names, goes on after a failure, and gives the exit
 * code. With --json the answers are printed, else what `show` makes of them; NULL: the ids.
 */
int sandbox_for_all(const struct call *call, sandbox_act *act,
		    int (*show)(const char *id, const struct answer *answer, struct err *err));

#endif
