#include "daemon/activity.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "daemon/registry.h"
#include "daemon/sandbox.h"
#include "daemon/sandbox_sleep.h"
#include "daemon/sandbox_still.h"
#include "proto/time_text.h"

/* Processor time is looked at so often while nothing else keeps a sandbox awake. */
#define LOOKS         4 /* in one idle time */
#define LOOK_MIN_MS   100
#define LOOK_MAX_MS   5000
#define BUSY_PERCENT  5    /* of one processor, since the last look: less is a trifle */
#define ANSWER_MAX_MS 2000 /* that an init has to tell what was used, before that is decided */

struct activity {
	struct sandbox *sb; /* NULL: only its timer is left of it */
	uv_timer_t timer;
	struct list holds;
	uint64_t woke_ms, active_ms; /* by the loop's clock */
	void (*over)(struct sandbox *sb);

	uint64_t looked_ms, used_us; /* at the last look at its processor time; 0: none yet */
	unsigned looks;              /* since it is idle */
	int64_t busy_since_ms;       /* by the wall's; 0: it is not */
	bool is_asked;               /* its init was */
	bool is_resting;             /* it is frozen, and not on its way there or back */
};

static uint64_t now_of(const struct activity *a)
{
	return uv_now(a->timer.loop);
}

static uint64_t later(uint64_t at, uint64_t ms)
{
	return ms > UINT64_MAX - at ? UINT64_MAX : at + ms;
}

static const struct settings *settings_of(const struct activity *a)
{
	return &a->sb->settings;
}

static bool is_held(const struct activity *a)
{
	return settings_of(a)->keep_alive || !list_is_empty(&a->holds);
}

/* When it sleeps if nothing happens; UINT64_MAX: it does not. */
static uint64_t due_of(const struct activity *a)
{
	uint64_t end = later(a->woke_ms, settings_of(a)->times.max_awake);
	uint64_t idle =
		is_held(a) ? UINT64_MAX : later(a->active_ms, settings_of(a)->times.sleep_after);

	return idle < end ? idle : end;
}

/* --- processor time --- */

static uint64_t look_ms(const struct activity *a)
{
	uint64_t ms = settings_of(a)->times.sleep_after / LOOKS;

	return ms < LOOK_MIN_MS ? LOOK_MIN_MS : ms > LOOK_MAX_MS ? LOOK_MAX_MS : ms;
}

static void note_usage(struct activity *a, uint64_t used_us)
{
	uint64_t now = now_of(a), ms = now - a->looked_ms;
	bool is_busy = a->looked_ms && used_us > a->used_us &&
		       (used_us - a->used_us) / 10 >= ms * BUSY_PERCENT;

	if (a->looked_ms && ms < LOOK_MIN_MS / 2)
		return; /* too short to tell */
	if (is_busy)
		a->active_ms = now;
	if (is_busy && !a->busy_since_ms)
		a->busy_since_ms = registry_now_ms() - (int64_t)ms;
	if (!is_busy)
		a->busy_since_ms = 0;
	a->looked_ms = now;
	a->used_us = used_us;
}

static void forget_usage(struct activity *a)
{
	a->looked_ms = 0;
	a->looks = 0;
	a->busy_since_ms = 0;
	a->is_asked = false;
}

/* False: the answer is awaited. */
static bool look(struct activity *a)
{
	uint64_t used_us;

	a->looks++;
	if (usage_read_cpu(a->sb, &used_us) == 0) {
		note_usage(a, used_us);
		return true;
	}
	if (a->is_asked) {
		a->is_asked = false;
		return true; /* it did not answer: that is its own loss */
	}
	a->is_asked = a->sb->agent &&
		      agent_send(a->sb->agent, &(struct channel_message){
						       .head = {AGENT_USAGE, FRAME_VERSION, 0},
						       .fields = agent_empty_fields,
					       }) == 0;
	return !a->is_asked;
}

/* --- the timer --- */

static void on_timer(uv_timer_t *timer);

static void arm(struct activity *a)
{
	uint64_t due = due_of(a), now = now_of(a);
	uint64_t end = later(a->woke_ms, settings_of(a)->times.max_awake);

	/* The first look only sees where it stands: there must be another. */
	if (!is_held(a) && settings_of(a)->times.sleep_after != SETTINGS_NEVER &&
	    (due > now + look_ms(a) || a->looks < 2))
		due = now + look_ms(a);
	if (due > end)
		due = end; /* whatever it does until then */
	if (due == UINT64_MAX)
		uv_timer_stop(&a->timer);
	else
		uv_timer_start(&a->timer, on_timer, due > now ? due - now : 0, 0);
}

static void decide(struct activity *a)
{
	struct sandbox *sb = a->sb;
	uint64_t now = now_of(a);

	if (now >= later(a->woke_ms, settings_of(a)->times.max_awake))
		sandbox_fall_asleep(sb, SLEPT_MAX_AWAKE);
	else if (now >= due_of(a) && a->looks >= 2)
		sandbox_fall_asleep(sb, SLEPT_IDLE);
	else
		arm(a);
}

static void on_timer(uv_timer_t *timer)
{
	struct activity *a = container_of(timer, struct activity, timer);

	if (a->over) {
		a->over(a->sb);
		return;
	}
	if (is_held(a) || look(a))
		decide(a);
	else
		uv_timer_start(&a->timer, on_timer, ANSWER_MAX_MS, 0);
}

void activity_used(struct sandbox *sb, uint64_t cpu_us)
{
	struct activity *a = sb->activity;

	if (!a->is_asked || a->over || sb->state != SANDBOX_RUNNING)
		return;
	a->is_asked = false;
	note_usage(a, cpu_us);
	decide(a);
}

/* --- holds --- */

void hold_begin(struct hold *hold, struct sandbox *sb, enum hold_kind kind)
{
	if (hold->of)
		return;
	hold->of = sb->activity;
	hold->kind = kind;
	hold->since_ms = registry_now_ms();
	list_init(&hold->link);
	list_append(&sb->activity->holds, &hold->link);
	forget_usage(sb->activity);
}

void hold_end(struct hold *hold)
{
	struct activity *a = take(hold->of);

	if (!a)
		return;
	list_remove(&hold->link);
	if (a->sb)
		activity_touch(a->sb);
	if (a->sb && !a->over && a->sb->state == SANDBOX_RUNNING && !is_held(a))
		arm(a);
}

/* The timer finds out when it fires: it is not set anew for every byte. */
void activity_touch(struct sandbox *sb)
{
	sb->activity->active_ms = now_of(sb->activity);
	sb->active_at_ms = registry_now_ms();
}

void activity_changed(struct sandbox *sb)
{
	if (sb->state == SANDBOX_RUNNING)
		arm(sb->activity);
	else if (sb->state == SANDBOX_FROZEN && sb->activity->is_resting)
		activity_rest(sb);
}

bool activity_is_used(const struct sandbox *sb)
{
	list_for_each (node, &sb->activity->holds) {
		const struct hold *hold = list_entry(node, struct hold, link);

		if (hold->kind != HOLD_TERMINAL)
			return true;
	}
	return false;
}

/* --- life --- */

struct activity *activity_new(struct sandbox *sb)
{
	struct activity *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->sb = sb;
	list_init(&a->holds);
	uv_timer_init(registry_loop(sb->registry), &a->timer);
	return a;
}

static void on_closed(uv_handle_t *handle)
{
	free(container_of((uv_timer_t *)handle, struct activity, timer));
}

void activity_free(struct activity *activity)
{
	/* What is closed later than its sandbox may still hold it. */
	while (!list_is_empty(&activity->holds))
		hold_end(list_entry(activity->holds.next, struct hold, link));
	activity->sb = NULL;
	uv_close((uv_handle_t *)&activity->timer, on_closed);
}

void activity_wake(struct sandbox *sb)
{
	struct activity *a = sb->activity;

	a->woke_ms = now_of(a);
	activity_go_on(sb);
}

void activity_go_on(struct sandbox *sb)
{
	struct activity *a = sb->activity;

	a->over = NULL;
	forget_usage(a);
	activity_touch(sb);
	arm(a);
}

static void on_rested(struct sandbox *sb)
{
	sandbox_fall_asleep(sb, SLEPT_STOP_AFTER);
}

/*
 * The wall clock is only for one that was frozen before we came. Its receipt may be of an earlier
 * sleep: it was awake since if it is not stored as asleep, or asleep since later.
 */
static uint64_t rested_ms(const struct sandbox *sb)
{
	const struct sandbox_receipt *last = &sb->last_sleep;
	bool is_known = last->mode == SLEEP_FREEZE && last->generation == sb->generation;
	int64_t since = sb->asleep_since_ms;
	int64_t rested = registry_now_ms() - (since > last->at_ms ? since : last->at_ms);

	return sb->agent || !is_known || !since || rested < 0 ? 0 : (uint64_t)rested;
}

void activity_rest(struct sandbox *sb)
{
	uint64_t after = sb->settings.times.stop_after, rested = rested_ms(sb);
	uint64_t left = after > rested ? after - rested : 0;

	activity_end(sb);
	/* What fails is not tried without a pause. */
	if (after != SETTINGS_NEVER)
		activity_limit(sb,
			       left > ACTIVITY_RETRY_MS || after < ACTIVITY_RETRY_MS
				       ? left
				       : ACTIVITY_RETRY_MS,
			       on_rested);
	sb->activity->is_resting = true;
}

void activity_limit(struct sandbox *sb, uint64_t ms, void (*over)(struct sandbox *sb))
{
	sb->activity->over = over;
	uv_timer_start(&sb->activity->timer, on_timer, ms, 0);
}

void activity_end(struct sandbox *sb)
{
	uv_timer_stop(&sb->activity->timer);
	sb->activity->is_resting = false;
}

/* --- showing --- */

static const char *const kinds[] = {
	[HOLD_EXEC] = "exec",
	[HOLD_REQUEST] = "request",
	[HOLD_TERMINAL] = "terminal",
	[HOLD_PREVIEW] = "preview",
};

const char *activity_held_by(const struct sandbox *sb, int64_t *ret_since_ms)
{
	const struct activity *a = sb->activity;
	const struct hold *first;

	if (!list_is_empty(&a->holds)) {
		first = list_entry(a->holds.next, struct hold, link);
		*ret_since_ms = first->since_ms;
		return kinds[first->kind];
	}
	if (sb->state != SANDBOX_RUNNING || (!sb->settings.keep_alive && !a->busy_since_ms))
		return NULL;
	*ret_since_ms = sb->settings.keep_alive ? sb->started_at_ms : a->busy_since_ms;
	return sb->settings.keep_alive ? "keep_alive" : "cpu";
}

bool activity_has_holds(const struct sandbox *sb)
{
	return !list_is_empty(&sb->activity->holds);
}

static void write_hold(struct json_writer *w, const char *kind, int64_t since_ms, const char *id,
		       const char *detail)
{
	json_object(w);
	json_key(w, "kind");
	json_text(w, kind);
	if (id) {
		json_key(w, "id");
		json_text(w, id);
	}
	time_text_write(w, "since", since_ms);
	if (detail) {
		json_key(w, "detail");
		json_text(w, detail);
	}
	json_object_end(w);
}

static void write_holds(const struct sandbox *sb, struct json_writer *w)
{
	const struct activity *a = sb->activity;
	char number[24];

	if (sb->settings.keep_alive)
		write_hold(w, "keep_alive", sb->started_at_ms, NULL, NULL);
	list_for_each (node, &a->holds) {
		const struct hold *hold = list_entry(node, struct hold, link);

		snprintf(number, sizeof(number), "%" PRIu64, hold->number);
		write_hold(w, kinds[hold->kind], hold->since_ms, hold->number ? number : hold->name,
			   sandbox_still_is_for(sb, hold->number)
				   ? "an archive, for which everything else stands still"
				   : NULL);
	}
	if (a->busy_since_ms)
		write_hold(w, "cpu", a->busy_since_ms, NULL, NULL);
}

/* Of now, not of the loop's last turn: the time that is told would be late by as much. */
void activity_write_due(const struct sandbox *sb, struct json_writer *w)
{
	const struct activity *a = sb->activity;
	uint64_t due = sb->state == SANDBOX_RUNNING ? due_of(a) : UINT64_MAX;
	uint64_t now = uv_hrtime() / 1000000;
	int64_t left = due > now ? (int64_t)(due - now) : 0;

	time_text_write(w, "sleeps_at", due == UINT64_MAX ? 0 : registry_now_ms() + left);
}

void activity_write(const struct sandbox *sb, struct json_writer *w)
{
	json_key(w, "holds");
	json_array(w);
	if (sb->state == SANDBOX_RUNNING)
		write_holds(sb, w);
	json_array_end(w);
	activity_write_due(sb, w);
}
