#include "daemon/sandbox_sleep.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/activity.h"
#include "daemon/context.h"
#include "daemon/events.h"
#include "daemon/registry.h"
#include "daemon/sandbox_expiry.h"
#include "daemon/sandbox_group.h"
#include "daemon/sandbox_state.h"
#include "daemon/sandbox_still.h"
#include "daemon/session.h"
#include "proto/time_text.h"

static bool can_freeze(const struct sandbox *sb)
{
	return keeper_abilities(registry_keeper(sb->registry)) & KEEPER_CAN_FREEZE;
}

/* Its init has ended, and the keeper knows that before us: who waits gets the next life of it. */
static bool has_ended(struct sandbox *sb, const struct err *err)
{
	struct err why;

	if (err->code != ERR_NOT_FOUND && err->code != ERR_SANDBOX_RESTARTED)
		return false;
	err_set(&why, -ECHILD, ERR_EXEC_TRANSPORT_ERROR,
		"the sandbox's first process ended (killed or crashed): everything in it ended "
		"with it");
	sandbox_condemn(sb, &why);
	return true;
}

#define GIVE_WAY_GRACE_MS 10000 /* at most, for one that others wait for */

/* --- freezing --- */

/* It runs on as before: nothing has kept it from its work. */
static void stay_awake(struct sandbox *sb, const struct err *err)
{
	log_warn("sandbox=%s is not frozen: %s", sb->id.text, err->sentence);
	sandbox_enter(sb, SANDBOX_RUNNING);
	activity_go_on(sb);
	sandbox_groups_refill(sb);
	sandbox_tell(sb, &sb->sleeps, err);
	/* What outranks everything does not end because something hangs in the kernel. */
	if (sb->why == SLEPT_MAX_AWAKE)
		sb->is_stop_wanted = true;
	session_step_all(sb);
	context_step_all(sb);
	sandbox_step(sb);
}

static void on_frozen(struct keeper_call *call, struct keeper_answer *answer)
{
	struct sandbox *sb = container_of(call, struct sandbox, call);
	struct err err = answer->err;

	if (answer->result < 0 && has_ended(sb, &err))
		return;
	if (answer->result < 0 && err.code != ERR_UNAVAILABLE) {
		stay_awake(sb, &err);
		return;
	}
	sb->phase = PHASE_STILL;
	if (answer->result < 0) {
		/* It may be frozen or not; who thaws it, or the keeper when it is back, finds out.
		 */
		sandbox_asleep(sb);
		sandbox_tell(sb, &sb->sleeps, &err);
	} else {
		sandbox_note_sleep(sb, SLEEP_FREEZE, sb->why);
	}
	activity_rest(sb);
	if (!registry_is_stopping(sb->registry))
		sandbox_step(sb);
}

void sandbox_freeze(struct sandbox *sb)
{
	struct keeper_ref ref = sandbox_ref(sb);

	sandbox_still_lose(sb, "it goes to sleep");
	sandbox_enter(sb, SANDBOX_FROZEN);
	sb->phase = PHASE_FREEZE;
	activity_end(sb);
	sb->call.done = on_frozen;
	keeper_ask(registry_keeper(sb->registry), &sb->call, KEEPER_FREEZE, &ref);
}

/* --- thawing --- */

static void on_thawed(struct keeper_call *call, struct keeper_answer *answer)
{
	struct sandbox *sb = container_of(call, struct sandbox, call);
	struct err err = answer->err;

	if (answer->result < 0 && has_ended(sb, &err))
		return;
	if (answer->result < 0) {
		sb->phase = PHASE_STILL;
		sb->is_wake_wanted = sb->is_stop_wanted = false;
		activity_rest(sb);
		sandbox_tell(sb, &sb->uses, &err);
		sandbox_tell(sb, &sb->stops, &err);
		if (!registry_is_stopping(sb->registry))
			sandbox_step(sb); /* others have come meanwhile */
		return;
	}
	sandbox_thawed(sb);
}

void sandbox_thawed(struct sandbox *sb)
{
	bool is_to_stop = !list_is_empty(&sb->stops) || sb->is_stop_wanted;

	if (!is_to_stop)
		sandbox_tell_woke(sb, WOKE_FROZEN);
	sb->is_woken = !is_to_stop;
	if (!sb->agent) {
		sandbox_enter(sb, SANDBOX_STARTING);
		sandbox_take_over(sb, sb->init_pid);
		return;
	}
	sandbox_enter(sb, SANDBOX_RUNNING);
	if (!is_to_stop)
		sandbox_note_wake(sb, WOKE_FROZEN);
	activity_wake(sb);
	sandbox_groups_refill(sb);
	/* Who asked for a stop, and only then who needs it: they get the next life. */
	if (is_to_stop) {
		sandbox_terminate(sb);
		return;
	}
	sandbox_awake(sb);
	session_step_all(sb);
	context_step_all(sb);
	sandbox_step(sb);
}

void sandbox_thaw(struct sandbox *sb)
{
	struct keeper_ref ref = sandbox_ref(sb);

	sb->phase = PHASE_THAW;
	sb->is_wake_wanted = false;
	activity_end(sb);
	sb->call.done = on_thawed;
	keeper_ask(registry_keeper(sb->registry), &sb->call, KEEPER_THAW, &ref);
}

void sandbox_wake(struct sandbox *sb)
{
	if (sb->state != SANDBOX_FROZEN)
		return;
	sb->is_wake_wanted = true;
	sandbox_step(sb);
}

/* --- stopping --- */

void sandbox_quiet(struct sandbox *sb)
{
	if (sb->state == SANDBOX_STOPPING && sb->phase == PHASE_QUIET)
		sandbox_kill(sb);
}

/* Whoever gives way does so soon: others wait for that. */
static uint64_t grace_of(const struct sandbox *sb)
{
	uint64_t grace = sb->settings.times.stop_grace;
	bool gives_way = sb->why == SLEPT_CAPACITY || sb->why == SLEPT_MEMORY;

	return gives_way && grace > GIVE_WAY_GRACE_MS ? GIVE_WAY_GRACE_MS : grace;
}

void sandbox_terminate(struct sandbox *sb)
{
	bool is_asked = list_is_empty(&sb->deletes) && sb->settings.times.stop_grace;

	sb->is_condemned = sb->is_stop_wanted = false;
	sandbox_enter(sb, SANDBOX_STOPPING);
	sb->phase = PHASE_QUIET;
	sandbox_stopping(sb);
	sandbox_still_lose(sb, "it is being stopped");
	if (is_asked && agent_send(sb->agent, &(struct channel_message){
						      .head = {AGENT_TERMINATE, FRAME_VERSION, 0},
						      .fields = agent_empty_fields,
					      }) == 0)
		activity_limit(sb, grace_of(sb), sandbox_quiet);
	else
		sandbox_kill(sb);
}

/* --- who wants it --- */

int sandbox_sleep(struct sandbox *sb, enum sleep_mode mode, struct sandbox_wait *wait,
		  struct err *err)
{
	if (mode == SLEEP_AUTO)
		mode = sb->settings.sleep_mode;
	if (mode == SLEEP_FREEZE && !can_freeze(sb))
		return err_set(err, -EOPNOTSUPP, ERR_UNSUPPORTED,
			       "this host cannot freeze a sandbox: without cgroups (rootless) or a "
			       "freezer it can only be stopped");
	if (mode == SLEEP_STOP || !can_freeze(sb))
		return sandbox_stop(sb, wait, err);
	if (sb->state == SANDBOX_COLD || (sb->state == SANDBOX_FROZEN && sb->phase == PHASE_STILL))
		return 1;
	if (sandbox_check_owed(sb, err) < 0)
		return -EAGAIN;
	sb->why = SLEPT_ASKED;
	list_append(&sb->sleeps, &wait->link);
	sandbox_step(sb);
	return 0;
}

/* A client that waits for its command would wait for good if that were frozen. */
void sandbox_fall_asleep(struct sandbox *sb, enum slept_why why)
{
	enum sleep_mode mode = sb->settings.sleep_mode;
	bool is_frozen = can_freeze(sb) && mode != SLEEP_STOP && why != SLEPT_STOP_AFTER &&
			 (mode == SLEEP_FREEZE || !activity_is_used(sb));

	sb->why = why;
	/* An end that cannot be brought to its end is not begun: it works as it is. */
	if (sb->state == SANDBOX_RUNNING && !is_frozen &&
	    keeper_check(registry_keeper(sb->registry), NULL) < 0) {
		/* What is over by the clock stays over: to be awake for too long is one of those.
		 */
		activity_limit(sb, ACTIVITY_RETRY_MS, activity_go_on);
	} else if (sb->state == SANDBOX_RUNNING && is_frozen) {
		sandbox_freeze(sb);
	} else {
		sb->is_stop_wanted = true;
		sandbox_step(sb);
	}
}

static bool is_awaited(const struct sandbox *sb)
{
	return !list_is_empty(&sb->uses) || !list_is_empty(&sb->sleeps) || sb->is_wake_wanted;
}

static bool is_to_end(const struct sandbox *sb)
{
	return !list_is_empty(&sb->stops) || !list_is_empty(&sb->deletes) || sb->is_stop_wanted;
}

bool sandbox_is_spare(const struct sandbox *sb)
{
	/* A keep_alive one was put to sleep by somebody: it is not kept awake now. */
	return sb->state == SANDBOX_FROZEN && sb->phase == PHASE_STILL && !is_awaited(sb) &&
	       !is_to_end(sb) && !activity_has_holds(sb);
}

bool sandbox_is_ending(const struct sandbox *sb)
{
	if (sb->state == SANDBOX_COLD || sb->state == SANDBOX_DESTROYING || sb->is_kill_owed)
		return false;
	/* That may last: nobody counts on it. */
	if (sb->state == SANDBOX_STOPPING && sb->phase == PHASE_QUIET &&
	    grace_of(sb) > GIVE_WAY_GRACE_MS)
		return false;
	return sb->state == SANDBOX_STOPPING || is_to_end(sb) ||
	       (sb->state == SANDBOX_STARTING && sb->phase == PHASE_UNDO);
}

/* --- receipts --- */

/* As they are stored, too. */
static const char *const whys[] = {
	[SLEPT_ASKED] = "asked",         [SLEPT_IDLE] = "idle",
	[SLEPT_MAX_AWAKE] = "max_awake", [SLEPT_STOP_AFTER] = "stop_after",
	[SLEPT_CAPACITY] = "capacity",   [SLEPT_MEMORY] = "memory",
	[SLEPT_FAILED] = "failed",
};

const char *slept_why_name(enum slept_why why)
{
	return whys[why];
}

static void write_text(struct json_writer *w, const char *key, const char *text)
{
	json_key(w, key);
	json_text(w, text);
}

static void write_kept(const struct sandbox_receipt *receipt, struct json_writer *w)
{
	json_key(w, "kept");
	json_array(w);
	if (receipt->mode == SLEEP_FREEZE || !receipt->is_ephemeral)
		json_text(w, "disk");
	if (receipt->mode == SLEEP_FREEZE) {
		json_text(w, "memory");
		json_text(w, "processes");
	}
	json_array_end(w);
}

static void write_slept(struct json_writer *w, const void *arg)
{
	const struct sandbox_receipt *receipt = arg;

	write_text(w, "mode", sleep_mode_name(receipt->mode));
	write_text(w, "reason", whys[receipt->why]);
	write_kept(receipt, w);
}

static void write_woke(struct json_writer *w, const void *arg)
{
	static const char *const whence[] = {
		[WOKE_FROZEN] = "frozen",
		[WOKE_STOPPED] = "stopped",
		[WOKE_ADOPTED] = "adopted",
	};
	const struct sandbox_receipt *wake = arg;

	write_text(w, "from", whence[wake->from]);
	write_kept(wake, w);
}

void sandbox_tell_woke(struct sandbox *sb, enum woke_from from)
{
	struct sandbox_receipt wake = {
		.mode = from == WOKE_STOPPED ? SLEEP_STOP : SLEEP_FREEZE,
		.from = from,
		.is_ephemeral = sb->is_ephemeral,
	};

	event_add(sb, "woke", write_woke, &wake);
}

void sandbox_note_sleep(struct sandbox *sb, enum sleep_mode mode, enum slept_why why)
{
	sb->last_sleep = (struct sandbox_receipt){
		.mode = mode,
		.why = why,
		.is_ephemeral = sb->is_ephemeral,
		.generation = sb->generation,
		.at_ms = registry_now_ms(),
	};
	/* One that died has exited, and one that is deleted is destroyed: neither sleeps. */
	if (why != SLEPT_FAILED && list_is_empty(&sb->deletes))
		event_add(sb, "slept", write_slept, &sb->last_sleep);
	sandbox_asleep(sb);
}

void sandbox_restore_receipt(struct sandbox *sb, const struct sleep_fact *fact)
{
	struct sandbox_receipt last = {.is_ephemeral = sb->is_ephemeral,
				       .generation = fact->generation,
				       .at_ms = fact->at_ms};

	if (!fact->at_ms || sleep_mode_parse(str_of(fact->mode), &last.mode) < 0)
		return;
	for (size_t i = 0; i < array_len(whys); i++) {
		if (strcmp(whys[i], fact->why) == 0) {
			last.why = (enum slept_why)i;
			sb->last_sleep = last;
		}
	}
}

void sandbox_note_wake(struct sandbox *sb, enum woke_from from)
{
	/* There was nothing before the first start that could have been kept. */
	if (from == WOKE_STOPPED && sb->generation == 1)
		return;
	sb->last_wake = (struct sandbox_receipt){
		.mode = from == WOKE_STOPPED ? SLEEP_STOP : SLEEP_FREEZE,
		.from = from,
		.is_ephemeral = sb->is_ephemeral,
		.generation = sb->generation,
		.at_ms = registry_now_ms(),
	};
}

static void write_at(const struct sandbox_receipt *receipt, struct json_writer *w)
{
	json_key(w, "generation");
	json_int(w, (int64_t)receipt->generation);
	time_text_write(w, "at", receipt->at_ms);
}

void sandbox_write_receipt(const struct sandbox_receipt *receipt, struct json_writer *w)
{
	if (receipt->mode == SLEEP_AUTO) {
		json_null(w);
		return;
	}
	json_object(w);
	write_slept(w, receipt);
	write_at(receipt, w);
	json_object_end(w);
}

void sandbox_write_wake(const struct sandbox_receipt *wake, struct json_writer *w)
{
	if (wake->mode == SLEEP_AUTO) {
		json_null(w);
		return;
	}
	json_object(w);
	write_woke(w, wake);
	write_at(wake, w);
	json_object_end(w);
}
