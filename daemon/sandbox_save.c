/* The durable facts of one sandbox: stored before anybody is told of them. */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/activity.h"
#include "daemon/events.h"
#include "daemon/registry.h"
#include "daemon/sandbox.h"
#include "daemon/sandbox_expiry.h"
#include "daemon/sandbox_state.h"

struct save {
	struct sandbox *sb;
	store_done_fn *done;
	void *arg;
	bool has_settings;
	struct settings settings;
	struct keeper_call call;
	uint64_t generation; /* whose limits were asked for */
	bool is_limited;     /* and hold */
	int result;          /* of the store, while the limits before are asked for */
	struct err err;
};

static void free_save(struct save *save)
{
	if (save->has_settings)
		settings_close(&save->settings);
	free(save);
}

/* One whose generation is being stored is started with what is stored then. */
static bool has_begun(const struct sandbox *sb)
{
	return sb->state != SANDBOX_COLD &&
	       !(sb->state == SANDBOX_STARTING && sb->phase == PHASE_STORE);
}

/* Whether that changes anything. */
static bool take_settings(struct save *save)
{
	struct sandbox *sb = save->sb;
	struct settings old = sb->settings;
	bool is_other = sb->is_unreadable || !settings_equal(&old, &save->settings);

	if (has_begun(sb) && !settings_start_alike(&old, &save->settings))
		sb->is_outdated = true;
	sb->settings = save->settings;
	save->settings = old;
	if (sb->is_unreadable) {
		sb->last_failure.err.code = ERR_NONE;
		sandbox_save_failure(sb);
	}
	sb->is_unreadable = false;
	activity_changed(sb);
	allowance_changed(sb);
	return is_other;
}

static void finish(struct save *save, int result, const struct err *err)
{
	struct sandbox *sb = save->sb;
	bool is_change = save->has_settings;

	if (is_change)
		sb->is_changing = false;
	save->done(save->arg, result, err);
	if (is_change)
		sandbox_tell(sb, &sb->changes, sb->is_stored ? NULL : err);
	free_save(save);
	sb->saves--; /* which has kept it so far */
	sandbox_discard(sb);
}

/* --- limits that change while it runs --- */

static void ask_limits(struct sandbox *sb, struct keeper_call *call,
		       const struct settings_limits *limits)
{
	keeper_limit(registry_keeper(sb->registry), call,
		     &(struct keeper_limit){
			     .id = str_of(sb->id.text),
			     .generation = sb->generation,
			     .memory_bytes = limits->memory_bytes,
			     .swap_bytes = limits->swap_bytes,
			     .cpu_milli = limits->cpu_milli,
			     .pids = limits->pids,
			     .disk_bytes = limits->disk_bytes,
			     .io = {limits->io_read, limits->io_write, limits->io_read_ops,
				    limits->io_write_ops},
		     });
}

/* There is nothing any more that the limits could hold in. */
static bool has_ended(const struct keeper_answer *answer)
{
	return answer->result < 0 &&
	       (answer->err.code == ERR_NOT_FOUND || answer->err.code == ERR_SANDBOX_RESTARTED);
}

static void note_limits(struct sandbox *sb, const struct keeper_answer *answer)
{
	/* A keeper that was away says what runs when it is back, and is asked then. */
	if (answer->result == 0 || has_ended(answer) ||
	    !keeper_is_ready(registry_keeper(sb->registry)))
		return;
	log_warn("sandbox=%s its limits are not those that are stored: %s", sb->id.text,
		 answer->err.sentence);
	sb->is_outdated = true;
}

static void on_restored(struct keeper_call *call, struct keeper_answer *answer)
{
	struct save *save = container_of(call, struct save, call);

	save->sb->asked_save = NULL;
	note_limits(save->sb, answer);
	finish(save, save->result, &save->err);
}

/* They are not stored, so they must not hold either. */
static void fail_save(struct save *save, int result, const struct err *err)
{
	struct sandbox *sb = save->sb;

	if (!save->is_limited || save->generation != sb->generation || sb->state == SANDBOX_COLD ||
	    sb->state == SANDBOX_DESTROYING) {
		finish(save, result, err);
		return;
	}
	save->result = result;
	save->err = *err;
	save->call.done = on_restored;
	sb->asked_save = save;
	ask_limits(sb, &save->call, &sb->settings.limits);
}

/* --- the store --- */

/* The settings are stored, whatever came of this. */
static void on_put_off(void *arg, int result, const struct err *err)
{
	struct save *save = arg;

	if (result < 0)
		log_error("sandbox=%s its sleep is not stored: %s", save->sb->id.text,
			  err->sentence);
	finish(save, 0, err);
}

static void on_saved(void *arg, int result, const struct err *err)
{
	struct save *save = arg;
	struct sandbox *sb = save->sb;
	bool is_change = save->has_settings, is_new = !sb->is_stored, is_other = false;

	sb->is_stored = sb->is_stored || result == 0;
	if (is_change && result == 0)
		is_other = take_settings(save);
	if (result == 0 && (is_new || is_other))
		event_add(sb, is_new ? "created" : "changed", NULL, NULL);
	/* Or a berthd that comes after us would delete it before the time that was told. */
	if (is_change && result == 0 && sandbox_put_off_then(sb, on_put_off, save))
		return;
	if (result < 0)
		fail_save(save, result, err);
	else
		finish(save, result, err);
}

static int submit(struct save *save, const struct settings *settings)
{
	struct sandbox *sb = save->sb;
	struct sandbox_fact fact = {
		.id = sb->id,
		.created_at_ms = sb->created_at_ms,
		.generation = sb->generation,
	};
	struct buf text;
	int r;

	if (registry_is_stopping(sb->registry))
		return -ESHUTDOWN;
	buf_init(&text, 2 * (SETTINGS_ENV_MAX + SETTINGS_LABELS_MAX) + 65536);
	r = settings_store(settings, &text);
	fact.settings = (struct str){buf_at(&text), buf_len(&text)};
	if (r == 0)
		r = store_sandbox_save(registry_store(sb->registry), &fact,
				       save->has_settings ? STORE_SETTINGS : STORE_GENERATION,
				       on_saved, save);
	buf_close(&text);
	return r;
}

int sandbox_save_generation(struct sandbox *sb, store_done_fn *done, void *arg)
{
	struct save *save = calloc(1, sizeof(*save));
	int r;

	if (!save)
		return -ENOMEM;
	*save = (struct save){.sb = sb, .done = done, .arg = arg};
	r = submit(save, &sb->settings);
	if (r < 0)
		free_save(save);
	else
		sb->saves++;
	return r;
}

/* --- a change --- */

static void store_change(struct save *save)
{
	int r = submit(save, &save->settings);
	struct err err;

	if (r == 0)
		return;
	store_refuse(&err, r);
	fail_save(save, r, &err);
}

static void step_change(struct save *save);

static void on_limited(struct keeper_call *call, struct keeper_answer *answer)
{
	struct save *save = container_of(call, struct save, call);

	save->sb->asked_save = NULL;
	if (answer->result < 0 && !has_ended(answer)) {
		finish(save, answer->result, &answer->err);
	} else if (save->generation != save->sb->generation) {
		step_change(save); /* another life has begun, with the limits before */
	} else {
		save->is_limited = answer->result == 0;
		store_change(save);
	}
}

/*
 * What is stored while it is cold is what the next start has, as the store does one after the
 * other. A start that was asked for has what was there before: that is waited for. All else has a
 * container, or the keeper says that it has none.
 */
static void step_change(struct save *save)
{
	struct sandbox *sb = save->sb;

	if (sb->state == SANDBOX_COLD || sb->state == SANDBOX_DESTROYING) {
		store_change(save);
	} else if (sb->state == SANDBOX_STARTING &&
		   (sb->phase == PHASE_STORE || sb->phase == PHASE_KEEPER)) {
		sb->limit_save = save;
	} else {
		save->generation = sb->generation;
		save->call.done = on_limited;
		sb->asked_save = save;
		ask_limits(sb, &save->call, &save->settings.limits);
	}
}

bool sandbox_limits_go_on(struct sandbox *sb)
{
	struct save *save = take(sb->limit_save);

	if (save)
		step_change(save);
	return save;
}

void sandbox_limits_drop(struct sandbox *sb)
{
	struct save *save = take(sb->asked_save);
	struct err err;

	if (!save)
		return;
	keeper_cancel(registry_keeper(sb->registry), &save->call);
	err_set(&err, -ENOENT, ERR_NOT_FOUND, "the sandbox was deleted meanwhile");
	finish(save, -ENOENT, &err);
}

static void on_renewed(struct keeper_call *call, struct keeper_answer *answer)
{
	note_limits(container_of(call, struct sandbox, limit_call), answer);
}

void sandbox_limits_renew(struct sandbox *sb)
{
	/* Whose settings cannot be read keeps what it has. */
	if (!has_begun(sb) || sb->state == SANDBOX_STOPPING || sb->state == SANDBOX_DESTROYING ||
	    sb->is_changing || sb->is_unreadable)
		return;
	keeper_cancel(registry_keeper(sb->registry), &sb->limit_call);
	sb->limit_call.done = on_renewed;
	ask_limits(sb, &sb->limit_call, &sb->settings.limits);
}

int sandbox_save_settings(struct sandbox *sb, struct settings *settings, store_done_fn *done,
			  void *arg)
{
	struct save *save = calloc(1, sizeof(*save));
	bool is_limit =
		sb->is_unreadable || !settings_limits_keep(&sb->settings.limits, &settings->limits);
	int r = 0;

	if (!save) {
		settings_close(settings);
		return -ENOMEM;
	}
	*save = (struct save){.sb = sb, .done = done, .arg = arg, .has_settings = true};
	save->settings = *settings;
	list_init(&save->call.link);
	settings_init(settings);
	if (!is_limit || sb->state == SANDBOX_COLD)
		r = submit(save, &save->settings);
	if (r < 0) {
		free_save(save);
		return r;
	}
	sb->saves++;
	sb->is_changing = true;
	if (is_limit && sb->state != SANDBOX_COLD)
		step_change(save);
	return 0;
}

static void on_failure_saved(void *arg, int result, const struct err *err)
{
	if (result < 0)
		log_error("a sandbox's last failure is not stored: %s", err->sentence);
}

void sandbox_save_failure(const struct sandbox *sb)
{
	if (!sb->is_stored || registry_is_stopping(sb->registry))
		return;
	if (store_sandbox_save_failure(registry_store(sb->registry), &sb->id, &sb->last_failure,
				       on_failure_saved, NULL) < 0)
		log_error("sandbox=%s its last failure is not stored: too much is being stored",
			  sb->id.text);
}

static void on_oom_saved(void *arg, int result, const struct err *err)
{
	if (result < 0)
		log_error("that a sandbox was out of memory is not stored: %s", err->sentence);
}

void sandbox_save_oom(const struct sandbox *sb)
{
	if (!sb->is_stored || registry_is_stopping(sb->registry))
		return;
	if (store_sandbox_save_oom(registry_store(sb->registry), &sb->id, &sb->last_oom,
				   on_oom_saved, NULL) < 0)
		log_error("sandbox=%s that it was out of memory is not stored: too much is being "
			  "stored",
			  sb->id.text);
}

static void on_disk_saved(void *arg, int result, const struct err *err)
{
	if (result < 0)
		log_error("that a sandbox has a disk is not stored: %s", err->sentence);
}

void sandbox_save_disk(struct sandbox *sb)
{
	if (sb->has_disk || sb->is_ephemeral || registry_is_stopping(sb->registry))
		return;
	if (store_sandbox_save_disk(registry_store(sb->registry), &sb->id, on_disk_saved, NULL) < 0)
		log_error("sandbox=%s that it has a disk is not stored: too much is being stored",
			  sb->id.text);
	else
		sb->has_disk = true;
}

int sandbox_change(struct sandbox *sb, struct sandbox_wait *wait)
{
	if (!sb->is_changing)
		return 1;
	list_append(&sb->changes, &wait->link);
	return 0;
}

bool sandbox_is_leaving(const struct sandbox *sb)
{
	return sb->state == SANDBOX_DESTROYING || !list_is_empty(&sb->deletes);
}

void sandbox_discard(struct sandbox *sb)
{
	if (sb->is_stored || sb->state != SANDBOX_COLD || sb->saves || !list_is_empty(&sb->uses) ||
	    !list_is_empty(&sb->sleeps) || !list_is_empty(&sb->stops) ||
	    !list_is_empty(&sb->deletes) || !list_is_empty(&sb->changes))
		return;
	registry_unlink(sb->registry, sb);
	sandbox_free(sb);
}
