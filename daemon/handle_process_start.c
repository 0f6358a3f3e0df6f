/* POST .../processes: starts one, and answers when it runs. */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "daemon/berthd.h"
#include "daemon/handle_process.h"
#include "daemon/handle_sandbox.h"
#include "daemon/idempotency.h"
#include "daemon/registry.h"
#include "daemon/routes.h"

struct start_call {
	struct exchange *x; /* NULL: the client is gone, and that was answered */
	struct sandbox *sb;
	struct sandbox_wait wait;
	struct process_wait started;
	struct process_request request;
	struct str key; /* Idempotency-Key; empty: none */
};

static void finish(struct start_call *c, struct process *p, const struct err *err)
{
	if (c->x) {
		exchange_on_gone(c->x, NULL, NULL);
		if (err)
			exchange_reply_err(c->x, err);
		else
			handle_process_reply(c->x, p);
	}
	free(c);
}

static void on_process_runs(struct process_wait *wait, struct process *p, const struct err *err)
{
	finish(container_of(wait, struct start_call, started), p, err);
}

static struct idempotency *keys_of(const struct start_call *c)
{
	return registry_keys(c->sb->registry);
}

/* The key has started one already: that is the answer, once it runs. */
static bool answer_again(struct start_call *c)
{
	struct process *p = NULL;
	struct sandbox_id id;
	struct err err;
	int r = 0;

	if (c->key.len)
		r = idempotency_find(keys_of(c), &c->sb->id, c->key, exchange_buffered(c->x), &id);
	/* One that could not be started, or is not kept any more, is tried again. */
	if (r != 0)
		p = process_find(c->sb, &id);
	if (!p)
		return false;
	if (r < 0) {
		idempotency_refuse(&err);
		finish(c, NULL, &err);
	} else if (process_wait_start(p, &c->started) == 1) {
		finish(c, p, NULL);
	}
	return true;
}

static void start(struct start_call *c)
{
	struct process *p;
	struct err err;

	if (answer_again(c))
		return;
	if (process_start(c->sb, &c->request, &c->started, &p, &err) < 0) {
		if (!handle_again(c->x, c->sb, &c->wait))
			finish(c, NULL, &err);
	} else if (c->key.len) {
		idempotency_add(keys_of(c), &c->sb->id, c->key, exchange_buffered(c->x), &p->id);
	}
}

static void on_sandbox_runs(struct sandbox_wait *wait, struct sandbox *sb, const struct err *err)
{
	struct start_call *c = container_of(wait, struct start_call, wait);

	if (err)
		finish(c, NULL, err);
	else
		start(c);
}

/* A process that is being started is meant to outlive its client. */
static void on_gone(void *arg)
{
	struct start_call *c = arg;
	bool is_begun = list_is_empty(&c->wait.link);

	sandbox_cancel(&c->wait);
	exchange_reply_gone(take(c->x));
	if (!is_begun)
		free(c); /* what it asked for was in the exchange's memory */
}

static void run(struct exchange *x, const struct process_request *request, struct str key)
{
	struct start_call *c = calloc(1, sizeof(*c));
	struct err err;
	int r;

	if (!c) {
		exchange_reply_no_memory(x);
		return;
	}
	c->x = x;
	c->request = *request;
	c->key = key;
	c->wait.done = on_sandbox_runs;
	c->started.done = on_process_runs;
	list_init(&c->wait.link);
	list_init(&c->started.link);
	r = handle_find(x, true, &c->sb, &err);
	if (r == 0) {
		exchange_on_gone(x, on_gone, c);
		if (answer_again(c))
			return;
		r = sandbox_use(c->sb, &c->wait, &err);
	}
	if (r < 0) {
		struct sandbox *sb = c->sb;

		finish(c, NULL, &err);
		if (sb)
			sandbox_discard(sb);
	} else if (r == 1) {
		start(c);
	}
}

void handle_process_run(struct exchange *x, const struct process_request *request)
{
	run(x, request, STR(""));
}

void handle_process_start(struct exchange *x)
{
	struct process_request request = {.id = {NULL, 0}};
	struct str key;
	struct err err;
	int r = handle_key(x, &key, &err);

	if (r == 0)
		r = process_request_parse(exchange_arena(x), exchange_buffered(x), &request, &err);
	if (r < 0)
		exchange_reply_err(x, &err);
	else
		run(x, &request, key);
}
