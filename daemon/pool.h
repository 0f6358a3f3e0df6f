/*
 * The warm pool: started sandboxes for runs, each with the kernel of one language loaded, and with
 * the limits of the preset that runs have by default.
 *
 *	storing ──> starting ──> warming ──> warm ──a run takes it──> the run's
 *	   │            │            │         │
 *	   └────────────┴────────────┴─────────┴── cannot, died, unwanted: removed
 *
 * One is made at a time, and none while memory is short or half of `max_running` is in use. None
 * is used twice: whoever takes one deletes it. That there may be one is stored before it is made,
 * so what a crash leaves is removed by the next berthd. Belongs to the runs.
 */
#ifndef BERTH_DAEMON_POOL_H
#define BERTH_DAEMON_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/json.h"
#include "proto/kernel.h"
#include "proto/sandbox_id.h"
#include "proto/settings.h"

struct pool;
struct runs;

/* NULL without memory. */
struct pool *pool_new(struct runs *runs);
/* After the registry. Frees itself on the loop. */
void pool_free(struct pool *pool);
/* Another configuration: those that are warm were started with the one before, and go. */
void pool_renew(struct pool *pool);

/* A warm one that these settings can be given to while it runs; false: there is none. */
bool pool_take(struct pool *pool, enum kernel_language language, const struct settings *wanted,
	       struct sandbox_id *ret);
/* One that was taken is gone. */
void pool_gone(struct pool *pool);

/* All that are not taken go, and no others come until pool_prime(). */
void pool_shut(struct pool *pool);
void pool_prime(struct pool *pool);

struct pool_stats {
	unsigned warm, assigned, total;
	uint64_t taken; /* since berthd came */
};
struct pool_stats pool_stats(const struct pool *pool);

#endif
