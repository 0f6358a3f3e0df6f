/* Routes of /v1/runs: begin one, look at it, wait for it, cancel it. */
#include "daemon/handle_run.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include <uv.h>

#include "base/cleanup.h"
#include "daemon/berthd.h"
#include "daemon/handle_sandbox.h"
#include "daemon/idempotency.h"
#include "daemon/registry.h"
#include "daemon/routes.h"
#include "daemon/run.h"
#include "daemon/store_run.h"
#include "proto/run_request.h"
#include "proto/uri.h"

static_assert(RUN_RECORD_MAX < EXCHANGE_ARENA_MAX, "every record can be told");

/* Keys of runs are no sandbox's: no ID looks like this. */
static const struct sandbox_id keys_place = {"/runs"};

/* One request that waits for a run, or for what is stored of it. */
struct run_call {
	struct exchange *x; /* NULL: the client is gone, and that was answered */
	struct berthd *berthd;
	struct run_wait wait;
	struct sandbox_id id;
	uv_timer_t timeout; /* of a wait */
	bool has_timer;
	bool is_async;
	bool is_owner; /* it ends with its client */
	bool is_found; /* in the store */
	bool is_again; /* its key has begun a run before */
	void (*write)(const struct run_record *record, struct json_writer *w);
	int status;
};

static void write_whole(const struct run_record *record, struct json_writer *w)
{
	run_record_write(record, true, w);
}

static void on_timer_closed(uv_handle_t *handle)
{
	free(handle->data);
}

static void free_call(struct run_call *c)
{
	if (c->has_timer)
		uv_close((uv_handle_t *)&c->timeout, on_timer_closed);
	else
		free(c);
}

static struct run_call *new_call(struct exchange *x)
{
	struct run_call *c = calloc(1, sizeof(*c));

	if (!c) {
		exchange_reply_no_memory(x);
		return NULL;
	}
	c->x = x;
	c->berthd = server_arg(exchange_server(x));
	c->write = write_whole;
	c->status = 200;
	list_init(&c->wait.link);
	return c;
}

/* --- answers --- */

static void reply(struct run_call *c, const struct run_record *record)
{
	struct exchange *x = take(c->x);
	struct json_writer w;

	if (!x)
		return;
	exchange_on_gone(x, NULL, NULL);
	json_writer_init(&w, false);
	c->write(record, &w);
	exchange_reply_json(x, c->status, &w);
	json_writer_close(&w);
}

static void reply_failed(struct run_call *c, const struct err *err)
{
	struct exchange *x = take(c->x);

	if (!x)
		return;
	exchange_on_gone(x, NULL, NULL);
	exchange_reply_err(x, err);
}

static void reply_now(struct run_call *c, const struct run *run)
{
	struct run_record record;

	if (!c->x)
		return;
	if (run_view(run, exchange_arena(c->x), &record) < 0) {
		exchange_on_gone(c->x, NULL, NULL);
		exchange_reply_no_memory(take(c->x));
		return;
	}
	reply(c, &record);
}

static void on_ended(struct run_wait *wait, const struct run_record *record)
{
	struct run_call *c = container_of(wait, struct run_call, wait);

	reply(c, record);
	free_call(c);
}

/* --- what is stored --- */

static void on_record(void *arg, const struct run_record *record, uint64_t number)
{
	struct run_call *c = arg;
	struct run_record known = run_as_known(c->berthd->runs, record);

	c->is_found = true;
	reply(c, &known);
}

static void create(struct run_call *c);

/* Nothing is left of the run that the key had begun. */
static void create_anew(struct run_call *c)
{
	exchange_on_gone(c->x, NULL, NULL);
	idempotency_forget(registry_keys(c->berthd->registry), &keys_place, &c->id);
	c->is_again = false;
	create(c);
}

static void on_read(void *arg, int result, const struct err *err)
{
	struct run_call *c = arg;
	struct err none;

	if (result == 0 && !c->is_found && c->is_again && c->x) {
		create_anew(c);
		return;
	}
	if (result < 0) {
		reply_failed(c, err);
	} else if (!c->is_found) {
		err_set(&none, -ENOENT, ERR_NOT_FOUND, "there is no run \"%s\"", c->id.text);
		reply_failed(c, &none);
	}
	free_call(c);
}

static void on_gone(void *arg)
{
	struct run_call *c = arg;
	struct run *run = c->wait.run;
	bool is_owner = c->is_owner;

	exchange_reply_gone(take(c->x));
	/* Without a run it waits for the store. */
	if (run) {
		run_leave(&c->wait);
		free_call(c);
		if (is_owner)
			run_cancel(run);
	}
}

static void read_stored(struct run_call *c)
{
	struct store_run_query query = {.id = c->id};
	struct err err;

	exchange_on_gone(c->x, on_gone, c);
	if (store_run_read(c->berthd->store, &query, on_record, on_read, c) == 0)
		return;
	err_set(&err, -EBUSY, ERR_UNAVAILABLE, "too much is being stored: try again");
	reply_failed(c, &err);
	free_call(c);
}

/* --- beginning --- */

static void on_stored(struct run_wait *wait, const struct err *err)
{
	struct run_call *c = container_of(wait, struct run_call, wait);
	struct run *run = wait->run;

	if (err) {
		idempotency_forget(registry_keys(c->berthd->registry), &keys_place, &c->id);
		reply_failed(c, err);
		free_call(c);
	} else if (c->is_async) {
		run_leave(wait);
		reply_now(c, run);
		free_call(c);
	}
}

static void join(struct run_call *c, struct run *run)
{
	c->wait.stored = on_stored;
	c->wait.ended = on_ended;
	exchange_on_gone(c->x, on_gone, c);
	run_join(run, &c->wait);
}

/* The same key again: the run that it has begun, over or not. */
static void answer_again(struct run_call *c, bool is_async)
{
	struct run *run = run_find(c->berthd->runs, &c->id);

	if (is_async)
		c->status = 202;
	if (!run) {
		c->status = 200;
		c->is_again = true;
		read_stored(c);
	} else if (is_async && run_is_stored(run)) {
		reply_now(c, run);
		free_call(c);
	} else {
		c->is_async = is_async;
		join(c, run);
	}
}

static void begin(struct run_call *c, struct str key)
{
	struct str body = exchange_buffered(c->x);
	bool is_async = false;
	struct err err;

	c->wait.stored = on_stored;
	c->wait.ended = on_ended;
	if (run_submit(c->berthd->runs, body, &c->wait, &is_async, &err) < 0) {
		reply_failed(c, &err);
		free_call(c);
		return;
	}
	c->id = *run_id(c->wait.run);
	c->is_async = is_async;
	c->is_owner = !is_async && !key.len; /* who has a key may come back with it */
	if (is_async)
		c->status = 202;
	exchange_on_gone(c->x, on_gone, c);
	if (key.len)
		idempotency_add(registry_keys(c->berthd->registry), &keys_place, key, body, &c->id);
}

static void create(struct run_call *c)
{
	struct exchange *x = c->x;
	struct run_request request;
	struct str key;
	struct err err;
	int r = handle_key(x, &key, &err);

	if (r == 0 && key.len) {
		r = idempotency_find(registry_keys(c->berthd->registry), &keys_place, key,
				     exchange_buffered(x), &c->id);
		if (r < 0)
			idempotency_refuse(&err);
		else if (r == 1)
			r = run_request_parse(exchange_arena(x), exchange_buffered(x), &request,
					      &err) < 0
				    ? -EINVAL
				    : 1;
	}
	if (r < 0) {
		reply_failed(c, &err);
		free_call(c);
	} else if (r == 1) {
		answer_again(c, request.is_async);
	} else {
		begin(c, key);
	}
}

void handle_run_create(struct exchange *x)
{
	struct run_call *c = new_call(x);

	if (c)
		create(c);
}

/* --- looking --- */

/* NULL: it was answered. */
static struct run_call *find(struct exchange *x, struct run **ret)
{
	struct run_call *c = new_call(x);
	struct err err;

	if (!c)
		return NULL;
	if (handle_path_id(x, &c->id, &err) < 0) {
		err_set(&err, -ENOENT, ERR_NOT_FOUND, "there is no such run");
		reply_failed(c, &err);
		free_call(c);
		return NULL;
	}
	*ret = run_find(c->berthd->runs, &c->id);
	return c;
}

static void look(struct exchange *x,
		 void (*write)(const struct run_record *record, struct json_writer *w))
{
	struct run *run;
	struct run_call *c = find(x, &run);

	if (!c)
		return;
	c->write = write;
	if (run) {
		reply_now(c, run);
		free_call(c);
	} else {
		read_stored(c);
	}
}

void handle_run_get(struct exchange *x)
{
	look(x, write_whole);
}

void handle_run_logs_now(struct exchange *x)
{
	look(x, run_record_write_logs);
}

/* --- waiting, cancelling --- */

static void on_timeout(uv_timer_t *timer)
{
	struct run_call *c = timer->data;
	struct err err;

	err_set(&err, -ETIMEDOUT, ERR_TIMEOUT,
		"the run is not over yet; it goes on, wait for it again");
	run_leave(&c->wait);
	reply_failed(c, &err);
	free_call(c);
}

static void await(struct run_call *c, struct run *run, uint64_t timeout_ms)
{
	join(c, run);
	if (timeout_ms == UINT64_MAX)
		return;
	uv_timer_init(registry_loop(c->berthd->registry), &c->timeout);
	c->timeout.data = c;
	c->has_timer = true;
	uv_timer_start(&c->timeout, on_timeout, timeout_ms, 0);
}

void handle_run_wait(struct exchange *x)
{
	struct run *run;
	struct run_call *c = find(x, &run);
	uint64_t timeout_ms;
	struct err err;

	if (!c)
		return;
	if (run_wait_parse(exchange_arena(x), exchange_buffered(x), &timeout_ms, &err) < 0) {
		reply_failed(c, &err);
		free_call(c);
	} else if (run) {
		await(c, run, timeout_ms);
	} else {
		read_stored(c);
	}
}

void handle_run_cancel(struct exchange *x)
{
	struct run *run;
	struct run_call *c = find(x, &run);

	if (!c)
		return;
	if (run) {
		await(c, run, UINT64_MAX);
		run_cancel(run);
	} else {
		read_stored(c);
	}
}
