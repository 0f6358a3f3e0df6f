/* A run as the API tells of it: one piece of code in a sandbox of its own. */
#ifndef BERTH_CMD_RUN_INFO_H
#define BERTH_CMD_RUN_INFO_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/berth/haul.h"
#include "proto/json.h"

#define RUN_ARENA_MAX (128 * 1024 * 1024)

struct run_log_entry {
	struct str level, message, timestamp;
};

struct run_test_info {
	bool passed;
};

/* As far as it was told. */
struct run_info {
	struct str id, task_id, status, language, trust, created_at, started_at, ended_at;
	struct str result;         /* JSON text; "": none */
	struct json_objects logs;  /* struct run_log_entry */
	struct json_objects tests; /* struct run_test_info */
	uint64_t logs_dropped;
	bool is_truncated; /* result, logs and tests could not be stored */
	struct {
		struct str code, name, message, stack;
	} error;
	bool error_given;
	struct {
		uint64_t duration_ms, cpu_ms, memory_peak_bytes;
		bool duration_given;
	} metrics;
};

extern const struct json_field run_fields[];

/* Text lives in the arena. -EPROTO, and the haul has a sentence. */
int run_parse(struct haul *haul, struct arena *arena, struct run_info *ret);

/* Makes the haul's target, "/v1/runs/RUN<suffix>". 0, or negative for haul_finish(). */
int run_target(struct haul *haul, const char *run, const char *suffix);

/* What it said, each where it said it; then its result, its error and what became of its tests. */
int run_show_entry(struct haul *haul, const struct run_log_entry *entry);
void run_show_dropped(uint64_t dropped);
int run_show_logs(struct haul *haul, const struct run_info *run);
int run_show_end(struct haul *haul, const struct run_info *run);

/* As code_exit_codes has it. */
int run_exit_code(const struct run_info *run);

#endif
