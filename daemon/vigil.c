#include "daemon/vigil.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/counts.h"
#include "daemon/events.h"
#include "daemon/exec.h"
#include "daemon/ping.h"
#include "daemon/registry.h"
#include "daemon/sandbox.h"
#include "daemon/sandbox_still.h"
#include "proto/time_text.h"
#include "proto/units.h"

#define FRESH_MS 10000 /* a kill that is no older may be what an init died of */

struct vigil {
	struct registry *registry;
	uv_timer_t timer;
	unsigned init_timeout_ms, tick_ms;
};

/* --- want of memory --- */

static void write_kills(struct json_writer *w, const void *arg)
{
	const struct sandbox_oom *oom = arg;

	json_key(w, "kills");
	json_int(w, (int64_t)oom->kills);
}

static void note_kills(struct sandbox *sb, uint64_t kills)
{
	struct sandbox_oom *last = &sb->last_oom;

	if (kills <= sb->oom_seen)
		return;
	registry_counts(sb->registry)->oom_kills += kills - sb->oom_seen;
	sb->oom_seen = kills;
	*last = (struct sandbox_oom){registry_now_ms(), kills, sb->generation};
	log_warn("sandbox=%s generation=%llu out of memory: processes killed by the kernel=%llu",
		 sb->id.text, (unsigned long long)sb->generation, (unsigned long long)kills);
	sandbox_save_oom(sb);
	event_add(sb, "oom", write_kills, last);
}

int64_t vigil_look(struct sandbox *sb)
{
	int64_t kills = sandbox_oom_kills(sb);

	if (kills > 0)
		note_kills(sb, (uint64_t)kills);
	return kills;
}

bool vigil_judge_exit(struct sandbox *sb, const struct keeper_exited *exited, struct err *why)
{
	int status = (int)exited->status;
	bool was_killed = !exited->is_known || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);

	/* Of one that ended while no berthd was there: when that was nobody knows. */
	if (sb->state == SANDBOX_COLD)
		return false;
	note_kills(sb, exited->oom_kills);
	if (!was_killed || !sb->oom_seen || registry_now_ms() - sb->last_oom.at_ms > FRESH_MS)
		return false;
	err_set(why, -ENOMEM, ERR_MEMORY_LIMIT,
		"the sandbox was out of memory, and the kernel killed its first process for that: "
		"everything in it ended with it. Raise limits.memory, or let it hold less (what "
		"is in /dev/shm counts, too)");
	return true;
}

void vigil_write_oom(const struct sandbox *sb, struct json_writer *w)
{
	const struct sandbox_oom *last = &sb->last_oom;

	json_key(w, "last_oom");
	if (!last->kills) {
		json_null(w);
		return;
	}
	json_object(w);
	time_text_write(w, "at", last->at_ms);
	write_kills(w, last);
	json_key(w, "generation");
	json_int(w, (int64_t)last->generation);
	json_object_end(w);
}

/* --- silence --- */

void vigil_heard(struct sandbox *sb)
{
	sb->silent_ticks = sb->asked_ticks = 0;
}

static void condemn(struct sandbox *sb, unsigned timeout_ms)
{
	char time[DURATION_TEXT_SIZE];
	struct err err;

	duration_format(timeout_ms, time);
	err_set(&err, -ETIMEDOUT, ERR_EXEC_TRANSPORT_ERROR,
		"the sandbox's init did not answer for %s: the sandbox was ended%s, and the next "
		"request starts it anew (init_timeout in berthd's configuration says how long it "
		"may take)",
		time, sb->is_ephemeral ? "" : ", its disk is kept");
	sandbox_condemn(sb, &err);
}

/* False: nothing is waited for. */
static bool listen_to(const struct vigil *v, struct sandbox *sb)
{
	enum exec_await awaited =
		list_is_empty(&sb->connects) ? exec_awaited(sb) : EXEC_AWAIT_START;
	unsigned ticks = v->init_timeout_ms / v->tick_ms;

	if (awaited == EXEC_AWAIT_NOTHING) {
		vigil_heard(sb);
		return false;
	}
	sb->silent_ticks++;
	if (!sb->asked_ticks && (awaited == EXEC_AWAIT_START || sb->silent_ticks >= ticks)) {
		ping_nudge(sb);
		sb->asked_ticks = 1;
	} else if (sb->asked_ticks && sb->asked_ticks++ >= ticks) {
		condemn(sb, v->init_timeout_ms);
	}
	return true;
}

/* --- the timer --- */

/* False: there is nothing to look at. */
static bool look_at(const struct vigil *v, struct sandbox *sb)
{
	bool is_counted, is_awaited;

	if (sb->state != SANDBOX_RUNNING)
		return false;
	sandbox_still_thaw(sb);
	is_counted = vigil_look(sb) >= 0;
	is_awaited = listen_to(v, sb);
	return is_counted || is_awaited || sb->is_thaw_owed;
}

static void on_tick(uv_timer_t *timer)
{
	struct vigil *v = container_of(timer, struct vigil, timer);
	struct sandbox_id at = {""};
	struct sandbox *sb;
	bool is_needed = false;

	while ((sb = registry_next(v->registry, at.text))) {
		at = sb->id;
		is_needed |= look_at(v, sb);
	}
	if (!is_needed)
		uv_timer_stop(timer);
}

void vigil_begin(struct sandbox *sb)
{
	struct vigil *v = registry_vigil(sb->registry);

	if (!uv_is_active((uv_handle_t *)&v->timer))
		uv_timer_start(&v->timer, on_tick, v->tick_ms, v->tick_ms);
}

void vigil_load(struct sandbox *sb, const struct sandbox_oom *last)
{
	sb->last_oom = *last;
	sb->oom_seen = last->generation == sb->generation ? last->kills : 0;
}

void vigil_renew(struct sandbox *sb)
{
	sb->oom_seen = 0;
}

struct vigil *vigil_new(struct registry *registry, unsigned init_timeout_ms)
{
	struct vigil *v = calloc(1, sizeof(*v));
	unsigned tick_ms;

	if (!v)
		return NULL;
	v->registry = registry;
	v->init_timeout_ms = init_timeout_ms;
	tick_ms = v->init_timeout_ms / VIGIL_TICKS_MIN;
	v->tick_ms = tick_ms < VIGIL_TICK_MAX_MS ? tick_ms : VIGIL_TICK_MAX_MS;
	uv_timer_init(registry_loop(registry), &v->timer);
	return v;
}

static void on_closed(uv_handle_t *handle)
{
	free(container_of((uv_timer_t *)handle, struct vigil, timer));
}

void vigil_free(struct vigil *vigil)
{
	uv_close((uv_handle_t *)&vigil->timer, on_closed);
}
