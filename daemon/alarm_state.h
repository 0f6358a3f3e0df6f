/*
 * What the files of an alarm share: alarm.c runs it, alarm_change.c makes, replaces and shows it.
 * Nobody else looks inside.
 */
#ifndef BERTH_DAEMON_ALARM_STATE_H
#define BERTH_DAEMON_ALARM_STATE_H

#include <uv.h>

#include "daemon/alarm.h"
#include "daemon/wallclock.h"

struct alarm {
	struct list link;   /* sandbox's alarms */
	struct sandbox *sb; /* NULL: it is nobody's any more, but for those that hold it */
	unsigned holders;
	struct sandbox_id name;
	struct alarm_request asked; /* argv is its own */
	struct alarm_state state;   /* as it is */
	struct alarm_state stored;  /* as it can be told */
	unsigned changes;           /* that were asked for, but for those that failed */
	unsigned changing;          /* of them, under way */

	struct wall_timer timer;
	uv_timer_t retry;
	bool is_busy;   /* its sandbox is being woken, or its command runs; it is held by that */
	unsigned begun; /* `changes` at that time: if there were more, it is another's run */
	struct sandbox_wait wait;
	struct exec *exec;
};

/* A copy whose argv is the caller's to free; -ENOMEM. */
int alarm_copy_request(struct alarm_request *ret, const struct alarm_request *request);
/* One that is never due. NULL without memory. */
struct alarm *alarm_new(struct sandbox *sb, const struct sandbox_id *name);
/* It is something else from now on, also if what it was runs still. Takes the request. */
void alarm_become(struct alarm *a, struct alarm_request *request, const struct alarm_state *state);
/* Nothing of it comes any more, but for a command that runs. */
void alarm_leave(struct alarm *a);

#endif
