#include "daemon/events.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/counts.h"
#include "daemon/registry.h"
#include "daemon/sandbox.h"
#include "proto/time_text.h"

#define RETRY_MS 1000 /* after the store has failed */

struct events {
	struct store *store; /* NULL: it is closed */
	struct store_event_read newest;
	struct store_event_batch batch;
	bool is_saving, is_ended;
	struct list waiting, recent, followers;
	unsigned unsaved, recent_len, since_pruned;
	uint64_t floor; /* all that is stored behind it is in `recent` */
	uv_timer_t retry;
};

/* --- storing --- */

static void save(struct events *events);

static void on_retry(uv_timer_t *timer)
{
	save(container_of(timer, struct events, retry));
}

/* What could not be stored is still in the batch, in front of what has come since. */
static void save(struct events *events)
{
	struct store_event_batch *batch = &events->batch;

	if (events->is_saving || !events->unsaved || !events->store)
		return;
	while (!list_is_empty(&events->waiting))
		list_move(&batch->events, events->waiting.next);
	batch->is_prune_due = events->since_pruned + events->unsaved >= EVENTS_PRUNE_EVERY;
	events->is_saving = store_event_save(events->store, batch) == 0;
	if (!events->is_saving)
		uv_timer_start(&events->retry, on_retry, RETRY_MS, 0);
}

static void keep_recent(struct events *events)
{
	while (!list_is_empty(&events->batch.events)) {
		list_move(&events->recent, events->batch.events.next);
		events->recent_len++;
		events->since_pruned++;
		events->unsaved--;
	}
	for (; events->recent_len > EVENTS_RECENT_MAX; events->recent_len--) {
		struct event *e = list_entry(events->recent.next, struct event, link);

		events->floor = e->id;
		list_remove(&e->link);
		free(e);
	}
}

static void on_saved(struct store_op *op)
{
	struct events *events = container_of(op, struct events, batch.op);

	events->is_saving = false;
	if (op->result < 0) {
		log_error("events cannot be stored, and are tried again: %s", op->err.sentence);
		uv_timer_start(&events->retry, on_retry, RETRY_MS, 0);
		return;
	}
	keep_recent(events);
	if (events->batch.is_prune_due)
		events->since_pruned = 0;
	save(events);
	list_for_each_safe (node, &events->followers) {
		struct events_follower *f = list_entry(node, struct events_follower, link);

		f->more(f);
	}
}

static struct event *make(const struct sandbox *sb, const char *type, event_write_fn *write,
			  const void *arg)
{
	struct json_writer w;
	struct event *e = NULL;
	struct buf text;

	buf_init(&text, EVENT_DATA_MAX);
	json_writer_init(&w, false);
	json_object(&w);
	json_key(&w, "type");
	json_text(&w, type);
	json_key(&w, "sandbox");
	json_text(&w, sb->id.text);
	json_key(&w, "generation");
	/* What made it may have been its first start: that is another event. */
	json_int(&w, strcmp(type, "created") == 0 ? 0 : (int64_t)sb->generation);
	time_text_write(&w, "at", registry_now_ms());
	if (write)
		write(&w, arg);
	json_object_end(&w);
	if (json_writer_end(&w, &text) == 0)
		e = event_new(&sb->id, type, (struct str){buf_at(&text), buf_len(&text)});
	json_writer_close(&w);
	buf_close(&text);
	return e;
}

void event_add(struct sandbox *sb, const char *type, event_write_fn *write, const void *arg)
{
	struct events *events = registry_events(sb->registry);
	size_t index = event_type_index(str_of(type));
	struct event *e;

	assert(index < EVENT_TYPE_COUNT);
	if (!sb->is_stored || !events->store)
		return;
	registry_counts(sb->registry)->events[index]++;
	e = events->unsaved < EVENTS_WAITING_MAX ? make(sb, type, write, arg) : NULL;
	if (!e) {
		log_error("sandbox=%s event=%s is lost: no room for it", sb->id.text, type);
		return;
	}
	list_append(&events->waiting, &e->link);
	events->unsaved++;
	save(events);
}

void event_write_err(struct json_writer *w, const void *arg)
{
	const struct err *err = arg;

	json_key(w, "code");
	json_text(w, err_code_name(err->code));
	json_key(w, "message");
	json_str(w, (struct str){err->sentence, utf8_valid_len(str_of(err->sentence))});
}

/* --- following --- */

void events_follow(struct events *events, struct events_follower *follower)
{
	list_append(&events->followers, &follower->link);
}

bool events_are_ended(const struct events *events)
{
	return events->is_ended;
}

void events_end_all(struct events *events)
{
	events->is_ended = true;
	list_for_each_safe (node, &events->followers) {
		struct events_follower *f = list_entry(node, struct events_follower, link);

		f->end(f);
	}
}

/* From the end: who follows is mostly there. */
bool events_next(const struct events *events, uint64_t after, const struct event **ret)
{
	struct list *node = events->recent.prev;

	if (after < events->floor)
		return false;
	*ret = NULL;
	for (; node != &events->recent; node = node->prev) {
		const struct event *e = list_entry(node, struct event, link);

		if (e->id <= after)
			break;
		*ret = e;
	}
	return true;
}

struct store *events_store(const struct events *events)
{
	return events->store;
}

/* --- life --- */

static void on_newest(struct store_op *op)
{
	struct events *events = container_of(op, struct events, newest.op);

	if (op->result == 0)
		events->floor = events->newest.last;
	event_free_list(&events->newest.events);
}

int events_check(const struct events *events, struct err *err)
{
	if (events->newest.op.result < 0)
		*err = events->newest.op.err;
	return events->newest.op.result;
}

struct events *events_new(uv_loop_t *loop, struct store *store)
{
	struct events *events = calloc(1, sizeof(*events));

	if (!events)
		return NULL;
	events->store = store;
	events->floor = UINT64_MAX; /* until they are loaded */
	list_init(&events->waiting);
	list_init(&events->recent);
	list_init(&events->followers);
	list_init(&events->batch.events);
	events->batch.op.done = on_saved;
	events->newest.op.done = on_newest;
	events->newest.after = INT64_MAX; /* none of them: only where they end */
	uv_timer_init(loop, &events->retry);
	return events;
}

void events_load(struct events *events)
{
	int r = store_event_read(events->store, &events->newest);

	if (r < 0)
		events->newest.op.result = err_set(&events->newest.op.err, r, ERR_UNAVAILABLE,
						   "reading events: too much is being stored");
}

static void on_closed(uv_handle_t *handle)
{
	struct events *events = container_of((uv_timer_t *)handle, struct events, retry);

	event_free_list(&events->waiting);
	event_free_list(&events->batch.events);
	event_free_list(&events->recent);
	free(events);
}

void events_free(struct events *events)
{
	events->store = NULL;
	uv_close((uv_handle_t *)&events->retry, on_closed);
}
