/*
 * Watching files of a sandbox: berthd's side of a watcher (proto/watch.h). All who watch something
 * in one sandbox share one process inside, which is there from the first of them to the last.
 *
 *	watch_new ──> ready ──> event, overflow ... ──> ended
 *	    └── it cannot be watched, or not any more ────^
 *
 * Nobody is waited for: an event is handed on at once, and whoever cannot take it must say so to
 * its client. A sandbox that makes too many of them is read more slowly; it then loses some, and
 * its watcher says that.
 */
#ifndef BERTH_DAEMON_WATCH_H
#define BERTH_DAEMON_WATCH_H

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "daemon/sandbox.h"
#include "proto/watch.h"

struct watch;

/* Everything is lent for the call. */
struct watch_ops {
	/* From here on nothing is missed. */
	void (*ready)(void *arg, uint32_t directories);
	void (*event)(void *arg, const struct watch_event *event);
	/* Events were lost before this. */
	void (*overflow)(void *arg);
	/* The one end. `reason` is a word ("removed", "moved", "unmounted", "stopped"), or NULL
	 * when it failed, as `err` says; before `ready` it always did. */
	void (*ended)(void *arg, const char *reason, const struct err *err);
};

/*
 * The sandbox runs; `add` is lent for the call, and its number is not the caller's. NULL and `err`
 * if it cannot even be asked for. Nothing is called before this returns.
 */
struct watch *watch_new(struct sandbox *sb, const struct watch_add *add,
			const struct watch_ops *ops, void *arg, struct err *err);

/* Nothing is called any more. Not after `ended`. */
void watch_drop(struct watch *watch);

#endif
