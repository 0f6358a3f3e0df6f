/*
 * Events as the store keeps them: numbered in the order in which they are stored, by numbers that
 * are never given twice. They are no part of their sandbox: they outlive it.
 *
 * What is kept: of one sandbox its newest EVENTS_OF_ONE_MAX, so that a noisy one pushes out only
 * its own; and of these the newest EVENTS_MAX. Pruning looks at all of them, so it is done once in
 * EVENTS_PRUNE_EVERY: up to that many more are there in between. How far something has been pruned
 * is kept too, so that whoever asks for more is told.
 */
#ifndef BERTH_DAEMON_STORE_EVENT_H
#define BERTH_DAEMON_STORE_EVENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/list.h"
#include "daemon/store.h"
#include "proto/sandbox_id.h"

#define EVENTS_MAX         10000
#define EVENTS_OF_ONE_MAX  500
#define EVENTS_PRUNE_EVERY 250
#define EVENT_TYPE_MAX     31
#define EVENT_DATA_MAX     4096
#define EVENTS_READ_MAX    128 /* at a time */

struct event {
	struct list link;
	uint64_t id; /* 0: it is not stored yet */
	struct sandbox_id sandbox;
	char type[EVENT_TYPE_MAX + 1];
	size_t len;
	char data[]; /* a JSON object without its "id" */
};

/* NULL without memory, or if it is too long. */
struct event *event_new(const struct sandbox_id *sandbox, const char *type, struct str data);
/* All of them. */
void event_free_list(struct list *events);

/* Embedded in its owner, who sets op.done. */
struct store_event_batch {
	struct store_op op;
	struct list events; /* they get their numbers, all of them or none */
	bool is_prune_due;
};
int store_event_save(struct store *store, struct store_event_batch *batch);

struct store_event_read {
	struct store_op op;
	/* Asked for: what is stored behind `after`, of one sandbox or ("") of all. */
	struct sandbox_id sandbox;
	uint64_t after;
	/* Told: the caller's to free. */
	struct list events;
	bool has_more; /* than EVENTS_READ_MAX */
	bool is_known; /* the sandbox has events, whether they were asked for or not */
	uint64_t last; /* the newest number of all events, asked for or not */
	/* Of what was asked for, something up to here is not there any more; 0: all is. */
	uint64_t pruned;
};
int store_event_read(struct store *store, struct store_event_read *read);

#endif
