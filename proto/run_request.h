/*
 * The body of POST /v1/runs: one piece of code, what it is called with, and what it may use. What
 * is not there yet (packages, bindings, callbacks, network) is ERR_UNSUPPORTED with the field's
 * name.
 */
#ifndef BERTH_PROTO_RUN_REQUEST_H
#define BERTH_PROTO_RUN_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "proto/json.h"
#include "proto/kernel.h"
#include "proto/settings.h"

#define RUN_BODY_MAX        (6 * 1024 * 1024)
#define RUN_CODE_MAX        (1024 * 1024)
#define RUN_TASK_ID_MAX     128
#define RUN_METADATA_MAX    (64 * 1024)
#define RUN_TESTS_MAX       1000
#define RUN_TIMEOUT_DEFAULT 30000
#define RUN_OUTPUT_DEFAULT  (16 * 1024 * 1024)  /* printed and logged, and its values */
#define RUN_DISK_DEFAULT    (256 * 1024 * 1024) /* or half of its memory, if that is limited */
#define RUN_INODES_DEFAULT  65536

/* All are JSON texts. */
struct run_test {
	struct str input; /* "": none was given */
	struct str expected;
	bool input_given, expected_given;
};

struct run_request {
	struct str task_id; /* "" if none was given */
	struct str code;
	enum kernel_language language;
	struct str image;          /* with a NUL behind it */
	struct str input, request; /* JSON texts; "": none was given */
	struct json_map env;
	bool env_given;                /* also if it is empty */
	uint64_t timeout_ms;           /* 0: none */
	enum trust trust;              /* TRUST_UNSAID: the configuration's `run_trust` */
	struct settings_limits limits; /* as they were asked for */
	struct run_test *tests;
	size_t tests_len;
	bool has_tests;
	struct str metadata; /* JSON text; "": none was given */
	bool is_async;
};

/* Results live in the arena. */
int run_request_parse(struct arena *arena, struct str body, struct run_request *ret,
		      struct err *err);

/*
 * What neither the request nor its preset says: output_bytes, disk_bytes and inodes are never 0.
 * The disk of a run is in memory: it counts there, too.
 */
void run_limits_fill(struct settings_limits *limits);

/* The body of POST /v1/runs/{run}/wait; it may be empty. UINT64_MAX: without end. */
int run_wait_parse(struct arena *arena, struct str body, uint64_t *ret_ms, struct err *err);

#endif
