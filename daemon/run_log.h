/*
 * What a run has said: messages of its console by level, and what it printed, line by line, as
 * "stdout" and "stderr"; with the time at which berthd heard of it, since that of the code is its
 * own word. Bounded: what is beyond is counted.
 */
#ifndef BERTH_DAEMON_RUN_LOG_H
#define BERTH_DAEMON_RUN_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

#define RUN_LOG_MAX   (1024 * 1024) /* of all messages, as they are told */
#define RUN_LINE_MAX  (16 * 1024)   /* longer ones become several */
#define RUN_LEVEL_MAX 16

struct run_log {
	struct buf text;     /* "{...},{...}" */
	struct buf lines[2]; /* of stdout and stderr: what has no end yet */
	uint64_t dropped;
};

void run_log_init(struct run_log *log);
void run_log_close(struct run_log *log);

void run_log_add(struct run_log *log, struct str level, struct str message, int64_t at_ms);
/* Bytes as they come; what is not UTF-8 is replaced. */
void run_log_output(struct run_log *log, bool is_stderr, struct str bytes, int64_t at_ms);
/* Nothing more is printed: lines without an end have one. */
void run_log_flush(struct run_log *log, int64_t at_ms);

/* "[{...},{...}]", lines without an end not yet among them. */
int run_log_write(const struct run_log *log, struct buf *out);

#endif
