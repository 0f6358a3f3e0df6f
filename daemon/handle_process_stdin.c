/* POST .../processes/{process}/stdin: bytes for it, as fast as it reads. */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "daemon/activity.h"
#include "daemon/handle_process.h"
#include "daemon/handle_sandbox.h"
#include "daemon/routes.h"

/* One request; the process knows it as its writer. */
struct stdin_call {
	struct exchange *x;
	struct process *p; /* held */
	struct hold hold;
	bool end_wanted;
	bool is_lost; /* nobody reads any more: the rest is dropped */
};

static void finish(struct stdin_call *c, const struct err *err)
{
	struct process *p = c->p;

	hold_end(&c->hold);
	p->writer = NULL;
	p->on_room = NULL;
	if (err)
		exchange_reply_err(c->x, err);
	else
		exchange_reply_empty(c->x, 204);
	process_release(p);
	free(c);
}

static bool can_write(const struct process *p)
{
	return p->exec && !p->is_stdin_ended && exec_stdin_is_open(p->exec);
}

static void on_data(void *arg, const char *bytes, size_t len)
{
	struct stdin_call *c = arg;

	if (!can_write(c->p))
		c->is_lost = true;
	else if (exec_stdin(c->p->exec, (struct str){bytes, len}))
		exchange_body_pause(c->x);
}

static void on_end(void *arg, int status)
{
	struct stdin_call *c = arg;
	struct err err;

	if (status < 0) {
		err_set(&err, status, ERR_REQUEST_TIMEOUT, "the body was cut short");
		finish(c, &err);
		return;
	}
	if (c->is_lost || !can_write(c->p)) {
		err_set(&err, -EPIPE, ERR_CONFLICT,
			"the process has closed its standard input, or has ended");
		finish(c, &err);
		return;
	}
	if (c->end_wanted) {
		c->p->is_stdin_ended = true;
		exec_stdin_end(c->p->exec);
	}
	finish(c, NULL);
}

static const struct stream_consumer consumer = {on_data, on_end};

/* Also when it has ended: then the rest of the body comes to nothing. */
static void on_room(void *arg)
{
	struct stdin_call *c = arg;

	exchange_body_resume(c->x);
}

static int check_writable(const struct process *p, struct err *err)
{
	if (!p->exec)
		return err_set(err, -ESRCH, ERR_CONFLICT, "the process has ended");
	if (p->writer)
		return err_set(err, -EBUSY, ERR_CONFLICT,
			       "somebody else is writing to its standard input: try again later");
	if (!can_write(p))
		return err_set(err, -EPIPE, ERR_CONFLICT, "its standard input is closed");
	return 0;
}

void handle_process_stdin(struct exchange *x)
{
	struct stdin_call *c = calloc(1, sizeof(*c));
	struct err err;
	int r = c ? handle_process_find(x, &c->p, &err)
		  : err_set(&err, -ENOMEM, ERR_INTERNAL, "out of memory");

	if (r == 0)
		r = handle_query_flag(x, "end", &c->end_wanted, &err);
	if (r == 0 && handle_process_later(x, c->p, handle_process_stdin)) {
		free(c);
		return;
	}
	if (r == 0)
		r = check_writable(c->p, &err);
	if (r < 0) {
		free(c);
		exchange_reply_err(x, &err);
		return;
	}
	c->x = x;
	process_hold(c->p);
	hold_begin(&c->hold, c->p->sb, HOLD_REQUEST);
	c->p->writer = c;
	c->p->on_room = on_room;
	handle_generation(x, c->p->sb);
	exchange_body(x, &consumer, c);
}
