/*
 * An alarm: a command that a sandbox is woken for, at a time or again and again. It is durable, and
 * the time at which it is next due is stored as the wall's clock has it.
 *
 *	waiting ──due──> the sandbox is woken ──> its command runs ──> that it ended is stored
 *	   ^                      │                     │                       │
 *	   │                      └── failed, lost: tried again, later          │
 *	   └──────────────────────────── the next time ─────────────────────────┘
 *
 * It is due until the end of its command is known and stored: whoever kills berthd before that
 *makes the next one run it again, so it runs at least once. However often it was due meanwhile,
 *that is one run, and the next time is again one of the first time's grid.
 */
#ifndef BERTH_DAEMON_ALARM_H
#define BERTH_DAEMON_ALARM_H

#include <stdbool.h>

#include "base/err.h"
#include "daemon/sandbox.h"
#include "daemon/store_alarm.h"
#include "proto/json.h"

#define ALARMS_MAX         64 /* of a sandbox, also those that are over */
#define ALARM_RETRY_MS     1000
#define ALARM_RETRY_MAX_MS (5 * 60 * 1000)

struct alarm;

/* In order of their names; NULL for the first, and behind the last. */
struct alarm *alarm_next(const struct sandbox *sb, const struct alarm *alarm);
struct alarm *alarm_find(const struct sandbox *sb, const struct sandbox_id *name);
/* As an object: what is stored of it. */
void alarm_write(const struct alarm *alarm, struct json_writer *w);

/* Somebody who waits for a change: called once, on the loop, when it is stored, or cannot be. */
struct alarm_wait {
	void (*done)(struct alarm_wait *wait, const struct err *err);
};

/*
 * Makes or replaces it. 1: it is so already, and goes on as it was; 0: `wait` is called; negative
 * with `err`: it will not be.
 */
int alarm_put(struct sandbox *sb, const struct sandbox_id *name,
	      const struct alarm_request *request, struct alarm_wait *wait, struct err *err);
/* 1: there is none. A command that runs goes on. */
int alarm_delete(struct sandbox *sb, const struct sandbox_id *name, struct alarm_wait *wait,
		 struct err *err);

/* Whether one of them is yet to come, or under way. */
bool alarm_is_pending(const struct sandbox *sb);
/* When the first of these is due, or was; 0: none is. */
int64_t alarm_first_ms(const struct sandbox *sb);

/* For sandbox and registry. */
void alarm_load(struct sandbox *sb, const struct alarm_fact *fact);
/* The keeper has said what runs: what is due may begin. */
void alarm_begin_all(struct sandbox *sb);
void alarm_free_all(struct sandbox *sb);

#endif
