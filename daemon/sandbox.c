#include "daemon/sandbox.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/activity.h"
#include "daemon/context.h"
#include "daemon/alarm.h"
#include "daemon/capacity.h"
#include "daemon/events.h"
#include "daemon/exec.h"
#include "daemon/exec_stranger.h"
#include "daemon/logs.h"
#include "daemon/ping.h"
#include "daemon/port.h"
#include "daemon/port_connect.h"
#include "daemon/process.h"
#include "daemon/registry.h"
#include "daemon/sandbox_expiry.h"
#include "daemon/sandbox_group.h"
#include "daemon/sandbox_sleep.h"
#include "daemon/sandbox_state.h"
#include "daemon/sandbox_still.h"
#include "daemon/session.h"
#include "daemon/upstream.h"
#include "daemon/vigil.h"

#define BIT(state) (1u << (state))

/* clang-format off */
static const char *const names[SANDBOX_WORDS] = {
	"cold", "starting", "running", "frozen", "stopping", "destroying", "failed",
};

static const unsigned moves[SANDBOX_STATE_COUNT] = {
	[SANDBOX_COLD]       = BIT(SANDBOX_STARTING) | BIT(SANDBOX_FROZEN) | BIT(SANDBOX_DESTROYING),
	[SANDBOX_STARTING]   = BIT(SANDBOX_RUNNING) | BIT(SANDBOX_COLD),
	[SANDBOX_RUNNING]    = BIT(SANDBOX_FROZEN) | BIT(SANDBOX_STOPPING) | BIT(SANDBOX_COLD),
	[SANDBOX_FROZEN]     = BIT(SANDBOX_RUNNING) | BIT(SANDBOX_STARTING) | BIT(SANDBOX_STOPPING) |
			       BIT(SANDBOX_COLD),
	[SANDBOX_STOPPING]   = BIT(SANDBOX_COLD),
	[SANDBOX_DESTROYING] = BIT(SANDBOX_COLD),
};
/* clang-format on */

bool sandbox_state_is_known(struct str name)
{
	for (size_t i = 0; i < array_len(names); i++) {
		if (str_eq(name, str_of(names[i])))
			return true;
	}
	return false;
}

const char *sandbox_state_word(size_t number)
{
	return names[number];
}

size_t sandbox_state_number(const struct sandbox *sb)
{
	if (sb->state == SANDBOX_COLD && sb->last_failure.err.code != ERR_NONE)
		return SANDBOX_STATE_COUNT;
	/* It is not frozen before that was seen. */
	if (sb->state == SANDBOX_FROZEN && sb->phase == PHASE_FREEZE)
		return SANDBOX_RUNNING;
	return sb->state;
}

const char *sandbox_state_name(const struct sandbox *sb)
{
	return names[sandbox_state_number(sb)];
}

void sandbox_enter(struct sandbox *sb, enum sandbox_state state)
{
	enum sandbox_state from;

	assert(moves[sb->state] & BIT(state));
	log_info("sandbox=%s generation=%llu %s -> %s", sb->id.text,
		 (unsigned long long)sb->generation, names[sb->state], names[state]);
	from = sb->state;
	sb->state = state;
	capacity_moved(sb, from);
	allowance_changed(sb);
	if (state == SANDBOX_RUNNING) {
		sb->is_wake_wanted = false;
		vigil_heard(sb); /* while it was frozen it could say nothing */
		vigil_begin(sb);
	}
}

static bool is_usable(const struct sandbox *sb)
{
	return sb->state == SANDBOX_RUNNING && !sb->still;
}

void sandbox_tell(struct sandbox *sb, struct list *waits, const struct err *err)
{
	struct list now;

	/* Whoever is told may wait anew: that is another turn. */
	list_init(&now);
	while (!list_is_empty(waits))
		list_move(&now, waits->next);
	while (!list_is_empty(&now)) {
		struct sandbox_wait *wait = list_entry(now.next, struct sandbox_wait, link);

		/* Its init died while others were told, or one of them keeps it still. */
		if (waits == &sb->uses && !err && !is_usable(sb)) {
			list_move(waits, &wait->link);
			continue;
		}
		list_remove(&wait->link);
		wait->done(wait, sb, err);
	}
}

void sandbox_note_failure(struct sandbox *sb, const struct err *err)
{
	log_error("sandbox=%s generation=%llu failed: %s", sb->id.text,
		  (unsigned long long)sb->generation, err->sentence);
	if (sb->is_unreadable)
		return; /* which is why it cannot be started, and says what to do */
	sb->last_failure.err = *err;
	sb->last_failure.at_ms = registry_now_ms();
	sandbox_save_failure(sb);
}

static struct keeper *keeper_of(struct sandbox *sb)
{
	return registry_keeper(sb->registry);
}

/* --- the end of a life --- */

static void write_exit(struct json_writer *w, const void *arg)
{
	const struct err *why = arg;

	json_key(w, "reason");
	json_text(w, why->code == ERR_MEMORY_LIMIT ? "oom"
		     : why->code == ERR_CPU_LIMIT  ? "cpu_limit"
						   : "died");
	event_write_err(w, why);
}

void sandbox_note_death(struct sandbox *sb, const struct err *why)
{
	sandbox_note_failure(sb, why);
	event_add(sb, "exited", write_exit, why);
}

void sandbox_gone(struct sandbox *sb, const struct err *why)
{
	bool has_run = sb->state != SANDBOX_STARTING || sb->is_adopting;

	if (sb->is_stop_left)
		why = NULL; /* whatever has ended it, that was asked for */
	/* First of all: whoever is told below may ask for it again. */
	sandbox_enter(sb, SANDBOX_COLD);
	sandbox_still_lose(sb, "it has ended");
	activity_end(sb);
	if (has_run)
		sandbox_note_sleep(sb, SLEEP_STOP, why ? SLEPT_FAILED : sb->why);
	else
		sandbox_asleep(sb);
	sb->is_stop_wanted = sb->is_stop_left = sb->is_wake_wanted = false;
	sb->init_pid = 0;
	sb->is_kill_owed = false;
	if (sb->agent)
		agent_free(take(sb->agent));
	exec_lose_all(sb, why);
	process_lose_all(sb); /* of one that was frozen since before us */
	exec_stranger_forget_all(sb);
	session_lose_all(sb);
	context_lose_all(sb, why);
	ping_lose_all(sb);
	upstream_lose_all(sb);
	port_connect_lose_all(sb);
	sandbox_groups_drop(sb);
	if (why && has_run) {
		sandbox_note_death(sb, why);
	} else if (why) {
		sandbox_note_failure(sb, why);
		event_add(sb, "failed", event_write_err, why);
	}
	/* Who waited for one that could not be adopted gets a new life of it instead. */
	if (why && sb->phase == PHASE_UNDO && !sb->is_adopting)
		sandbox_tell(sb, &sb->uses, why);
	sb->is_adopting = false;
	sandbox_step(sb);
}

/* What was begun goes on: whoever is told that it failed is told that, too. */
static void fail_end(struct sandbox *sb, const struct err *why)
{
	struct err end = *why, removal = *why;

	err_wrap(&end, -EIO, "the sandbox is ended as soon as that is possible, and not yet");
	err_wrap(&removal, -EIO,
		 "the sandbox is not removed, but it is ended as soon as that is possible");
	sandbox_tell(sb, &sb->stops, &end);
	sandbox_tell(sb, &sb->sleeps, &end);
	sandbox_tell(sb, &sb->deletes, &removal);
	sandbox_tell(sb, &sb->uses, why);
}

static void on_killed(struct keeper_call *call, struct keeper_answer *answer)
{
	struct sandbox *sb = container_of(call, struct sandbox, call);

	if (answer->result < 0 && answer->err.code != ERR_NOT_FOUND &&
	    answer->err.code != ERR_SANDBOX_RESTARTED) {
		/* The keeper tells when it is down at last, or is asked again when it is back. */
		sb->is_kill_owed = true;
		if (sb->is_condemned)
			exec_lose_all(sb, sb->err.code == ERR_CPU_LIMIT ? &sb->err : &answer->err);
		fail_end(sb, &answer->err);
		return;
	}
	if (sb->state == SANDBOX_STOPPING)
		sandbox_gone(sb, sb->is_condemned ? &sb->err : NULL);
	else if (sb->state == SANDBOX_STARTING && sb->phase == PHASE_UNDO)
		sandbox_gone(sb, &sb->err);
}

void sandbox_kill(struct sandbox *sb)
{
	struct keeper_ref ref = sandbox_ref(sb);

	if (sb->state == SANDBOX_STOPPING) {
		sb->phase = PHASE_KILL;
		activity_end(sb);
	}
	sb->is_kill_owed = false;
	sb->call.done = on_killed;
	keeper_ask(keeper_of(sb), &sb->call, KEEPER_KILL, &ref);
}

void sandbox_undo(struct sandbox *sb, const struct err *why)
{
	sb->err = *why;
	sb->phase = PHASE_UNDO;
	sandbox_kill(sb);
}

void sandbox_condemn(struct sandbox *sb, const struct err *why)
{
	if (sb->state == SANDBOX_STARTING && sb->phase == PHASE_AGENT)
		sandbox_undo(sb, why); /* what it told of execs that are adopted makes no sense */
	if (sb->state != SANDBOX_RUNNING && sb->state != SANDBOX_FROZEN)
		return;
	if (sb->state == SANDBOX_FROZEN)
		keeper_cancel(keeper_of(sb), &sb->call);
	sb->err = *why;
	sb->is_condemned = true;
	sandbox_enter(sb, SANDBOX_STOPPING);
	sandbox_kill(sb);
}

/* --- destroying --- */

static void write_destroyed(struct json_writer *w, const void *arg)
{
	static const char *const reasons[] = {
		[DESTROY_REQUEST] = "request",
		[DESTROY_PRUNE] = "prune",
		[DESTROY_DELETE_AFTER] = "delete_after",
	};
	const struct sandbox *sb = arg;

	json_key(w, "reason");
	json_text(w, reasons[sb->destroy_why]);
}

static void on_fact_deleted(void *arg, int result, const struct err *err)
{
	struct sandbox *sb = arg;
	struct err why = *err;

	sandbox_enter(sb, SANDBOX_COLD);
	if (result < 0) {
		sandbox_tell(sb, &sb->deletes, &why);
		sandbox_expiry_arm(sb);
		sandbox_step(sb);
		return;
	}
	assert(!sb->saves); /* what the store had to do before is done */
	event_add(sb, "destroyed", write_destroyed, sb);
	logs_remove(registry_logs(sb->registry), &sb->id, NULL);
	alarm_free_all(sb); /* which may wait for it: nothing is told of it any more */
	port_bury_all(sb);
	registry_unlink(sb->registry, sb); /* whoever is told must not find it any more */
	sandbox_tell(sb, &sb->deletes, NULL);
	sandbox_tell(sb, &sb->stops, NULL);
	sandbox_tell(sb, &sb->sleeps, NULL);
	err_set(&why, -ENOENT, ERR_NOT_FOUND, "the sandbox was deleted meanwhile");
	sandbox_tell(sb, &sb->uses, &why);
	sandbox_tell(sb, &sb->changes, &why);
	keeper_cancel(keeper_of(sb), &sb->thaw_call);
	sandbox_free(sb);
}

static void on_disk_removed(struct keeper_call *call, struct keeper_answer *answer)
{
	struct sandbox *sb = container_of(call, struct sandbox, call);
	struct err err = answer->err;
	int r = answer->result;

	sb->phase = PHASE_FACT;
	if (r == 0)
		r = registry_is_stopping(sb->registry)
			    ? -ESHUTDOWN
			    : store_sandbox_delete(registry_store(sb->registry), &sb->id,
						   on_fact_deleted, sb);
	if (r == 0)
		return;
	if (answer->result == 0)
		store_refuse(&err, r);
	sandbox_enter(sb, SANDBOX_COLD);
	sandbox_tell(sb, &sb->deletes, &err);
	sandbox_expiry_arm(sb);
	sandbox_step(sb);
}

static void begin_destroy(struct sandbox *sb)
{
	struct keeper_ref ref = {str_of(sb->id.text), 0};

	sandbox_enter(sb, SANDBOX_DESTROYING);
	sandbox_limits_drop(sb);
	sb->phase = PHASE_DISK;
	sb->call.done = on_disk_removed;
	keeper_ask(keeper_of(sb), &sb->call, KEEPER_REMOVE, &ref);
}

/* --- what is next --- */

/* Now, or when there is room. */
static int begin_life(struct sandbox *sb, struct err *err)
{
	int r = capacity_admit(sb, err);

	return r == 1 ? sandbox_start(sb, err) : r;
}

void sandbox_room(struct sandbox *sb, const struct err *err)
{
	struct err why;

	if (err)
		why = *err;
	/* Whoever waited may have gone. */
	if (!list_is_empty(&sb->uses) && (err || sandbox_start(sb, &why) < 0))
		sandbox_tell(sb, &sb->uses, &why);
	sandbox_discard(sb);
}

static void step_frozen(struct sandbox *sb)
{
	if (sb->phase != PHASE_STILL)
		return;
	sandbox_tell(sb, &sb->sleeps, NULL);
	if (!list_is_empty(&sb->deletes)) {
		sb->is_condemned = false;
		sandbox_enter(sb, SANDBOX_STOPPING);
		sandbox_stopping(sb);
		sandbox_kill(sb);
	} else if (!list_is_empty(&sb->uses) || !list_is_empty(&sb->stops) || sb->is_wake_wanted ||
		   sb->is_stop_wanted) {
		sandbox_thaw(sb); /* to be stopped, its processes have to hear of it */
	}
}

void sandbox_step(struct sandbox *sb)
{
	struct err err;

	switch (sb->state) {
	case SANDBOX_COLD:
		if (process_is_ending(sb))
			break; /* nobody hears that all has ended before that is stored */
		sandbox_tell(sb, &sb->stops, NULL);
		sandbox_tell(sb, &sb->sleeps, NULL);
		if (!list_is_empty(&sb->deletes))
			begin_destroy(sb);
		else if (!list_is_empty(&sb->uses) && begin_life(sb, &err) < 0)
			sandbox_tell(sb, &sb->uses, &err);
		break;
	case SANDBOX_RUNNING:
		sandbox_tell(sb, &sb->uses, NULL);
		if (sb->state != SANDBOX_RUNNING)
			break; /* who was told found its init dead */
		if (!list_is_empty(&sb->stops) || !list_is_empty(&sb->deletes) ||
		    sb->is_stop_wanted)
			sandbox_terminate(sb);
		else if (!list_is_empty(&sb->sleeps) && !sb->still)
			sandbox_freeze(sb);
		break;
	case SANDBOX_FROZEN:
		step_frozen(sb);
		break;
	case SANDBOX_STOPPING:
		if (sb->phase == PHASE_QUIET && !list_is_empty(&sb->deletes))
			sandbox_kill(sb); /* nothing of it is wanted any more */
		break;
	case SANDBOX_STARTING:
	case SANDBOX_DESTROYING:
	case SANDBOX_STATE_COUNT:
		break; /* the answer that is waited for steps on */
	}
}

void sandbox_processes_ended(struct sandbox *sb)
{
	if (sb->state == SANDBOX_COLD)
		sandbox_step(sb);
}

int sandbox_check_owed(const struct sandbox *sb, struct err *err)
{
	if (!sb->is_kill_owed)
		return 0;
	return err_set(
		err, -EAGAIN, ERR_UNAVAILABLE,
		"the sandbox could not be ended: try again, or restart Berth if berth-keeper "
		"is gone (`berth down`, then `berth up`)");
}

/* An init that was killed a moment ago: the loop has not heard of it yet, but its user must not. */
static void check_init(struct sandbox *sb)
{
	struct err err;

	if (sb->state != SANDBOX_RUNNING || !agent_is_gone(sb->agent))
		return;
	err_set(&err, -EPIPE, ERR_EXEC_TRANSPORT_ERROR, "the sandbox's init has ended");
	sandbox_condemn(sb, &err);
}

int sandbox_use(struct sandbox *sb, struct sandbox_wait *wait, struct err *err)
{
	int r;

	activity_touch(sb);
	check_init(sb);
	if (is_usable(sb))
		return 1;
	sandbox_needed(sb);
	if (sandbox_check_owed(sb, err) < 0)
		return -EAGAIN;
	if (sb->is_unreadable) {
		*err = sb->last_failure.err;
		return -EBADMSG;
	}
	/* A stop that is still there waits for what it ended to be stored: it would end the new
	 * life too. */
	if (sb->state == SANDBOX_COLD && list_is_empty(&sb->deletes) && list_is_empty(&sb->stops)) {
		r = begin_life(sb, err);
		if (r < 0)
			return r;
	}
	list_append(&sb->uses, &wait->link);
	if ((sb->state == SANDBOX_FROZEN || sb->state == SANDBOX_STARTING) && sb->is_stop_wanted) {
		sb->is_stop_wanted = false; /* that was only because nobody needed it */
		capacity_reclaimed(sb);
	}
	if (sb->state == SANDBOX_FROZEN)
		sandbox_step(sb);
	return 0;
}

bool sandbox_use_again(struct sandbox *sb, struct sandbox_wait *wait)
{
	struct err err;

	if (wait->is_second)
		return false;
	wait->is_second = true;
	return sandbox_use(sb, wait, &err) == 0;
}

/* Without a keeper nothing is begun: its processes would be asked to end, and that is all. */
static int check_end(const struct sandbox *sb, struct err *err)
{
	int r = sandbox_check_owed(sb, err);

	if (r == 0 && sb->state != SANDBOX_COLD)
		r = keeper_check(registry_keeper(sb->registry), err);
	return r;
}

int sandbox_stop(struct sandbox *sb, struct sandbox_wait *wait, struct err *err)
{
	if (sb->state == SANDBOX_COLD)
		return 1;
	if (check_end(sb, err) < 0)
		return -EAGAIN;
	sb->why = SLEPT_ASKED;
	list_append(&sb->stops, &wait->link);
	sandbox_step(sb);
	return 0;
}

int sandbox_delete(struct sandbox *sb, struct sandbox_wait *wait, struct err *err)
{
	if (check_end(sb, err) < 0)
		return -EAGAIN;
	sb->why = SLEPT_ASKED;
	list_append(&sb->deletes, &wait->link);
	sandbox_step(sb);
	return 0;
}

void sandbox_cancel(struct sandbox_wait *wait)
{
	list_remove(&wait->link);
}
