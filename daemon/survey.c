#include "daemon/survey.h"

#include <stdlib.h>

#include <uv.h>

#include "base/cleanup.h"
#include "daemon/registry.h"
#include "daemon/sandbox.h"
#include "daemon/usage.h"

struct slot {
	struct survey *survey;
	struct usage_wait wait;
	bool is_used;
};

struct survey {
	struct registry *registry;
	struct list waits;
	uv_timer_t deadline;
	struct slot slots[SURVEY_SLOTS], counts[SURVEY_COUNTS];
	struct sandbox_id at, disk_at; /* the last that was looked at */
	bool is_walking;               /* there may be more to measure */
	bool is_closing;
	uint64_t asked_ms; /* for disks */
};

static struct slot *free_slot(struct slot *slots, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (!slots[i].is_used)
			return &slots[i];
	}
	return NULL;
}

static bool is_idle(const struct survey *s)
{
	for (size_t i = 0; i < array_len(s->slots); i++) {
		if (s->slots[i].is_used)
			return false;
	}
	return !s->is_walking;
}

static void finish(struct survey *s)
{
	s->is_walking = false;
	uv_timer_stop(&s->deadline);
	while (!list_is_empty(&s->waits)) {
		struct survey_wait *wait = list_entry(s->waits.next, struct survey_wait, link);

		list_remove(&wait->link);
		wait->done(wait);
	}
}

static void on_deadline(uv_timer_t *timer)
{
	finish(container_of(timer, struct survey, deadline));
}

static void on_measured(struct usage_wait *wait, const struct err *err);

static void walk(struct survey *s)
{
	struct slot *slot;

	while (s->is_walking && (slot = free_slot(s->slots, array_len(s->slots)))) {
		struct sandbox *sb = registry_next(s->registry, s->at.text);

		if (!sb) {
			s->is_walking = false;
			return;
		}
		s->at = sb->id;
		slot->wait.done = on_measured;
		slot->is_used = usage_measure(sb, &slot->wait) == 0;
	}
}

static void on_measured(struct usage_wait *wait, const struct err *err)
{
	struct slot *slot = container_of(wait, struct slot, wait);
	struct survey *s = slot->survey;

	slot->is_used = false;
	if (s->is_closing)
		return;
	walk(s);
	if (is_idle(s))
		finish(s);
}

/* --- disks --- */

static bool is_due(const struct sandbox *sb, int64_t now_ms)
{
	const struct usage_disk *disk = &sb->usage.disk;
	int64_t rest_ms = (int64_t)disk->took_ms * SURVEY_REST;

	if (!sb->is_stored || sb->usage.is_counting || sandbox_is_leaving(sb))
		return false;
	if (!disk->at_ms)
		return true;
	if (sb->asleep_since_ms)
		return disk->at_ms < sb->asleep_since_ms;
	return now_ms - disk->at_ms > (rest_ms > SURVEY_DISK_MS ? rest_ms : SURVEY_DISK_MS);
}

static void on_counted(struct usage_wait *wait, const struct err *err);

/* Once around at most. */
static void count(struct survey *s)
{
	size_t left = registry_count(s->registry);
	int64_t now_ms = registry_now_ms();
	struct slot *slot = free_slot(s->counts, array_len(s->counts));

	for (; left && slot; left--) {
		struct sandbox *sb = registry_next(s->registry, s->disk_at.text);

		if (!sb)
			sb = registry_next(s->registry, "");
		if (!sb)
			return;
		s->disk_at = sb->id;
		if (!is_due(sb, now_ms))
			continue;
		slot->wait.done = on_counted;
		slot->is_used = usage_count_disk(sb, &slot->wait) == 0;
		slot = free_slot(s->counts, array_len(s->counts));
	}
}

/* What could not be counted is not tried again at once. */
static void on_counted(struct usage_wait *wait, const struct err *err)
{
	struct slot *slot = container_of(wait, struct slot, wait);
	struct survey *s = slot->survey;

	slot->is_used = false;
	if (!s->is_closing && !err &&
	    uv_now(registry_loop(s->registry)) - s->asked_ms < SURVEY_LOOKS_MS)
		count(s);
}

/* --- asking --- */

int survey_begin(struct survey *s, bool disks_wanted, struct survey_wait *wait)
{
	list_init(&wait->link);
	if (disks_wanted) {
		s->asked_ms = uv_now(registry_loop(s->registry));
		count(s);
	}
	if (!s->is_walking) {
		s->at = (struct sandbox_id){""};
		s->is_walking = true;
		walk(s);
	}
	if (is_idle(s))
		return 1;
	if (!uv_is_active((uv_handle_t *)&s->deadline))
		uv_timer_start(&s->deadline, on_deadline, SURVEY_MS, 0);
	list_append(&s->waits, &wait->link);
	return 0;
}

void survey_cancel(struct survey_wait *wait)
{
	list_remove(&wait->link);
}

struct survey *survey_new(struct registry *registry)
{
	struct survey *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->registry = registry;
	list_init(&s->waits);
	for (size_t i = 0; i < array_len(s->slots); i++)
		s->slots[i].survey = s;
	for (size_t i = 0; i < array_len(s->counts); i++)
		s->counts[i].survey = s;
	uv_timer_init(registry_loop(registry), &s->deadline);
	return s;
}

static void on_closed(uv_handle_t *handle)
{
	free(container_of((uv_timer_t *)handle, struct survey, deadline));
}

void survey_free(struct survey *survey)
{
	survey->is_closing = true;
	finish(survey);
	uv_close((uv_handle_t *)&survey->deadline, on_closed);
}
