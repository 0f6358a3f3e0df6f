#include "daemon/allowance.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "daemon/allowance_rule.h"
#include "daemon/events.h"
#include "daemon/registry.h"
#include "daemon/sandbox.h"
#include "daemon/sandbox_sleep.h"
#include "proto/units.h"

#define MEASURE_MS 1000

struct allowance {
	struct registry *registry;
	struct list watched;
	uv_timer_t timer;
	uint64_t cpus_milli; /* of the host */
};

static uint64_t now_of(const struct sandbox *sb)
{
	return uv_now(registry_loop(sb->registry));
}

/* --- processor time --- */

static void end_life(struct sandbox *sb)
{
	char time[DURATION_TEXT_SIZE];
	struct err err;

	if (sb->state == SANDBOX_STOPPING) {
		sandbox_quiet(sb); /* it is to end anyway, but not as slowly as it may like */
		return;
	}
	duration_format(sb->settings.limits.cpu_time_ms, time);
	err_set(&err, -ETIME, ERR_CPU_LIMIT,
		"the sandbox used up the %s of processor time that it has for one life "
		"(limits.cpu_time_ms): it was ended%s, and the next request starts it anew",
		time, sb->is_ephemeral ? "" : ", its disk is kept");
	sandbox_condemn(sb, &err);
}

static uint64_t speed_of(const struct allowance *a, const struct sandbox *sb)
{
	uint32_t limit = sb->settings.limits.cpu_milli;

	return limit && limit < a->cpus_milli ? limit : a->cpus_milli;
}

static void judge_cpu(const struct allowance *a, struct sandbox *sb, uint64_t used_us)
{
	uint64_t limit_us = sb->settings.limits.cpu_time_ms * 1000;

	if (used_us < limit_us) {
		sb->watch.cpu_due_ms =
			now_of(sb) + allowance_look_ms(limit_us - used_us, speed_of(a, sb));
	} else {
		sb->watch.cpu_due_ms = now_of(sb) + MEASURE_MS;
		sb->watch.used_us = used_us;
		end_life(sb);
	}
}

/* --- memory --- */

struct crossing {
	uint64_t held, limit;
	uint32_t threshold_milli;
};

static void write_crossing(struct json_writer *w, const void *arg)
{
	const struct crossing *c = arg;

	json_key(w, "held_bytes");
	json_int(w, (int64_t)c->held);
	json_key(w, "limit_bytes");
	json_int(w, (int64_t)c->limit);
	json_key(w, "threshold");
	json_double(w, c->threshold_milli / 1000.0);
}

static void judge_memory(struct sandbox *sb, const struct usage_figures *f)
{
	struct crossing c = {.threshold_milli = sb->settings.limits.memory_threshold_milli};

	if (!c.threshold_milli || f->held_bytes < 0 || f->limit_bytes <= 0)
		return;
	c.held = (uint64_t)f->held_bytes;
	c.limit = (uint64_t)f->limit_bytes;
	/* Another mark was crossed before, or was not. */
	if (sb->watch.limit_bytes != c.limit || sb->watch.threshold_milli != c.threshold_milli)
		sb->watch.is_above = false;
	sb->watch.limit_bytes = c.limit;
	sb->watch.threshold_milli = c.threshold_milli;
	if (allowance_crosses(&sb->watch.is_above, c.held, c.limit, c.threshold_milli))
		event_add(sb, "memory_threshold", write_crossing, &c);
}

/* --- looking --- */

static bool is_read_here(const struct sandbox *sb)
{
	return sb->settings.limits.cpu_time_ms && sb->usage_fd >= 0;
}

/* Its processor time too, where its file was lost on the way to us. */
static bool is_measured(const struct sandbox *sb)
{
	const struct settings_limits *limits = &sb->settings.limits;

	return sb->state == SANDBOX_RUNNING &&
	       (limits->memory_threshold_milli || (limits->cpu_time_ms && sb->usage_fd < 0));
}

static void judge_figures(struct sandbox *sb)
{
	const struct usage_figures *f = usage_figures(sb);
	const struct allowance *a = registry_allowance(sb->registry);

	if (!f || !is_measured(sb))
		return;
	judge_memory(sb, f);
	if (sb->settings.limits.cpu_time_ms && sb->usage_fd < 0 && f->cpu_us >= 0)
		judge_cpu(a, sb, (uint64_t)f->cpu_us);
}

static void on_measured(struct usage_wait *wait, const struct err *err)
{
	struct sandbox *sb = container_of(wait, struct sandbox, watch.wait);

	/* Then there is nobody to tell. */
	if (!registry_is_stopping(sb->registry))
		judge_figures(sb);
}

static void look_at(const struct allowance *a, struct sandbox *sb)
{
	struct allowance_watch *w = &sb->watch;
	uint64_t now = now_of(sb), used_us;

	if (is_measured(sb) && w->usage_due_ms <= now) {
		w->usage_due_ms = now + MEASURE_MS;
		usage_cancel(&w->wait);
		if (usage_measure(sb, &w->wait) != 0)
			judge_figures(sb);
	}
	if (is_read_here(sb) && w->cpu_due_ms <= now) {
		w->cpu_due_ms = now + MEASURE_MS;
		if (usage_read_cpu(sb, &used_us) == 0)
			judge_cpu(a, sb, used_us);
	}
}

/* --- the timer --- */

static uint64_t due_of(const struct sandbox *sb)
{
	uint64_t due = is_measured(sb) ? sb->watch.usage_due_ms : UINT64_MAX;

	return is_read_here(sb) && sb->watch.cpu_due_ms < due ? sb->watch.cpu_due_ms : due;
}

static void on_timer(uv_timer_t *timer);

static void arm(struct allowance *a)
{
	uint64_t due = UINT64_MAX, now = uv_now(a->timer.loop);

	list_for_each (node, &a->watched) {
		uint64_t its = due_of(list_entry(node, struct sandbox, watch.link));

		due = its < due ? its : due;
	}
	if (due == UINT64_MAX)
		uv_timer_stop(&a->timer);
	else
		uv_timer_start(&a->timer, on_timer, due > now ? due - now : 0, 0);
}

static void on_timer(uv_timer_t *timer)
{
	struct allowance *a = container_of(timer, struct allowance, timer);

	list_for_each_safe (node, &a->watched)
		look_at(a, list_entry(node, struct sandbox, watch.link));
	arm(a);
}

static bool is_watched(const struct sandbox *sb)
{
	/* What is asked to end may still be busy with something else. */
	return is_measured(sb) || (is_read_here(sb) &&
				   (sb->state == SANDBOX_RUNNING || sb->state == SANDBOX_STOPPING));
}

void allowance_changed(struct sandbox *sb)
{
	struct allowance *a = registry_allowance(sb->registry);
	struct allowance_watch *w = &sb->watch;

	if (sb->state == SANDBOX_COLD || !sb->settings.limits.memory_threshold_milli)
		w->is_above = false;
	list_remove(&w->link);
	w->cpu_due_ms = w->usage_due_ms = 0; /* at once */
	if (is_watched(sb))
		list_append(&a->watched, &w->link);
	arm(a);
}

/* --- life --- */

void allowance_init(struct sandbox *sb)
{
	list_init(&sb->watch.link);
	list_init(&sb->watch.wait.link);
	sb->watch.wait.done = on_measured;
}

void allowance_close(struct sandbox *sb)
{
	list_remove(&sb->watch.link);
	usage_cancel(&sb->watch.wait);
}

struct allowance *allowance_new(struct registry *registry)
{
	struct allowance *a = calloc(1, sizeof(*a));
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	if (!a)
		return NULL;
	a->registry = registry;
	a->cpus_milli = cpus > 0 ? (uint64_t)cpus * 1000 : 1000;
	list_init(&a->watched);
	uv_timer_init(registry_loop(registry), &a->timer);
	return a;
}

static void on_closed(uv_handle_t *handle)
{
	free(container_of((uv_timer_t *)handle, struct allowance, timer));
}

void allowance_free(struct allowance *allowance)
{
	uv_close((uv_handle_t *)&allowance->timer, on_closed);
}

int allowance_check(const struct registry *registry, const struct settings_limits *limits,
		    struct err *err)
{
	uint32_t abilities = keeper_abilities(registry_keeper(registry));

	if (limits->memory_threshold_milli && !(abilities & KEEPER_CAN_LIMIT_MEMORY))
		return err_set(err, -EOPNOTSUPP, ERR_UNSUPPORTED,
			       "this host cannot limit memory (no such cgroup controller for us), "
			       "so there is nothing that limits.memory_threshold could be a part "
			       "of");
	if (limits->cpu_time_ms && !(abilities & KEEPER_COUNTS_CPU))
		return err_set(err, -EOPNOTSUPP, ERR_UNSUPPORTED,
			       "this host cannot hold limits.cpu_time_ms: without a cgroup for us "
			       "nobody counts all of a sandbox's processor time");
	return 0;
}
