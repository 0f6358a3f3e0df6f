/*
 * What a sandbox may use while it runs, and nobody but us holds it to: its processor time
 * (limits.cpu_time_ms), from one start to the next; and how much of its memory it may hold before
 * that is told (limits.memory_threshold).
 *
 *	runs ──> watched ──> processor time: used up ──> condemned, ERR_CPU_LIMIT
 *	            │
 *	            └──────> memory, once a second: an event when the threshold is crossed
 *
 * One timer for all of them, at the next look that is due; it stands still while nobody that runs
 * has such a limit. A look at processor time is the read of one small file of the cgroup, which
 * counts also what has ended, and goes on when another berthd comes. It is due when all could be
 * used up at the earliest: seldom while there is much left, and every 20 ms at the end. Memory is
 * measured as for anybody who asks (daemon/usage.h).
 *
 * Without a cgroup neither can be had. Init knows the time of processes, but a parent that ignores
 * SIGCHLD makes that of its children vanish, and so every limit could be got around: it is refused.
 */
#ifndef BERTH_DAEMON_ALLOWANCE_H
#define BERTH_DAEMON_ALLOWANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "daemon/usage.h"
#include "proto/settings.h"

struct allowance;
struct registry;
struct sandbox;

/* In the sandbox. */
struct allowance_watch {
	struct list link;                  /* among those that are looked at */
	uint64_t cpu_due_ms, usage_due_ms; /* by the loop's clock */
	bool is_above;                     /* its threshold of memory */
	uint64_t limit_bytes;              /* ... by these, when it was last judged */
	uint32_t threshold_milli;
	uint64_t used_us; /* of processor time, when its last life was ended for that */
	struct usage_wait wait;
};

/* NULL without memory. Frees itself on the loop. */
struct allowance *allowance_new(struct registry *registry);
void allowance_free(struct allowance *allowance);

void allowance_init(struct sandbox *sb);
void allowance_close(struct sandbox *sb);

/* It is in another state, or has other settings. */
void allowance_changed(struct sandbox *sb);

/* ERR_UNSUPPORTED: this host cannot hold a sandbox to these, and why. */
int allowance_check(const struct registry *registry, const struct settings_limits *limits,
		    struct err *err);

#endif
