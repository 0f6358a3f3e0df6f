/*
 * Children of the keeper that end by themselves: the OCI runtime, a removal. A pool lets so many
 *run at once and keeps the rest waiting in order.
 *
 *	job_queue ──> waiting ──> begin() ──> running ──> on_end(result, status)
 *	                 │           └─ negative ────────────────^
 *	                 └─ job_cancel: as if it had never been
 */
#ifndef BERTH_CONTAINER_JOB_H
#define BERTH_CONTAINER_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "container/loop.h"

struct job_pool {
	struct loop *loop;
	unsigned limit, running, waiting_count, waiting_max;
	struct list waiting;
	bool is_filling;
};

struct job {
	struct list node; /* among the waiting */
	struct job_pool *pool;
	struct watch watch;
	struct timer timer;
	uint64_t timeout_ms;
	bool is_late; /* killed, because it did not end within timeout_ms */
	/* Starts the child and returns its pidfd, which the job then owns, or a negative errno. */
	int (*begin)(struct job *job);
	/* `result` is begin's error or 0; `status` as wait() gives it. May free the job. */
	void (*on_end)(struct job *job, int result, int status);
};

void job_pool_init(struct job_pool *pool, struct loop *loop, unsigned limit, unsigned waiting_max);

/* Unused: neither waiting nor running. */
void job_init(struct job *job);
/*
 * on_end may come before this returns. -EBUSY, and no on_end, when too many wait already; never for
 * a `must`, which is for work that nobody asked for.
 */
int job_queue(struct job *job, struct job_pool *pool, bool must);
/* What follows a job still counts as running: a slot is taken, and given back. */
void job_pool_hold(struct job_pool *pool);
void job_pool_release(struct job_pool *pool);
/* Takes a waiting job out; false if it runs (or ran) and cannot be stopped. */
bool job_cancel(struct job *job);

#endif
