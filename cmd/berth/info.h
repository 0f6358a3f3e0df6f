/* What /v1/info tells, as far as it was told: an older or newer daemon may leave fields out. */
#ifndef BERTH_CMD_INFO_H
#define BERTH_CMD_INFO_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "cmd/berth/client.h"
#include "proto/json.h"

struct abilities {
	bool memory_limit, swap_limit, cpu_limit, cpu_time_limit, pids_limit, freeze, exec_groups,
		moment, oom_told, own_ids, own_binds, disk_limit, io_read_limit, io_write_limit,
		cpu_choice;
};

struct info {
	struct str version, instance, started_at, mode, kernel, machine;
	struct str socket, listen, preview, preview_url, state_dir, run_dir;
	struct str config, token_file, socket_group, log_level;
	uint64_t pid, uid, uptime_ms, cpus, memory_bytes, subuids, connections;
	bool uid_given;
	struct {
		struct str name, path;
	} runtime;
	struct {
		struct str version;
		bool memory, cpu, pids, freezer;
	} cgroups;
	struct {
		bool answers, awaited;
	} keeper;
	bool keeper_given;
	struct {
		uint64_t landlock; /* its ABI; 0: none */
		bool seccomp;
	} confined; /* the daemon itself */
	bool confined_given;
	struct {
		uint64_t head_bytes, headers, body_bytes, connections;
	} limits;
	uint64_t default_memory; /* the limit of a sandbox without one; 0: none */
	struct {
		uint64_t max_sandboxes, max_running, memory_floor; /* 0: none */
		uint64_t sandboxes, running, frozen, memory_available;
	} capacity;
	bool capacity_given;
	struct abilities abilities;
	bool abilities_given;
	bool user_namespaces, overlay, seccomp;
	struct json_strings network_modes, allow_bind;
};

#define INFO_ARENA_MAX (1024 * 1024)

/* Of struct abilities: a JSON_BOOL for each. */
extern const struct json_field ability_fields[];

/* Text in `ret` lives in the arena. */
int info_parse(struct arena *arena, const struct answer *answer, struct info *ret, struct err *err);

struct info_text {
	char text[64];
};

/* What the daemon has put on itself: "landlock ABI 7, seccomp", ..., "no". */
struct info_text info_confined(const struct info *info);

#endif
