#include "daemon/sandbox_expiry.h"

#include <stdio.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/activity.h"
#include "daemon/alarm.h"
#include "daemon/registry.h"
#include "daemon/sandbox_sleep.h"
#include "daemon/sandbox_state.h"
#include "proto/time_text.h"

#define AGAIN_MS 1000 /* when it could not be decided, or not be done */

/* 0: it is not deleted by itself. */
static int64_t deletes_at(const struct sandbox *sb)
{
	uint64_t after = sb->settings.times.delete_after;

	if (!sb->is_stored || !sb->asleep_since_ms || after == SETTINGS_NEVER ||
	    sandbox_is_leaving(sb) || alarm_is_pending(sb))
		return 0;
	return sb->asleep_since_ms + (int64_t)after;
}

static void arm(struct sandbox *sb)
{
	struct wallclock *clock = registry_clock(sb->registry);
	int64_t at = registry_is_ready(sb->registry) ? deletes_at(sb) : 0;

	if (at)
		wallclock_set(clock, &sb->expiry, at);
	else
		wallclock_clear(clock, &sb->expiry);
}

static void on_saved(void *arg, int result, const struct err *err)
{
	if (result < 0)
		log_error("a sandbox's sleep is not stored: %s", err->sentence);
}

/* Of one that is being stopped, the receipt that it will have: sandbox_expiry_load() knows it. */
static struct sleep_fact fact_of(const struct sandbox *sb)
{
	bool is_ending = sb->state == SANDBOX_STOPPING && !sb->is_condemned;
	struct sandbox_receipt stop = {
		.mode = SLEEP_STOP,
		.why = sb->why,
		.generation = sb->generation,
		.at_ms = registry_now_ms(),
	};
	const struct sandbox_receipt *last = is_ending ? &stop : &sb->last_sleep;
	struct sleep_fact fact = {
		.since_ms = is_ending ? 0 : sb->asleep_since_ms,
		.at_ms = last->at_ms,
		.generation = last->generation,
	};

	if (last->at_ms) {
		snprintf(fact.mode, sizeof(fact.mode), "%s", sleep_mode_name(last->mode));
		snprintf(fact.why, sizeof(fact.why), "%s", slept_why_name(last->why));
	}
	return fact;
}

/* Whether `done` will be called. */
static bool save_then(const struct sandbox *sb, store_done_fn *done, void *arg)
{
	struct sleep_fact fact = fact_of(sb);

	if (!sb->is_stored || registry_is_stopping(sb->registry))
		return false;
	if (store_sandbox_save_sleep(registry_store(sb->registry), &sb->id, &fact, done, arg) == 0)
		return true;
	log_error("sandbox=%s its sleep is not stored: too much is being stored", sb->id.text);
	return false;
}

static void save(const struct sandbox *sb)
{
	save_then(sb, on_saved, NULL);
}

void sandbox_asleep(struct sandbox *sb)
{
	if (!sb->asleep_since_ms)
		sb->asleep_since_ms = registry_now_ms();
	save(sb);
	arm(sb);
}

void sandbox_stopping(struct sandbox *sb)
{
	save(sb);
}

void sandbox_awake(struct sandbox *sb)
{
	if (sb->asleep_since_ms) {
		sb->asleep_since_ms = 0;
		save(sb);
	}
	arm(sb);
}

static bool is_asleep(const struct sandbox *sb)
{
	return sb->state == SANDBOX_COLD ||
	       (sb->state == SANDBOX_FROZEN && sb->phase == PHASE_STILL);
}

/* Also between two states: what is on its way may fail, and then it sleeps on. */
static bool put_off(struct sandbox *sb)
{
	if (!is_asleep(sb) && !sb->asleep_since_ms)
		return false;
	sb->asleep_since_ms = registry_now_ms();
	arm(sb);
	return true;
}

void sandbox_put_off(struct sandbox *sb)
{
	if (put_off(sb))
		save(sb);
}

/* What is stored of one that leaves may be told only when it has gone. */
bool sandbox_put_off_then(struct sandbox *sb, store_done_fn *done, void *arg)
{
	return put_off(sb) && !sandbox_is_leaving(sb) && save_then(sb, done, arg);
}

void sandbox_needed(struct sandbox *sb)
{
	/* Nobody asked for its deletion, and its disk is still there. */
	if (sb->state != SANDBOX_DESTROYING)
		list_remove(&sb->expiry_wait.link);
	if (sb->settings.times.delete_after != SETTINGS_NEVER)
		sandbox_put_off(sb);
}

/* It did not sleep for longer because of that. */
void sandbox_clock_set(struct sandbox *sb, int64_t by_ms)
{
	int64_t now = registry_now_ms(), since = sb->asleep_since_ms;

	if (!since || by_ms <= 0)
		return;
	sb->asleep_since_ms = since > now - by_ms ? now : since + by_ms;
	save(sb);
	arm(sb);
}

/* --- deleting --- */

static void try_again(struct sandbox *sb)
{
	wallclock_set(registry_clock(sb->registry), &sb->expiry, registry_now_ms() + AGAIN_MS);
}

static void on_deleted(struct sandbox_wait *wait, struct sandbox *sb, const struct err *err)
{
	if (!err)
		return; /* and it is gone */
	log_warn("sandbox=%s is not deleted yet: %s", sb->id.text, err->sentence);
	try_again(sb);
}

static bool is_needed(const struct sandbox *sb)
{
	return !is_asleep(sb) || sb->is_wake_wanted || !list_is_empty(&sb->uses) ||
	       !list_is_empty(&sb->changes) || sb->is_changing || sb->alarms_changing ||
	       !list_is_empty(&sb->port_changes) || activity_has_holds(sb);
}

static void on_expired(struct wall_timer *timer)
{
	struct sandbox *sb = container_of(timer, struct sandbox, expiry);
	struct err err;

	if (registry_is_stopping(sb->registry) || !deletes_at(sb))
		return;
	if (deletes_at(sb) > registry_now_ms()) {
		arm(sb);
		return;
	}
	if (is_needed(sb)) {
		try_again(sb); /* unless it wakes */
		return;
	}
	log_info("sandbox=%s is deleted: it slept for its delete_after", sb->id.text);
	sb->expiry_wait.done = on_deleted;
	sb->destroy_why = DESTROY_DELETE_AFTER;
	if (sandbox_delete(sb, &sb->expiry_wait, &err) < 0)
		on_deleted(&sb->expiry_wait, sb, &err);
}

/* --- life --- */

void sandbox_expiry_init(struct sandbox *sb)
{
	sb->expiry.due = on_expired;
	list_init(&sb->expiry_wait.link);
}

void sandbox_expiry_load(struct sandbox *sb, const struct sleep_fact *fact)
{
	sb->asleep_since_ms = fact->since_ms;
	sandbox_restore_receipt(sb, fact);
	/* A life that was stopped is over; it sleeps, unless that was not finished. */
	if (!fact->since_ms && sb->last_sleep.mode == SLEEP_STOP &&
	    sb->last_sleep.generation == sb->generation) {
		sb->is_stop_left = true;
		sb->why = sb->last_sleep.why;
		sb->last_sleep = (struct sandbox_receipt){0};
	}
}

/* Frozen is the last that was stored of it, so it may have been thawed and used since. */
bool sandbox_ended_unseen(const struct sandbox *sb)
{
	return !sb->asleep_since_ms ||
	       (sb->state == SANDBOX_COLD && sb->last_sleep.mode == SLEEP_FREEZE &&
		sb->last_sleep.generation == sb->generation);
}

void sandbox_expiry_arm(struct sandbox *sb)
{
	arm(sb);
}

void sandbox_expiry_begin(struct sandbox *sb)
{
	if (!is_asleep(sb))
		sandbox_awake(sb);
	else if (sandbox_ended_unseen(sb))
		sandbox_put_off(sb);
	else
		arm(sb);
}

void sandbox_expiry_close(struct sandbox *sb)
{
	wallclock_clear(registry_clock(sb->registry), &sb->expiry);
}

void sandbox_expiry_write(const struct sandbox *sb, struct json_writer *w)
{
	time_text_write(w, "deletes_at", deletes_at(sb));
}
