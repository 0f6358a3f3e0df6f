/*
 * What an earlier berthd has left of its runs, and what could not be removed when it should have
 * been: their sandboxes are removed, and that is tried until they are gone.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/counts.h"
#include "daemon/registry.h"
#include "daemon/run_state.h"
#include "daemon/store_run.h"
#include "proto/frame.h"

#define AGAIN_MS 3000

struct leftover {
	struct list link;
	struct runs *runs;
	struct sandbox_id id;
	struct sandbox_wait gone;
	uv_timer_t again;
};

static void on_timer_closed(uv_handle_t *handle)
{
	free(handle->data);
}

static void forget(struct leftover *l)
{
	list_remove(&l->link);
	uv_close((uv_handle_t *)&l->again, on_timer_closed);
}

static void remove_it(struct leftover *l);

static void on_again(uv_timer_t *timer)
{
	remove_it(timer->data);
}

static void on_gone(struct sandbox_wait *wait, struct sandbox *sb, const struct err *err)
{
	struct leftover *l = container_of(wait, struct leftover, gone);

	if (l->runs->is_stopping)
		return; /* the next berthd does it */
	if (err) {
		log_warn("run=%s its sandbox is not removed yet: %s", l->id.text, err->sentence);
		uv_timer_start(&l->again, on_again, AGAIN_MS, 0);
		return;
	}
	store_run_clean(registry_store(l->runs->registry), &l->id, NULL, NULL);
	forget(l);
}

static void remove_it(struct leftover *l)
{
	struct sandbox *sb = registry_find(l->runs->registry, &l->id);
	struct err err;
	int r = l->runs->is_stopping ? 0 : 1;

	if (sb && !sb->is_reserved) {
		log_warn("sandbox=%s is kept: it has the ID of a run, and was not made for one",
			 l->id.text);
		sb = NULL;
	}
	if (r == 1 && sb)
		r = sandbox_delete(sb, &l->gone, &err);
	if (r != 0)
		on_gone(&l->gone, NULL, r < 0 ? &err : NULL);
}

void run_recover_left(struct runs *runs, const struct sandbox_id *id)
{
	struct leftover *l = calloc(1, sizeof(*l));

	if (!l)
		return; /* the next berthd does it */
	*l = (struct leftover){.runs = runs, .id = *id, .gone.done = on_gone};
	list_init(&l->gone.link);
	list_append(&runs->leftovers, &l->link);
	uv_timer_init(registry_loop(runs->registry), &l->again);
	l->again.data = l;
	remove_it(l);
}

/* By their labels: a client may have taken such a name of an earlier Berth. */
static bool is_ours(const struct sandbox *sb)
{
	struct str labels = sb->settings.labels;
	const char *label;

	if (!sandbox_id_is_of_run(&sb->id))
		return false;
	while ((label = frame_list_next(&labels))) {
		if (str_starts_with(str_of(label), STR(SANDBOX_LABEL_RUN "=")) ||
		    str_starts_with(str_of(label), STR(SANDBOX_LABEL_POOL "=")))
			return true;
	}
	return false;
}

static void reserve_all(const struct runs *runs)
{
	struct sandbox *sb = NULL;

	while ((sb = registry_next(runs->registry, sb ? sb->id.text : "")))
		sb->is_reserved = is_ours(sb);
}

static void on_left(void *arg, const struct sandbox_id *id, bool is_lost)
{
	struct runs *runs = arg;

	if (runs->is_stopping)
		return;
	if (is_lost) {
		registry_counts(runs->registry)->runs[RUN_LOST]++;
		log_warn("run=%s is lost: berthd ended meanwhile", id->text);
	}
	run_recover_left(runs, id);
}

static void on_marked(void *arg, int result, const struct err *err)
{
	if (result < 0)
		log_error("that earlier runs are lost is not stored: %s", err->sentence);
}

static void on_done(void *arg, int result, const struct err *err)
{
	if (result < 0)
		log_error("what is left of earlier runs is not known: %s", err->sentence);
}

int run_recover(struct runs *runs)
{
	const struct run_error lost = {
		.code = "lost",
		.message = STR("berthd ended before the run did: nobody knows what came of it"),
	};
	struct buf error;
	int r;

	reserve_all(runs);
	buf_init(&error, 1024);
	r = run_error_write(&lost, &error);
	if (r == 0)
		r = store_run_lose(registry_store(runs->registry),
				   &(struct store_run_lost){
					   .ended_at_ms = registry_now_ms(),
					   .error = {buf_at(&error), buf_len(&error)},
					   .marked = on_marked,
					   .left = on_left,
				   },
				   on_done, runs);
	buf_close(&error);
	return r;
}

void run_recover_close(struct runs *runs)
{
	list_for_each_safe (node, &runs->leftovers)
		forget(list_entry(node, struct leftover, link));
}
