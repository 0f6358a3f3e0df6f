/* One run from the inside; for daemon/run*.c and pool.c alone. */
#ifndef BERTH_DAEMON_RUN_STATE_H
#define BERTH_DAEMON_RUN_STATE_H

#include <uv.h>

#include "daemon/context.h"
#include "daemon/run.h"
#include "daemon/run_log.h"
#include "daemon/sandbox.h"
#include "daemon/usage.h"
#include "proto/run_request.h"

enum run_phase {
	RUN_PHASE_STORING,
	RUN_PHASE_WAITING,
	RUN_PHASE_STARTING,
	RUN_PHASE_CALLING,
	RUN_PHASE_MEASURING,
	RUN_PHASE_REMOVING,
	RUN_PHASE_OVER,
	RUN_PHASE_COUNT,
};

struct runs {
	struct registry *registry;
	unsigned max;
	struct list waiting; /* in order */
	struct list others;  /* those that are stored, at work, or being ended */
	unsigned waiting_len, active_len;
	size_t waiting_bytes;
	struct pool *pool;
	struct list leftovers; /* of run_recover.c */
	struct list unsaved;   /* of run_unsaved.c, the oldest first */
	unsigned unsaved_len;
	bool is_stopping;
	bool is_starting; /* those that wait */
};

struct run {
	struct runs *runs;
	struct list link;
	struct list waits;
	enum run_phase phase;
	bool is_active;     /* it has one of the places */
	bool is_ending;     /* its end is decided */
	bool is_told;       /* and stored: from now on the store tells of it */
	bool has_sandbox;   /* one was asked for, and is not gone */
	bool is_left;       /* it could not be removed */
	struct arena arena; /* of the request */
	struct run_request request;
	struct run_record record; /* but for its long parts, until it ends */

	/* What is being waited for at the end. */
	bool is_storing, is_removing, is_calling, is_settling;

	struct sandbox_wait use, gone;
	struct usage_wait measure, count;
	uv_timer_t timeout;
	uint64_t taken_ns, began_ns;

	/* Of run_call.c. */
	struct context *context;
	struct context_call call;
	struct arena said; /* values and errors of tests that are over, `said_bytes` of them */
	size_t said_bytes;
	struct run_log *log;
	struct buf tests_text;             /* as they were asked for */
	struct buf logs_text, judged_text; /* of the record, once it has ended */
	uint64_t output_bytes;
	size_t test; /* which is under way */
	struct run_verdict *verdicts;
	struct run_judging *judging; /* of that one, while it takes its time; of run_judge.c */
	/* Of the call under way: the last that came of each. Beside them the end has its own room,
	 * so that nothing the code says can take that. */
	struct buf value_text, error_text, end_text;
	struct str value, error; /* the first two, as JSON; "": none came */
	bool has_begun;
	bool is_checked; /* its code is good, and may have run */
	bool is_disk_suspect;
};

/* Its end is decided: the first one counts. `error` is "", or a JSON text that stays. */
void run_end(struct run *run, enum run_status status, struct str error);
void run_end_error(struct run *run, enum run_status status, const struct run_error *error);
/* Something that the end waits for is done. */
void run_settle(struct run *run);
/* Its sandbox runs, and has its settings; or `err` says why not. */
void run_started(struct run *run, const struct err *err);
/* Its sandbox of the pool is no good: none of its code was in there, and nothing was said. */
void run_again(struct run *run);
int run_make_id(struct sandbox_id *ret);
/* The code begins. */
void run_began(struct run *run);

/* What a run of that trust has, with these asked for: ERR_FORBIDDEN, as trust_settle(). */
int run_settle_limits(const struct runs *runs, enum trust trust, struct settings_limits *limits,
		      struct err *err);

/* The error that it ends with, as JSON text: there is one. */
struct str run_keep_error(struct run *run, const struct run_error *error);
/* The same, or if it is longer than `max`, its code with that message (JSON). */
struct str run_cut_error(struct run *run, size_t max, const char *message);

/* What the sandboxes of all runs have, this image, and this label ("NAME=value"). -ENOMEM. */
int run_sandbox_settings(struct settings *ret, const char *image, struct str label);
/* One of a run or of the pool, which takes the settings: as sandbox_use() returns. */
int run_sandbox_make(struct runs *runs, const struct sandbox_id *id, struct settings *settings,
		     struct sandbox_wait *use, struct err *err);
/* run_sandbox.c: where its sandbox comes from, and where it goes. As sandbox_use() returns. */
int run_sandbox_take(struct run *run, struct err *err);
/* A fresh one, in place of that of the pool. */
int run_sandbox_replace(struct run *run, struct err *err);
struct sandbox *run_sandbox(const struct run *run);
/* 1: it is gone, or there was none; 0: run->gone is told; negative: it cannot be removed now. */
int run_sandbox_give_back(struct run *run, struct err *err);

/* run_call.c: the sandbox runs. */
int run_call_init(struct run *run);
void run_call_begin(struct run *run);
/* Nothing more is said. */
void run_call_end_log(struct run *run);
void run_call_close(struct run *run);
/* Tests that have not been called get the error that ended the run. */
void run_call_end_tests(struct run *run);
int run_call_write_tests(const struct run *run, struct buf *out);

/* run_judge.c: what came of the test that is under way. 1: that is known; 0: run_judged() follows;
 * -EMSGSIZE: it is too much. */
int run_judge(struct run *run);
void run_judge_leave(struct run *run); /* it is not wanted any more */
/* run_call.c: the verdict is there. */
void run_judged(struct run *run);

#define RUN_STOPPED    "its sandbox was stopped or deleted meanwhile"
#define RUN_GREEDY_MAX 128
/* That it needed more memory than it may have, and how much that is. */
void run_write_greedy(const struct run *run, char ret[RUN_GREEDY_MAX]);
/* run_end.c: its kernel is no more, in the middle of a call or before the next. */
void run_end_kernel(struct run *run, const struct context_end *end);

/* run_recover.c */
int run_recover(struct runs *runs);
/* Its sandbox could not be removed: that is tried again. */
void run_recover_left(struct runs *runs, const struct sandbox_id *id);
void run_recover_close(struct runs *runs);

/* run_unsaved.c: its end could not be stored, and is copied: see run_as_known(). */
void run_unsaved_keep(struct runs *runs, const struct run_record *end);
void run_unsaved_close(struct runs *runs);

#endif
