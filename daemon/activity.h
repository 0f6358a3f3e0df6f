/*
 * Why a sandbox is awake, and until when. What keeps it awake is a hold: an exec that runs, a
 * request that is being served, a terminal that somebody looks at. The idle time runs only while
 * there is none, and begins anew with whatever is activity without lasting: output, a keystroke, a
 * heartbeat, processor time.
 *
 *	last hold ends ──> idle ──sleep_after──> sandbox_sleep()
 *	                    │ ^
 *	   a hold begins <──┘ └── activity_touch(), or more than a trifle of processor time
 *
 * One timer for each sandbox, in libuv's heap and on its clock. It says when the idle time or
 * max_awake is over, how long a frozen one stays so, and how long a stop may take.
 */
#ifndef BERTH_DAEMON_ACTIVITY_H
#define BERTH_DAEMON_ACTIVITY_H

#define ACTIVITY_RETRY_MS 1000 /* for a sleep that could not be begun */

#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

#include "base/list.h"
#include "proto/json.h"

struct activity;
struct sandbox;

enum hold_kind {
	HOLD_EXEC,
	HOLD_REQUEST, /* a file, an archive, a wait */
	HOLD_TERMINAL,
	HOLD_PREVIEW, /* a request to one of its ports, or a connection with bytes in flight */
};

/* Belongs to what it is about, and ends with it or before. */
struct hold {
	struct list link;
	struct activity *of; /* NULL: it does not hold */
	enum hold_kind kind;
	uint64_t number; /* of an exec; 0: it has none */
	int64_t since_ms;
	const char *name; /* of a terminal; NULL: it has none */
};

/* A zeroed one may be ended, and one that was ended may begin again. */
void hold_begin(struct hold *hold, struct sandbox *sb, enum hold_kind kind);
void hold_end(struct hold *hold);

/* Whatever is told by `sb`'s activity lives as long as it does. NULL without memory. */
struct activity *activity_new(struct sandbox *sb);
void activity_free(struct activity *activity);

/* Something has happened: the idle time begins anew. Cheap. */
void activity_touch(struct sandbox *sb);
/* Its settings have changed. */
void activity_changed(struct sandbox *sb);
/* How much processor time it has used, as its init says. */
void activity_used(struct sandbox *sb, uint64_t cpu_us);

/* It runs since now. */
void activity_wake(struct sandbox *sb);
/* It runs, and did so all the time: it could not be frozen. */
void activity_go_on(struct sandbox *sb);
/* It is frozen; sandbox_sleep() to stop it follows after its stop_after. */
void activity_rest(struct sandbox *sb);
/* Calls `over` after so long, unless another of these comes before. */
void activity_limit(struct sandbox *sb, uint64_t ms, void (*over)(struct sandbox *sb));
/* Nothing more is due: it is cold, or on its way there. */
void activity_end(struct sandbox *sb);

/* What holds it for the longest time, in a word, and since when; NULL: nothing does. */
const char *activity_held_by(const struct sandbox *sb, int64_t *ret_since_ms);
/* Also when it is frozen. */
bool activity_has_holds(const struct sandbox *sb);
/* Whether a request or a command is under way. */
bool activity_is_used(const struct sandbox *sb);
/* `holds` and `sleeps_at`, into an object that the caller has opened. */
void activity_write(const struct sandbox *sb, struct json_writer *w);
/* The latter alone. */
void activity_write_due(const struct sandbox *sb, struct json_writer *w);

#endif
