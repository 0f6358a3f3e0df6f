/*
 * What is known about a run, as it is told and stored. Parts that can be long are kept as the JSON
 * text that they are told as: they are made once, when the run ends.
 */
#ifndef BERTH_PROTO_RUN_RECORD_H
#define BERTH_PROTO_RUN_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"
#include "proto/json.h"
#include "proto/kernel.h"
#include "proto/sandbox_id.h"
#include "proto/trust.h"

#define RUN_ERROR_TEXT_MAX (16 * 1024) /* of a message, and of a stack */
#define RUN_ERROR_NAME_MAX 256
/* ... and of all of an error as JSON, where a byte may become six. */
#define RUN_ERROR_MAX (12 * (RUN_ERROR_TEXT_MAX + RUN_ERROR_NAME_MAX) + 512)

enum run_status {
	RUN_QUEUED,
	RUN_RUNNING,
	RUN_COMPLETED, /* the code ran to its end; its tests may have failed */
	RUN_FAILED,
	RUN_TIMED_OUT,
	RUN_CANCELLED,
	RUN_LOST, /* berthd ended meanwhile: nobody knows what came of it */
	RUN_STATUS_COUNT,
};

const char *run_status_name(enum run_status status);
/* Negative: none is called so. */
int run_status_find(struct str name);

static inline bool run_status_is_over(enum run_status status)
{
	return status != RUN_QUEUED && status != RUN_RUNNING;
}

/* Why a run failed, each from a cause of its own. */
#define RUN_SANDBOX_TIMEOUT            "SANDBOX_TIMEOUT"
#define RUN_SANDBOX_MEMORY_LIMIT       "SANDBOX_MEMORY_LIMIT"
#define RUN_SANDBOX_CPU_LIMIT          "SANDBOX_CPU_LIMIT"
#define RUN_SANDBOX_NETWORK_BLOCKED    "SANDBOX_NETWORK_BLOCKED"
#define RUN_SANDBOX_SECURITY_VIOLATION "SANDBOX_SECURITY_VIOLATION"
#define RUN_SANDBOX_DISK_LIMIT         "SANDBOX_DISK_LIMIT"
#define RUN_SANDBOX_OUTPUT_LIMIT       "SANDBOX_OUTPUT_LIMIT"
#define RUN_CODE_ERROR                 "CODE_ERROR"

struct run_error {
	const char *code; /* NULL: there is none */
	struct str name, message;
	const struct json_strings *traceback; /* may be NULL */
	struct str file;
	uint64_t line, column; /* 0: not known */
};

/* As JSON text. What is longer than the limits above is cut. */
int run_error_write(const struct run_error *error, struct buf *out);

/* Negative: not known. */
struct run_metrics {
	int64_t duration_ms, cold_start_ms, cpu_ms, memory_peak_bytes;
};

struct run_record {
	struct sandbox_id id;
	struct sandbox_id sandbox; /* the same, or one of the pool's */
	enum run_status status;
	enum kernel_language language;
	enum trust trust;
	bool is_pooled;
	bool is_truncated; /* it is over; there was no room to store its result, logs and tests */
	int64_t created_at_ms, started_at_ms, ended_at_ms; /* 0: not yet, or never */
	uint64_t timeout_ms;
	struct run_metrics metrics;
	uint64_t logs_dropped; /* messages beyond the bound */
	struct str task_id;    /* "": none */
	/* JSON texts; "": there is none. */
	struct str result, logs, error, tests, metadata;
};

/* An object. `is_whole`: with the result, the logs and the tests, else what a list shows. */
void run_record_write(const struct run_record *record, bool is_whole, struct json_writer *w);

/* {"logs": [...], "logs_dropped": 0, "status": "running"} */
void run_record_write_logs(const struct run_record *record, struct json_writer *w);

/* One test, with what came of it. */
struct run_verdict {
	struct str input, expected, actual, error; /* JSON texts; "": none */
	bool passed;
};

void run_verdict_write(const struct run_verdict *verdict, struct json_writer *w);

#endif
