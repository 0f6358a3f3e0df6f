/* What the bodies that start something share; for proto/{code,exec,process,session}_request.c
 * alone. */
#ifndef BERTH_PROTO_EXEC_ASKED_H
#define BERTH_PROTO_EXEC_ASKED_H

#include <assert.h>

#include "proto/exec_request.h"

/* Sums with a clock stay far from 2^63. */
#define EXEC_TIMEOUT_MAX_MS (100ULL * 366 * 24 * 3600 * 1000)
/* Of every timeout_ms. */
#define EXEC_TIMEOUT_RULE "timeout_ms must be from 1 to 3162240000000, or 0 for none"
static_assert(EXEC_TIMEOUT_MAX_MS == 3162240000000ULL, "the rule says so");

/* What was asked for, before it is checked; the same for a body and a query. */
struct exec_asked {
	struct json_strings argv;
	struct str command, cwd, user, stdin_text, stdin_encoding;
	struct json_map env;
	bool argv_given, command_given, cwd_given, user_given, stdin_given, encoding_given;
	uint64_t timeout_ms, max_output_bytes;
	bool detach;
};

/* ERR_INVALID_REQUEST. */
int exec_refuse(struct err *err, const char *sentence);

int exec_take_asked(struct arena *arena, const struct exec_asked *a, struct exec_request *ret,
		    struct err *err);

#endif
