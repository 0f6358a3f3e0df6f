/* GET /v1/events and /v1/sandbox/{id}/events: what has happened, and what is happening. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "daemon/berthd.h"
#include "daemon/events.h"
#include "daemon/handle_process.h"
#include "daemon/handle_sandbox.h"
#include "daemon/registry.h"
#include "daemon/routes.h"
#include "daemon/sse.h"
#include "proto/event_type.h"
#include "proto/uri.h"

#define TYPES_MAX 255 /* of the list in the query */

/*
 * One request. It holds nothing but its place: a client that does not keep up is read to from the
 * store again when it does. Lives until it is answered, its stream is closed and no read is open.
 */
struct events_call {
	struct exchange *x; /* NULL once it is answered */
	struct registry *registry;
	struct events *events;
	struct events_follower follower;
	struct store_event_read read;
	struct sse sse;
	bool is_reading, is_open, is_paused, is_over;
	bool follows, is_from_now;
	bool is_replay; /* a place was named: what is missing behind it is told */
	bool is_live;   /* that was told */
	uint64_t cursor, gap_told;
	struct sandbox_id sandbox; /* "": all of them */
	char types[TYPES_MAX + 1]; /* "": all of them; else ",slept,woke," */
};

static void pump(struct events_call *c);

static void release(struct events_call *c)
{
	if (!c->x && !c->is_reading && !c->is_open)
		free(c);
}

static void finish(struct events_call *c)
{
	if (c->is_over)
		return;
	c->is_over = true;
	list_remove(&c->follower.link);
	sse_end(&c->sse);
}

/* --- to the client --- */

static bool is_asked_for(const struct events_call *c, const struct event *e)
{
	char name[sizeof(e->type) + 2];

	snprintf(name, sizeof(name), ",%s,", e->type);
	return (!c->sandbox.text[0] || strcmp(c->sandbox.text, e->sandbox.text) == 0) &&
	       (!c->types[0] || strstr(c->types, name));
}

/* Its number becomes the first field of its data. */
static void send_event(struct events_call *c, const struct event *e)
{
	char id[24], data[sizeof("{\"id\":,") + sizeof(id) + EVENT_DATA_MAX];
	int len;

	if (!is_asked_for(c, e))
		return;
	snprintf(id, sizeof(id), "%" PRIu64, e->id);
	len = snprintf(data, sizeof(data), "{\"id\":%s,%s", id, e->data + 1);
	sse_send(&c->sse, str_of(e->type), str_of(id), (struct str){data, (size_t)len});
}

/* Without a number of its own: whoever comes back from here is told of it again. */
static void send_gap(struct events_call *c)
{
	const struct list *first = c->read.events.next;
	char data[160], id[24] = "null";

	if (first != &c->read.events)
		snprintf(id, sizeof(id), "%" PRIu64, list_entry(first, struct event, link)->id);
	snprintf(data, sizeof(data),
		 "{\"type\":\"gap\",\"after\":%" PRIu64 ",\"first\":%s,\"newest\":%" PRIu64 "}",
		 c->cursor, id, c->read.last);
	sse_send(&c->sse, STR("gap"), (struct str){NULL, 0}, str_of(data));
}

/* All that was there is sent. The number is also that of events which were not asked for. */
static void send_live(struct events_call *c)
{
	char id[24], data[64];

	snprintf(id, sizeof(id), "%" PRIu64, c->cursor);
	snprintf(data, sizeof(data), "{\"type\":\"live\",\"id\":%s}", id);
	sse_send(&c->sse, STR("live"), str_of(id), str_of(data));
}

/* --- from the store, and from memory --- */

/* Also in the middle of it: while a client does not read, pruning goes on. */
static void tell_gap(struct events_call *c)
{
	/*
	 * From another database, or from before a power failure: what comes now is new to it. Not
	 * refused, as a browser that comes back with its number would never come again.
	 */
	bool is_ahead = c->cursor > c->read.last;

	if (c->is_from_now)
		c->cursor = c->read.last;
	else if (c->is_replay && (is_ahead || c->read.pruned > c->gap_told))
		send_gap(c);
	if (is_ahead)
		c->cursor = c->read.last;
	if (c->read.pruned > c->gap_told)
		c->gap_told = c->read.pruned;
	c->is_from_now = false;
	c->is_replay = true;
}

static void take_read(struct events_call *c)
{
	bool is_all = !c->read.has_more;

	tell_gap(c);
	list_for_each (node, &c->read.events) {
		const struct event *e = list_entry(node, struct event, link);

		if (c->is_paused || c->is_over) {
			is_all = false;
			break;
		}
		send_event(c, e);
		c->cursor = e->id;
	}
	event_free_list(&c->read.events);
	if (is_all && c->cursor < c->read.last)
		c->cursor = c->read.last;
	pump(c);
}

static void begin(struct events_call *c);

static void on_read(struct store_op *op)
{
	struct events_call *c = container_of(op, struct events_call, read.op);

	c->is_reading = false;
	if (c->x) {
		begin(c);
	} else if (c->is_over || !c->is_open) {
		event_free_list(&c->read.events);
		release(c);
	} else if (op->result < 0) {
		event_free_list(&c->read.events);
		finish(c);
	} else {
		take_read(c);
	}
}

static int read_on(struct events_call *c)
{
	int r;

	c->read.op.done = on_read;
	c->read.sandbox = c->sandbox;
	c->read.after = c->is_from_now ? INT64_MAX : c->cursor;
	r = store_event_read(events_store(c->events), &c->read);
	c->is_reading = r == 0;
	return r;
}

static void pump(struct events_call *c)
{
	const struct event *e;

	while (!c->is_paused && !c->is_over && !c->is_reading) {
		if (!events_next(c->events, c->cursor, &e)) {
			if (read_on(c) < 0)
				finish(c); /* the client comes back with the number it has */
		} else if (e) {
			send_event(c, e);
			c->cursor = e->id;
		} else if (!c->follows) {
			finish(c);
		} else if (!c->is_live) {
			c->is_live = true;
			send_live(c);
		} else {
			break;
		}
	}
}

static void on_more(struct events_follower *follower)
{
	pump(container_of(follower, struct events_call, follower));
}

static void on_end(struct events_follower *follower)
{
	finish(container_of(follower, struct events_call, follower));
}

/* --- the client --- */

static void on_pause(void *arg)
{
	struct events_call *c = arg;

	c->is_paused = true;
}

static void on_resume(void *arg)
{
	struct events_call *c = arg;

	c->is_paused = false;
	pump(c);
}

static void on_abort(void *arg)
{
	finish(arg);
}

static void on_closed(void *arg)
{
	struct events_call *c = arg;

	c->is_open = false;
	release(c);
}

static void on_gone(void *arg)
{
	struct events_call *c = arg;

	exchange_reply_gone(take(c->x));
}

/* --- the request --- */

/* What is unknown may have been deleted: then its events tell so. */
static int check_sandbox(struct events_call *c, struct err *err)
{
	struct sandbox *sb = c->sandbox.text[0] ? registry_find(c->registry, &c->sandbox) : NULL;

	if (c->read.op.result < 0) {
		*err = c->read.op.err;
		return c->read.op.result;
	}
	if (sb && sb->is_stored)
		handle_generation(c->x, sb);
	else if (c->sandbox.text[0] && !c->read.is_known)
		return err_set(err, -ENOENT, ERR_NOT_FOUND, "there is no sandbox \"%s\"",
			       c->sandbox.text);
	return 0;
}

static void begin(struct events_call *c)
{
	static const struct stream_producer producer = {on_pause, on_resume, on_abort};
	struct exchange *x = c->x;
	struct err err;

	exchange_on_gone(x, NULL, NULL);
	if (check_sandbox(c, &err) < 0) {
		event_free_list(&c->read.events);
		exchange_reply_err(take(c->x), &err);
		release(c);
		return;
	}
	c->x = NULL;
	c->is_open = true;
	c->follows &= !events_are_ended(c->events);
	events_follow(c->events, &c->follower);
	if (sse_start(&c->sse, x,
		      &(struct sse_config){registry_loop(c->registry), SSE_HEARTBEAT_MS, &producer,
					   on_closed, c}) < 0)
		finish(c);
	take_read(c);
}

/* The header first: a browser that comes back sends it with the address that it began with. */
static int take_place(struct exchange *x, struct events_call *c, struct err *err)
{
	const struct str *last = http_header_find(exchange_head(x), STR("last-event-id"));
	struct str text;
	int r = uri_query(exchange_arena(x), exchange_head(x)->query, STR("last_event_id"), &text);

	if (last && last->len)
		text = *last;
	else if (r == 0)
		c->is_from_now = c->follows;
	if (r >= 0 && ((last && last->len) || r > 0)) {
		c->is_replay = true;
		r = handle_cursor(text, INT64_MAX, &c->cursor, err);
	}
	if (r < 0)
		return err_set(err, r, ERR_INVALID_REQUEST,
			       "Last-Event-ID must be the number of an event, or 0");
	return 0;
}

static int take_types(struct exchange *x, struct events_call *c, struct err *err)
{
	struct str text;
	int r = uri_query(exchange_arena(x), exchange_head(x)->query, STR("type"), &text);

	if (r == 0)
		return 0;
	if (r < 0 || text.len + 2 > TYPES_MAX)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "type must be a kind of event such as slept, or several with commas "
			       "between them, once each");
	r = event_types_check(text, err);
	if (r < 0)
		return r;
	snprintf(c->types, sizeof(c->types), ",%s,", text.at);
	return 0;
}

static int take_query(struct exchange *x, struct events_call *c, struct err *err)
{
	static const char *const known[] = {"last_event_id", "follow", "type", NULL};
	struct str name;
	int r;

	if (uri_query_stranger(exchange_head(x)->query, known, &name))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "the query has an unknown \"%.*s\"; this route takes "
			       "last_event_id, follow, type",
			       (int)(name.len < 64 ? name.len : 64), name.at);
	c->follows = true;
	r = handle_query_flag(x, "follow", &c->follows, err);
	if (r == 0)
		r = take_place(x, c, err);
	if (r == 0)
		r = take_types(x, c, err);
	return r;
}

static void handle(struct exchange *x, bool is_one)
{
	struct berthd *b = server_arg(exchange_server(x));
	struct events_call *c = calloc(1, sizeof(*c));
	struct err err;
	int r = c ? take_query(x, c, &err) : err_set(&err, -ENOMEM, ERR_INTERNAL, "out of memory");

	if (r == 0 && is_one)
		r = handle_path_id(x, &c->sandbox, &err);
	if (r == 0) {
		c->registry = b->registry;
		c->events = registry_events(b->registry);
		c->follower = (struct events_follower){.more = on_more, .end = on_end};
		list_init(&c->follower.link);
		r = read_on(c);
		if (r < 0)
			store_refuse(&err, r);
	}
	if (r < 0) {
		free(c);
		exchange_reply_err(x, &err);
		return;
	}
	c->x = x;
	exchange_on_gone(x, on_gone, c);
}

void handle_events(struct exchange *x)
{
	handle(x, false);
}

void handle_sandbox_events(struct exchange *x)
{
	handle(x, true);
}
