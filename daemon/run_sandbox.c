/*
 * Where the sandbox of a run comes from: one of the warm pool's, if one is there that the run's
 * settings can be given to; else a fresh one, by the run's own ID. It is deleted after it, always.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/handle_sandbox.h"
#include "daemon/pool.h"
#include "daemon/registry.h"
#include "daemon/run_state.h"
#include "daemon/trust.h"

/* If nothing else removes it: it counts while the sandbox has no container. */
#define LEFT_MS (3600ULL * 1000)

int run_make_id(struct sandbox_id *ret)
{
	struct sandbox_id made;
	int r = handle_make_id(&made);

	if (r == 0)
		snprintf(ret->text, sizeof(ret->text), "run-%.26s", made.text);
	return r;
}

int run_settle_limits(const struct runs *runs, enum trust trust, struct settings_limits *limits,
		      struct err *err)
{
	struct settings settings = {.trust = trust, .is_ephemeral = true, .limits = *limits};
	int r = trust_settle(runs->registry, NULL, &settings, err);

	if (r < 0)
		return r;
	run_limits_fill(&settings.limits);
	*limits = settings.limits;
	return 0;
}

int run_sandbox_settings(struct settings *ret, const char *image, struct str label)
{
	char *labels = malloc(label.len + 1);

	settings_init(ret);
	if (!labels)
		return -ENOMEM;
	memcpy(labels, label.at, label.len);
	labels[label.len] = '\0';
	ret->labels = (struct str){labels, label.len + 1};
	snprintf(ret->image, sizeof(ret->image), "%s", image);
	/* In memory, so that its size is bounded wherever that runs, and nothing of it stays. */
	ret->is_ephemeral = true;
	ret->keep_alive = true;
	ret->times.delete_after = LEFT_MS;
	return 0;
}

static int make_settings(const struct run *run, struct settings *ret)
{
	char label[sizeof(run->record.id.text) + 16];
	int n = snprintf(label, sizeof(label), SANDBOX_LABEL_RUN "=%s", run->record.id.text);
	int r = run_sandbox_settings(ret, run->request.image.at, (struct str){label, (size_t)n});

	ret->trust = run->record.trust;
	ret->limits = run->request.limits;
	ret->limits.output_bytes = 0; /* that is ours to watch */
	return r;
}

struct sandbox *run_sandbox(const struct run *run)
{
	return run->has_sandbox ? registry_find(run->runs->registry, &run->record.sandbox) : NULL;
}

/* --- a fresh one --- */

int run_sandbox_make(struct runs *runs, const struct sandbox_id *id, struct settings *settings,
		     struct sandbox_wait *use, struct err *err)
{
	struct sandbox *sb;
	int r = registry_make(runs->registry, id, &sb, err);

	if (r < 0) {
		settings_close(settings);
		return r;
	}
	settings_close(&sb->settings);
	sb->settings = *settings; /* its start stores them */
	sb->is_reserved = true;
	r = sandbox_use(sb, use, err);
	if (r < 0)
		sandbox_discard(sb);
	return r;
}

static int make(struct run *run, struct err *err)
{
	struct settings settings;
	int r = make_settings(run, &settings);

	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "out of memory");
	r = run_sandbox_make(run->runs, &run->record.id, &settings, &run->use, err);
	run->has_sandbox = r >= 0;
	return r;
}

/* --- a warm one --- */

/* It cannot have what the run wants: no code was in it, but nobody else gets it either. */
static void leave_pooled(struct run *run)
{
	run_recover_left(run->runs, &run->record.sandbox);
	pool_gone(run->runs->pool);
	run->record.is_pooled = run->has_sandbox = false;
	run->record.sandbox = run->record.id;
}

int run_sandbox_replace(struct run *run, struct err *err)
{
	leave_pooled(run);
	return make(run, err);
}

/* What was to be set for one that has ended is no failure. */
static bool is_there(const struct run *run)
{
	const struct sandbox *sb = run_sandbox(run);

	return sb && sb->state == SANDBOX_RUNNING && !sandbox_is_leaving(sb);
}

static void on_settled(void *arg, int result, const struct err *err)
{
	struct run *run = arg;
	struct err why;
	int r = 1;

	run->is_settling = false;
	if (run->runs->is_stopping)
		return;
	if (run->is_ending) {
		run_settle(run);
		return;
	}
	if (result < 0 || !is_there(run)) {
		log_info("run=%s gets no warm sandbox: %s", run->record.id.text,
			 result < 0 ? err->sentence : "it has ended");
		r = run_sandbox_replace(run, &why);
	}
	if (r != 0)
		run_started(run, r < 0 ? &why : NULL);
}

/* 0: on_settled() follows. */
static int take_pooled(struct run *run)
{
	struct settings settings;
	struct sandbox *sb;
	int r = make_settings(run, &settings);

	if (r == 0 &&
	    !pool_take(run->runs->pool, run->request.language, &settings, &run->record.sandbox))
		r = -ENOENT;
	if (r < 0) {
		settings_close(&settings);
		return r;
	}
	run->record.is_pooled = run->has_sandbox = true;
	sb = run_sandbox(run);
	r = sandbox_save_settings(sb, &settings, on_settled, run);
	run->is_settling = r == 0;
	if (r < 0)
		leave_pooled(run);
	return r;
}

int run_sandbox_take(struct run *run, struct err *err)
{
	return take_pooled(run) == 0 ? 0 : make(run, err);
}

int run_sandbox_give_back(struct run *run, struct err *err)
{
	struct sandbox *sb = run_sandbox(run);

	return sb ? sandbox_delete(sb, &run->gone, err) : 1;
}
