/*
 * Runs: one piece of code each, in a fresh sandbox of its own that is gone when the run is over.
 *
 *	storing ──> waiting ──room──> starting ──it runs──> calling ──its end──> measuring
 *	   │           │                 │                     │                     │
 *	   │           │ cancelled       │ cannot, cancelled   │ timeout, limits,    v
 *	   │           └─────────────────┴─────────────────────┴─ cancelled ────> removing ──> over
 *	   └── cannot be stored: nothing was begun
 *
 * It is `queued` until its code begins, and `running` until its end is stored. Then whoever waits
 * is told, and the store tells of it to others; it keeps its place among those at work until its
 * sandbox is gone and its kernel has said its last. An end that cannot be stored is stored short;
 * if that cannot be either, whoever waits is told all the same, and it is tried until it can.
 *
 * Its record says before the sandbox is made that there may be one: what a crash leaves behind is
 * removed by the next berthd, and the records of those that had not ended are `lost`.
 *
 * The time limit counts from the moment when the code begins, for all of it; there is no other.
 */
#ifndef BERTH_DAEMON_RUN_H
#define BERTH_DAEMON_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/list.h"
#include "base/str.h"
#include "daemon/run_log.h"
#include "proto/run_record.h"
#include "proto/run_request.h"
#include "proto/sandbox_id.h"

#define RUNS_WAITING_MAX   1000                /* beyond those that have room */
#define RUNS_UNSAVED_MAX   1000                /* whose ends the store does not take */
#define RUNS_WAITING_BYTES (128 * 1024 * 1024) /* of what they were asked with */
/* Of all that one run returns, with the errors of its tests. With tests the last value counts
 * twice, for it is the result, too. */
#define RUN_VALUES_MAX     (8 * 1024 * 1024)
#define RUN_TEST_ERROR_MAX 512         /* of a test that was not called, or not to its end */
#define RUN_END_ERROR_MAX  (16 * 1024) /* of an end that cannot be stored as a whole */
/* What a record can come to: what was asked, what was said, and a few names beside each. */
#define RUN_RECORD_MAX                                                                             \
	(RUN_BODY_MAX + RUN_METADATA_MAX + RUN_VALUES_MAX + RUN_LOG_MAX + RUN_ERROR_MAX +          \
	 RUN_TESTS_MAX * (RUN_TEST_ERROR_MAX + 128) + 8 * 1024)

struct pool;
struct registry;
struct run;
struct run_log;
struct runs;

/* How many may be at work at once; 0: twice the processors, and at least 4. */
unsigned runs_max_of(unsigned wanted, unsigned cpus);

/* Marks what an earlier berthd left as lost, and removes their sandboxes. NULL without memory. */
struct runs *runs_new(struct registry *registry, unsigned max);
void runs_set_max(struct runs *runs, unsigned max);
struct pool *runs_pool(const struct runs *runs);
/* Nothing more is begun, stored or told. The registry is freed between these two. */
void runs_stop(struct runs *runs);
void runs_free(struct runs *runs);

/* Those that wait and those that are at work. */
void runs_count(const struct runs *runs, unsigned *ret_waiting, unsigned *ret_active);

/* Somebody who waits. It belongs to its owner again with `ended`, or run_leave(). */
struct run_wait {
	struct list link;
	struct run *run;
	/* It is stored; or `err` says why not, and there is no run. For whoever joins before. */
	void (*stored)(struct run_wait *wait, const struct err *err);
	/* It has said something more; nothing may be asked of the run but its log. NULL: nobody
	 * needs to know. */
	void (*said)(struct run_wait *wait);
	/* The record is lent for the call; run_find() knows the run no more. */
	void (*ended)(struct run_wait *wait, const struct run_record *record);
};

/*
 * Reads the body and begins. ERR_INVALID_REQUEST, ERR_UNSUPPORTED, ERR_CAPACITY_EXCEEDED: then
 * nothing is called. `ret_is_async` is what the body says.
 */
int run_submit(struct runs *runs, struct str body, struct run_wait *wait, bool *ret_is_async,
	       struct err *err);
/* One whose end is not stored. */
struct run *run_find(struct runs *runs, const struct sandbox_id *id);
bool run_is_stored(const struct run *run);
const struct sandbox_id *run_id(const struct run *run);
void run_join(struct run *run, struct run_wait *wait);
void run_leave(struct run_wait *wait);
void run_cancel(struct run *run);

/* What is to be told of a record that is stored: the end of one whose end is not, and that one that
 * is not over, and that nobody knows, is lost. Its texts are lent as those of `stored` are. */
struct run_record run_as_known(struct runs *runs, const struct run_record *stored);

/* What it has said and will say, held for the caller: it is complete with `ended`. */
struct run_log *run_hold_log(const struct run *run);

/* As it is now. Texts live in the arena, or as long as the run is not touched. -ENOMEM. */
int run_view(const struct run *run, struct arena *arena, struct run_record *ret);

#endif
