/* GET /v1/runs/{run}/logs: what a run has said, as JSON, or as events until it is over. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "daemon/berthd.h"
#include "daemon/handle_process.h"
#include "daemon/handle_run.h"
#include "daemon/handle_sandbox.h"
#include "daemon/registry.h"
#include "daemon/routes.h"
#include "daemon/run.h"
#include "daemon/run_log.h"
#include "daemon/sse.h"
#include "daemon/store_run.h"
#include "proto/uri.h"

/*
 * One who follows. It reads the run's own log at its own pace and keeps nothing beside it: who does
 * not read costs what one connection may have unsent, and that log, if it outlives its run.
 */
struct follow_call {
	struct exchange *x; /* while the store is asked; NULL before if the client is gone */
	struct berthd *berthd;
	struct sandbox_id id;
	struct run_wait wait;
	uint64_t since;
	struct run_log *log; /* held; NULL: there is no such run, or no memory */
	struct run_log_reader reader;
	struct sse sse;
	enum run_status status;
	bool has_ended; /* the run: `status` is its last */
	bool is_found, is_paused, is_over;
};

static void free_call(struct follow_call *c)
{
	run_log_release(c->log);
	free(c);
}

static void finish(struct follow_call *c)
{
	if (c->is_over)
		return;
	c->is_over = true;
	if (c->wait.run)
		run_leave(&c->wait);
	sse_end(&c->sse);
}

/* --- events --- */

/* What is kept of a message is its event but for the cursor. */
static void send_entry(struct follow_call *c, struct str entry)
{
	struct buf data;
	char id[24];

	snprintf(id, sizeof(id), "%" PRIu64, c->reader.cursor);
	buf_init(&data, RUN_LOG_MAX + sizeof(id) + 16);
	if (buf_append(&data, entry.at, entry.len - 1) == 0 &&
	    buf_printf(&data, ",\"cursor\":\"%s\"}", id) == 0)
		sse_send(&c->sse, STR("log"), str_of(id),
			 (struct str){buf_at(&data), buf_len(&data)});
	buf_close(&data);
}

static void send_done(struct follow_call *c)
{
	char id[24], data[256];
	int len;

	snprintf(id, sizeof(id), "%" PRIu64, c->reader.cursor);
	len = snprintf(data, sizeof(data),
		       "{\"id\":\"%s\",\"status\":\"%s\",\"logs_dropped\":%" PRIu64
		       ",\"cursor\":\"%s\"}",
		       c->id.text, run_status_name(c->status), c->log->dropped, id);
	sse_send(&c->sse, STR("done"), str_of(id), (struct str){data, (size_t)len});
}

static void pump(struct follow_call *c)
{
	struct str entry;

	while (!c->is_paused && !c->is_over) {
		if (run_log_read(c->log, &c->reader, &entry)) {
			send_entry(c, entry);
		} else if (c->has_ended) {
			send_done(c);
			finish(c);
		} else {
			break;
		}
	}
}

/* --- the run --- */

/* Nothing came of it: whoever began it is told why. */
static void on_stored(struct run_wait *wait, const struct err *err)
{
	struct follow_call *c = container_of(wait, struct follow_call, wait);

	if (!err)
		return;
	wait->run = NULL;
	finish(c);
}

static void on_said(struct run_wait *wait)
{
	pump(container_of(wait, struct follow_call, wait));
}

static void on_ended(struct run_wait *wait, const struct run_record *record)
{
	struct follow_call *c = container_of(wait, struct follow_call, wait);

	c->status = record->status;
	c->has_ended = true;
	pump(c);
}

/* --- the client --- */

static void on_pause(void *arg)
{
	struct follow_call *c = arg;

	c->is_paused = true;
}

static void on_resume(void *arg)
{
	struct follow_call *c = arg;

	c->is_paused = false;
	pump(c);
}

static void on_abort(void *arg)
{
	finish(arg);
}

static void on_closed(void *arg)
{
	free_call(arg);
}

static void on_gone(void *arg)
{
	struct follow_call *c = arg;

	exchange_reply_gone(take(c->x));
}

static void begin(struct follow_call *c)
{
	static const struct stream_producer producer = {on_pause, on_resume, on_abort};
	struct exchange *x = take(c->x);

	run_log_seek(c->log, &c->reader, c->since);
	if (sse_start(&c->sse, x,
		      &(struct sse_config){registry_loop(c->berthd->registry), SSE_HEARTBEAT_MS,
					   &producer, on_closed, c}) < 0)
		finish(c);
	pump(c);
}

/* --- the request --- */

static void fail(struct follow_call *c, const struct err *err)
{
	if (c->x) {
		exchange_on_gone(c->x, NULL, NULL);
		exchange_reply_err(take(c->x), err);
	}
	free_call(c);
}

static void on_record(void *arg, const struct run_record *record, uint64_t number)
{
	struct follow_call *c = arg;
	struct run_record known = run_as_known(c->berthd->runs, record);

	c->is_found = true;
	c->status = known.status;
	c->has_ended = true;
	c->log = run_log_of(known.logs, known.logs_dropped);
}

static void on_read(void *arg, int result, const struct err *err)
{
	struct follow_call *c = arg;
	struct err own;

	if (result == 0 && c->log && c->x) {
		exchange_on_gone(c->x, NULL, NULL);
		begin(c);
		return;
	}
	if (result < 0)
		own = *err;
	else if (c->is_found)
		err_set(&own, -ENOMEM, ERR_INTERNAL, "out of memory");
	else
		err_set(&own, -ENOENT, ERR_NOT_FOUND, "there is no run \"%s\"", c->id.text);
	fail(c, &own);
}

static void read_stored(struct follow_call *c)
{
	struct store_run_query query = {.id = c->id};
	struct err err;

	exchange_on_gone(c->x, on_gone, c);
	if (store_run_read(c->berthd->store, &query, on_record, on_read, c) == 0)
		return;
	err_set(&err, -EBUSY, ERR_UNAVAILABLE, "too much is being stored: try again");
	fail(c, &err);
}

/*
 * The header first: a browser that comes back sends it with the address that it began with. What
 * lies ahead is not refused, or it would never come again: the log of a run that was lost is gone.
 */
static int take_place(struct exchange *x, uint64_t *ret, struct err *err)
{
	const struct str *last = http_header_find(exchange_head(x), STR("last-event-id"));
	struct str text;
	int r = uri_query(exchange_arena(x), exchange_head(x)->query, STR("since"), &text);

	if (r < 0)
		return err_set(err, r, ERR_INVALID_REQUEST, "since is given twice");
	if (last && last->len)
		text = *last;
	else if (r == 0)
		return 0;
	return handle_cursor(text, INT64_MAX, ret, err);
}

/* All of it is told at once, which has no place to begin at. */
static int refuse_place(struct exchange *x, struct err *err)
{
	struct str unused;

	if (uri_query(exchange_arena(x), exchange_head(x)->query, STR("since"), &unused) == 0)
		return 0;
	return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
		       "since is for a log that is followed: add follow=1, or leave it out");
}

static void follow(struct exchange *x, uint64_t since)
{
	struct follow_call *c = calloc(1, sizeof(*c));
	struct run *run;
	struct err err;

	if (!c) {
		exchange_reply_no_memory(x);
		return;
	}
	c->x = x;
	c->berthd = server_arg(exchange_server(x));
	c->since = since;
	c->wait = (struct run_wait){.stored = on_stored, .said = on_said, .ended = on_ended};
	list_init(&c->wait.link);
	if (handle_path_id(x, &c->id, &err) < 0) {
		err_set(&err, -ENOENT, ERR_NOT_FOUND, "there is no such run");
		fail(c, &err);
		return;
	}
	run = run_find(c->berthd->runs, &c->id);
	if (!run) {
		read_stored(c);
		return;
	}
	c->log = run_hold_log(run);
	run_join(run, &c->wait);
	begin(c);
}

void handle_run_logs(struct exchange *x)
{
	bool follows = false;
	uint64_t since = 0;
	struct err err;
	int r = handle_query_flag(x, "follow", &follows, &err);

	if (r == 0)
		r = follows ? take_place(x, &since, &err) : refuse_place(x, &err);
	if (r < 0)
		exchange_reply_err(x, &err);
	else if (follows)
		follow(x, since);
	else
		handle_run_logs_now(x);
}
