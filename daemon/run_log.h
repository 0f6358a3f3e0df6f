/*
 * What a run has said: messages of its console by level, and what it printed, line by line, as
 * "stdout" and "stderr"; with the time at which berthd heard of it, since that of the code is its
 * own word. Bounded: what is beyond is counted.
 *
 * Whoever reads it while it grows holds it: it may outlive its run.
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
	unsigned holders;
	struct buf text;     /* "{...},{...}" */
	struct buf lines[2]; /* of stdout and stderr: what has no end yet */
	uint64_t dropped;    /* messages, and lines of any length */
};

/* Held by the caller. NULL without memory. */
struct run_log *run_log_new(void);
/* One that has ended: what run_log_write() gave, or "". */
struct run_log *run_log_of(struct str text, uint64_t dropped);
struct run_log *run_log_hold(struct run_log *log);
void run_log_release(struct run_log *log); /* NULL: does nothing */

void run_log_add(struct run_log *log, struct str level, struct str message, int64_t at_ms);
/* Bytes as they come; what is not UTF-8 is replaced. */
void run_log_output(struct run_log *log, bool is_stderr, struct str bytes, int64_t at_ms);
/* Nothing more is printed: lines without an end have one. */
void run_log_flush(struct run_log *log, int64_t at_ms);

/* "[{...},{...}]", lines without an end not yet among them. */
int run_log_write(const struct run_log *log, struct buf *out);

/* A place between two messages; zeroed: before the first. */
struct run_log_reader {
	size_t at;
	uint64_t cursor; /* how many messages are before it */
};

/* The next one, as JSON, lent until the log grows. False: there is none yet. */
bool run_log_read(const struct run_log *log, struct run_log_reader *reader, struct str *ret);
/* -ENOENT: there are not so many, and it is behind the last. */
int run_log_seek(const struct run_log *log, struct run_log_reader *reader, uint64_t cursor);

#endif
