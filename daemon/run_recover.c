/* What an earlier berthd has left of its runs: their sandboxes are removed. */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/counts.h"
#include "daemon/registry.h"
#include "daemon/run_state.h"
#include "daemon/store_run.h"

struct leftover {
	struct list link;
	struct runs *runs;
	struct sandbox_id id;
	struct sandbox_wait gone;
};

static void forget(struct leftover *l)
{
	list_remove(&l->link);
	free(l);
}

static void on_gone(struct sandbox_wait *wait, struct sandbox *sb, const struct err *err)
{
	struct leftover *l = container_of(wait, struct leftover, gone);

	if (l->runs->is_stopping)
		return;
	if (err)
		log_error("run=%s its sandbox is left, and could not be removed: %s", l->id.text,
			  err->sentence);
	else
		store_run_clean(registry_store(l->runs->registry), &l->id, NULL, NULL);
	forget(l);
}

static void on_left(void *arg, const struct sandbox_id *id, bool is_lost)
{
	struct runs *runs = arg;
	struct sandbox *sb = registry_find(runs->registry, id);
	struct leftover *l = calloc(1, sizeof(*l));
	struct err err;
	int r = 1;

	if (!l || runs->is_stopping) {
		free(l);
		return; /* the next berthd does it */
	}
	*l = (struct leftover){.runs = runs, .id = *id, .gone.done = on_gone};
	list_init(&l->gone.link);
	list_append(&runs->leftovers, &l->link);
	if (is_lost) {
		registry_counts(runs->registry)->runs[RUN_LOST]++;
		log_warn("run=%s is lost: berthd ended meanwhile", id->text);
	}
	if (sb)
		r = sandbox_delete(sb, &l->gone, &err);
	if (r != 0)
		on_gone(&l->gone, NULL, r < 0 ? &err : NULL);
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

	buf_init(&error, 1024);
	r = run_error_write(&lost, &error);
	if (r == 0)
		r = store_run_lose(registry_store(runs->registry),
				   &(struct store_run_lost){
					   .ended_at_ms = registry_now_ms(),
					   .error = {buf_at(&error), buf_len(&error)},
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
