/*
 * Timers by the wall's clock, which may be set: one timerfd for all of them, so that a clock that
 * jumps is heard of, and what has become due by that is due at once.
 */
#ifndef BERTH_DAEMON_WALLCLOCK_H
#define BERTH_DAEMON_WALLCLOCK_H

#include <stdint.h>

#include <uv.h>

struct wallclock;

/* Embedded in what it is about. Zeroed, with `due` filled in, it is one that is not set. */
struct wall_timer {
	/* Called once for each time that it was set, on the loop; it may be set anew there, to a
	 * time that is not yet. */
	void (*due)(struct wall_timer *timer);
	int64_t at_ms; /* since 1970 */
	/* Of wallclock.c, a pairing heap: the first child, the next sibling, and what points to
	 * it, NULL if it is not set. */
	struct wall_timer *child, *next, **from;
};

/* The clock was set by so much, which may be less than nothing; what is due by that comes after. */
typedef void wallclock_set_fn(void *arg, int64_t by_ms);

/* 0, or a negative errno. `was_set` may be NULL. */
int wallclock_new(struct wallclock **ret, uv_loop_t *loop, wallclock_set_fn *was_set, void *arg);
/* Nothing is called any more; timers that are still set must be gone, or not be touched. */
void wallclock_free(struct wallclock *clock);

/* Also one that is set already. What is past is due in the loop's next turn. */
void wallclock_set(struct wallclock *clock, struct wall_timer *timer, int64_t at_ms);
void wallclock_clear(struct wallclock *clock, struct wall_timer *timer);

#endif
