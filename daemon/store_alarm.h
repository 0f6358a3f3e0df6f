/* The durable facts of alarms, as operations of the store. They go with their sandbox. */
#ifndef BERTH_DAEMON_STORE_ALARM_H
#define BERTH_DAEMON_STORE_ALARM_H

#include "daemon/store_sandbox.h"
#include "proto/alarm_request.h"
#include "proto/exec_request.h"

/* The last time that it ran, or was to; all zero if there was none. */
struct alarm_run {
	int64_t due_at_ms;
	int64_t started_at_ms; /* 0: it could not be started yet */
	int64_t ended_at_ms;   /* 0: it runs, or is tried again */
	int reason;            /* enum exec_reason, when it has ended; else -1 */
	int exit_code;         /* -1: null */
	uint64_t attempts;
	uint64_t skipped; /* times at which it was due meanwhile */
	/* Why it did not start, or was lost, as a struct err has it; "": nothing to say. */
	char error[sizeof(((struct err *)NULL)->sentence)];
};

struct alarm_state {
	int64_t next_at_ms; /* 0: never again */
	struct alarm_run run;
};

struct alarm_fact {
	struct sandbox_id sandbox, name;
	struct alarm_request asked; /* its argv too */
	struct alarm_state state;
};

/* As those of store_sandbox.h. */
int store_alarm_save(struct store *store, const struct alarm_fact *fact, store_done_fn *done,
		     void *arg);
/* Its state alone, and only if it is still there. */
int store_alarm_save_state(struct store *store, const struct alarm_fact *fact, store_done_fn *done,
			   void *arg);
int store_alarm_delete(struct store *store, const struct sandbox_id *sandbox,
		       const struct sandbox_id *name, store_done_fn *done, void *arg);

/* In order of their names. */
typedef void store_alarm_each_fn(void *arg, const struct alarm_fact *fact);
int store_alarm_load(struct store *store, store_alarm_each_fn *each, store_done_fn *done,
		     void *arg);

#endif
