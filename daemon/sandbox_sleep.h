/*
 * How a sandbox goes to sleep, and wakes: by freezing it, which keeps its processes and their
 * memory, or by stopping it, which keeps its disk.
 *
 *	running ──FREEZE──> frozen ──stop_after──> (thawed, then stopped)
 *	   ^                  │
 *	   └──────THAW────────┘ whoever needs it
 *
 *	running ──TERMINATE──> stopping ──QUIET, or stop_grace is over──> KILL ──> cold
 */
#ifndef BERTH_DAEMON_SANDBOX_SLEEP_H
#define BERTH_DAEMON_SANDBOX_SLEEP_H

#include "daemon/sandbox.h"
#include "proto/json.h"

/*
 * As sandbox_stop(); SLEEP_AUTO is what the sandbox's settings say. 1: it sleeps already, in
 * whichever way. ERR_UNSUPPORTED where it is to be frozen and cannot be.
 */
int sandbox_sleep(struct sandbox *sb, enum sleep_mode mode, struct sandbox_wait *wait,
		  struct err *err);

/* By itself. */
void sandbox_fall_asleep(struct sandbox *sb, enum slept_why why);
/* It is frozen, and nobody needs it: it may be stopped. */
bool sandbox_is_spare(const struct sandbox *sb);
/* Its container is about to go. */
bool sandbox_is_ending(const struct sandbox *sb);
/* If it is frozen, or about to be; nobody waits for it. */
void sandbox_wake(struct sandbox *sb);

/* Of its last sleep and its last wake; null if there was none. */
void sandbox_write_receipt(const struct sandbox_receipt *receipt, struct json_writer *w);
void sandbox_write_wake(const struct sandbox_receipt *wake, struct json_writer *w);

/* "asked", "idle", ... */
const char *slept_why_name(enum slept_why why);
/* Of its last sleep, as it was stored. */
void sandbox_restore_receipt(struct sandbox *sb, const struct sleep_fact *fact);

/* For sandbox*.c. */
void sandbox_freeze(struct sandbox *sb);
void sandbox_thaw(struct sandbox *sb);
/* It is not frozen, or not any more. */
void sandbox_thawed(struct sandbox *sb);
/* Everything in it is asked to end; then it is killed. */
void sandbox_terminate(struct sandbox *sb);
void sandbox_quiet(struct sandbox *sb);
void sandbox_note_sleep(struct sandbox *sb, enum sleep_mode mode, enum slept_why why);
void sandbox_note_wake(struct sandbox *sb, enum woke_from from);
/* The event: it slept, and does so no more. */
void sandbox_tell_woke(struct sandbox *sb, enum woke_from from);

#endif
