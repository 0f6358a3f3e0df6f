/*
 * Runs that are over, and whose end the store would not take, not even short: their ends are kept
 * here, and stored as soon as that is possible. What is stored of them meanwhile says that they
 * are not over.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/registry.h"
#include "daemon/run_state.h"
#include "daemon/store_run.h"

#define AGAIN_MS 3000

struct unsaved {
	struct list link;
	struct runs *runs;
	struct run_record record; /* its end, short */
	uv_timer_t again;
	char error[];
};

static void on_timer_closed(uv_handle_t *handle)
{
	free(handle->data);
}

static void forget(struct unsaved *u)
{
	u->runs->unsaved_len--;
	list_remove(&u->link);
	uv_close((uv_handle_t *)&u->again, on_timer_closed);
}

static void on_again(uv_timer_t *timer);

static void on_saved(void *arg, int result, const struct err *err)
{
	struct unsaved *u = arg;

	if (u->runs->is_stopping)
		return;
	if (result < 0) {
		uv_timer_start(&u->again, on_again, AGAIN_MS, 0);
		return;
	}
	log_info("run=%s its end is stored now, without its result and logs", u->record.id.text);
	forget(u);
}

static void on_again(uv_timer_t *timer)
{
	struct unsaved *u = timer->data;
	struct store *store = registry_store(u->runs->registry);

	if (!u->runs->is_stopping && store_run_save_end(store, &u->record, on_saved, u) < 0)
		uv_timer_start(timer, on_again, AGAIN_MS, 0);
}

void run_unsaved_keep(struct runs *runs, const struct run_record *end)
{
	struct unsaved *u = runs->unsaved_len < RUNS_UNSAVED_MAX
				    ? calloc(1, sizeof(*u) + end->error.len + 1)
				    : NULL;

	/* An earlier one cannot give way: the store may be at work for it. */
	if (!u) {
		log_error("run=%s its end cannot be kept: there is no room for it", end->id.text);
		return;
	}
	u->runs = runs;
	u->record = *end;
	memcpy(u->error, end->error.at, end->error.len);
	u->record.error.at = u->error;
	u->record.task_id = u->record.metadata = STR(""); /* are stored */
	list_append(&runs->unsaved, &u->link);
	runs->unsaved_len++;
	uv_timer_init(registry_loop(runs->registry), &u->again);
	u->again.data = u;
	uv_timer_start(&u->again, on_again, AGAIN_MS, 0);
}

void run_unsaved_close(struct runs *runs)
{
	list_for_each_safe (node, &runs->unsaved)
		forget(list_entry(node, struct unsaved, link));
}

static const struct run_record *find(const struct runs *runs, const struct sandbox_id *id)
{
	list_for_each (node, &runs->unsaved) {
		const struct unsaved *u = list_entry(node, struct unsaved, link);

		if (strcmp(u->record.id.text, id->text) == 0)
			return &u->record;
	}
	return NULL;
}

struct run_record run_as_known(struct runs *runs, const struct run_record *stored)
{
	struct run_record ret = *stored;
	const struct run_record *end;

	if (run_status_is_over(stored->status) || run_find(runs, &stored->id))
		return ret;
	end = find(runs, &stored->id);
	if (end) {
		ret = *end;
		ret.task_id = stored->task_id;
		ret.metadata = stored->metadata;
		ret.is_truncated = true;
	} else {
		ret.status = RUN_LOST;
		ret.error = STR("{\"code\":\"lost\",\"message\":\"its end was not stored: nobody "
				"knows what came of it\"}");
	}
	return ret;
}
