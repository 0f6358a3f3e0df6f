/* Background processes of a sandbox as the API tells of them, and what several verbs ask about one.
 */
#ifndef BERTH_CMD_PROCESS_H
#define BERTH_CMD_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/berth/haul.h"

#define PROCESS_ARENA_MAX (64 * 1024 * 1024)

/* As far as it was told. */
struct process_info {
	struct str id, state, reason, message, started_at;
	struct json_strings command;
	uint64_t pid, signal;
	int64_t exit_code;
	bool exit_code_given;
};

/* What an answer tells of one; also within a table of another. */
extern const struct json_field process_fields[];

/* An array of them. Text lives in the arena. */
int process_list_parse(struct arena *arena, const struct answer *answer, struct json_objects *ret,
		       struct err *err);

/*
 * Makes the haul's target, "/v1/sandbox/ID/processes/PROCESS<suffix>"; without a process, of all.
 * 0, or negative for haul_finish(): an ID that can be none is refused before it can mean another
 * path.
 */
int process_target(struct haul *haul, const char *id, const char *process, const char *suffix);
/* The same of terminals, whose infos have the same shape. */
int terminal_target(struct haul *haul, const char *id, const char *terminal, const char *suffix);

/* The ID as Berth has it, which may not be how it was typed. */
const char *process_name(const char *typed, char ret[64]);

#endif
