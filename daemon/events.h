/*
 * What happens to sandboxes, in order, kept and replayed.
 *
 *	event_add ──> waiting ──> one batch at a time to the store ──> recent ──> followers
 *
 * An event is told only when it is on disk. Followers read the newest from memory and whatever is
 * older from the store, so that one who is behind costs nothing but its place.
 */
#ifndef BERTH_DAEMON_EVENTS_H
#define BERTH_DAEMON_EVENTS_H

#include <stdint.h>

#include <uv.h>

#include "base/list.h"
#include "daemon/store_event.h"
#include "proto/json.h"

struct events;
struct sandbox;

#define EVENTS_WAITING_MAX 8192 /* for a store that is busy; more are lost, and that is logged */
#define EVENTS_RECENT_MAX  512  /* in memory */

/* Fields into an open object. */
typedef void event_write_fn(struct json_writer *w, const void *arg);

/*
 * It has happened. `type`: one that proto/event_type.h knows. `write` may be NULL; it is called
 * before this returns. What happens to a sandbox that was never stored is nobody's to know.
 */
void event_add(struct sandbox *sb, const char *type, event_write_fn *write, const void *arg);

/* For event_add(): a struct err as `code` and `message`. */
void event_write_err(struct json_writer *w, const void *err);

/* Somebody who wants to hear that there is more, and that there will be no more. */
struct events_follower {
	struct list link;
	void (*more)(struct events_follower *follower);
	void (*end)(struct events_follower *follower);
};

/* Until its link is removed. */
void events_follow(struct events *events, struct events_follower *follower);
/* berthd stops: nobody shall wait for those who would follow for ever. */
void events_end_all(struct events *events);
bool events_are_ended(const struct events *events);
/*
 * The first event after `after`; NULL: there is none yet. It is lent until the loop turns. False:
 * what comes after that is not in memory, and has to be read from the store.
 */
bool events_next(const struct events *events, uint64_t after, const struct event **ret);
struct store *events_store(const struct events *events);

/*
 * For the registry. Loading comes before the first event; events_check() says whether it went well,
 * once the store has done what was submitted by then. The store may be closed before the events are
 * freed.
 */
struct events *events_new(uv_loop_t *loop, struct store *store);
void events_load(struct events *events);
int events_check(const struct events *events, struct err *err);
void events_free(struct events *events);

#endif
