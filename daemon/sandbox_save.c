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

struct save {
	struct sandbox *sb;
	store_done_fn *done;
	void *arg;
	bool has_settings;
	struct settings settings;
};

static void free_save(struct save *save)
{
	if (save->has_settings)
		settings_close(&save->settings);
	free(save);
}

/* Whether that changes anything. */
static bool take_settings(struct save *save)
{
	struct sandbox *sb = save->sb;
	struct settings old = sb->settings;
	bool is_other = sb->is_unreadable || !settings_equal(&old, &save->settings);

	if (sb->state != SANDBOX_COLD && !settings_start_alike(&old, &save->settings))
		sb->is_outdated = true;
	sb->settings = save->settings;
	save->settings = old;
	if (sb->is_unreadable) {
		sb->last_failure.err.code = ERR_NONE;
		sandbox_save_failure(sb);
	}
	sb->is_unreadable = false;
	activity_changed(sb);
	return is_other;
}

static void finish(struct save *save, int result, const struct err *err)
{
	struct sandbox *sb = save->sb;
	bool is_change = save->has_settings;

	save->done(save->arg, result, err);
	free_save(save);
	if (is_change)
		sandbox_tell(sb, &sb->changes, sb->is_stored ? NULL : err);
	sb->saves--; /* which has kept it so far */
	sandbox_discard(sb);
}

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
	if (is_change)
		sb->is_changing = false;
	if (is_change && result == 0)
		is_other = take_settings(save);
	if (result == 0 && (is_new || is_other))
		event_add(sb, is_new ? "created" : "changed", NULL, NULL);
	/* Or a berthd that comes after us would delete it before the time that was told. */
	if (is_change && result == 0 && sandbox_put_off_then(sb, on_put_off, save))
		return;
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
	if (r == 0)
		sb->saves++;
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
	return r;
}

int sandbox_save_settings(struct sandbox *sb, struct settings *settings, store_done_fn *done,
			  void *arg)
{
	struct save *save = calloc(1, sizeof(*save));
	int r;

	if (!save) {
		settings_close(settings);
		return -ENOMEM;
	}
	*save = (struct save){sb, done, arg, true, *settings};
	settings_init(settings);
	r = submit(save, &save->settings);
	if (r < 0)
		free_save(save);
	else
		sb->is_changing = true;
	return r;
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
	if (sb->has_disk || sb->settings.is_ephemeral || registry_is_stopping(sb->registry))
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
