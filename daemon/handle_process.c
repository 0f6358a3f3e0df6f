/* Routes of background processes: list, show, signal, end. */
#include "daemon/handle_process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "daemon/activity.h"
#include "daemon/berthd.h"
#include "daemon/handle_sandbox.h"
#include "daemon/registry.h"
#include "daemon/routes.h"
#include "proto/uri.h"

#define GRACE_MAX_MS   600000
#define SIGNAL_MAX     64
#define SIGNAL_DEFAULT 15

/* --- reading the request --- */

static int find(struct exchange *x, bool is_terminal, struct process **ret, struct err *err)
{
	const char *what = is_terminal ? "terminal" : "process";
	struct sandbox *sb;
	struct sandbox_id id;
	struct str text;
	int r = handle_find(x, false, &sb, err);

	if (r < 0)
		return r;
	if (uri_decode(exchange_arena(x), exchange_captures(x)->items[1], &text) < 0 ||
	    sandbox_id_parse(text, &id) < 0)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "a %s ID has 1 to 63 letters, digits and dashes, and begins "
			       "and ends with a letter or digit",
			       what);
	*ret = process_find(sb, &id);
	/* Nobody was told yet of one that is being started. */
	if (!*ret || (*ret)->is_terminal != is_terminal ||
	    ((*ret)->state == PROCESS_STARTING && !(*ret)->is_revived))
		return err_set(err, -ENOENT, ERR_NOT_FOUND, "there is no %s \"%s\" in the sandbox",
			       what, id.text);
	return 0;
}

int handle_process_find(struct exchange *x, struct process **ret, struct err *err)
{
	return find(x, false, ret, err);
}

int handle_terminal_find(struct exchange *x, struct process **ret, struct err *err)
{
	return find(x, true, ret, err);
}

/* One request about a process that is being adopted, or frozen. */
struct later {
	struct exchange *x;
	handler_fn *handle;
	struct sandbox_wait wait;
};

static void on_adopted(struct sandbox_wait *wait, struct sandbox *sb, const struct err *err)
{
	struct later *l = container_of(wait, struct later, wait);
	struct exchange *x = l->x;
	handler_fn *handle = l->handle;

	free(l);
	exchange_on_gone(x, NULL, NULL);
	if (err)
		exchange_reply_err(x, err);
	else
		handle(x);
}

static void on_later_gone(void *arg)
{
	struct later *l = arg;

	sandbox_cancel(&l->wait);
	exchange_reply_gone(l->x);
	free(l);
}

bool handle_process_later(struct exchange *x, const struct process *p, handler_fn *handle)
{
	bool is_lost = process_is_tree_lost(p);
	struct later *l;
	struct err err;

	if (p->state == PROCESS_ENDED && !is_lost)
		return false;
	if (p->sb->state != SANDBOX_FROZEN && !p->sb->still &&
	    (p->sb->state != SANDBOX_STARTING || (!p->exec && !is_lost)))
		return false;
	l = calloc(1, sizeof(*l));
	if (!l) {
		exchange_reply_no_memory(x);
		return true;
	}
	*l = (struct later){.x = x, .handle = handle, .wait.done = on_adopted};
	list_init(&l->wait.link);
	exchange_on_gone(x, on_later_gone, l);
	if (sandbox_use(p->sb, &l->wait, &err) < 0)
		on_adopted(&l->wait, p->sb, &err);
	return true;
}

static int parse_number(struct str text, uint64_t *ret)
{
	uint64_t value = 0;

	if (!text.len)
		return -EINVAL;
	for (size_t i = 0; i < text.len; i++) {
		if (text.at[i] < '0' || text.at[i] > '9' ||
		    __builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(text.at[i] - '0'), &value))
			return -EINVAL;
	}
	*ret = value;
	return 0;
}

static int query(struct exchange *x, const char *name, struct str *ret, struct err *err)
{
	int r = uri_query(exchange_arena(x), exchange_head(x)->query, str_of(name), ret);

	if (r < 0)
		return err_set(err, r, ERR_INVALID_REQUEST, "%s is given twice, or badly escaped",
			       name);
	return r;
}

int handle_query_number(struct exchange *x, const char *name, uint64_t *ret, struct err *err)
{
	struct str text;
	int r = query(x, name, &text, err);

	if (r > 0 && parse_number(text, ret) < 0)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "%s must be a number", name);
	return r;
}

int handle_query_flag(struct exchange *x, const char *name, bool *ret, struct err *err)
{
	struct str text;
	int r = query(x, name, &text, err);

	if (r <= 0)
		return r;
	if (str_eq(text, STR("1")) || str_eq(text, STR("true")))
		*ret = true;
	else if (str_eq(text, STR("0")) || str_eq(text, STR("false")))
		*ret = false;
	else
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "%s must be 1 or 0", name);
	return 0;
}

int handle_stream_name(struct str name, unsigned *ret_kind, struct err *err)
{
	if (str_eq(name, STR("both")))
		*ret_kind = 0;
	else if (str_eq(name, STR("stdout")))
		*ret_kind = JOURNAL_STDOUT;
	else if (str_eq(name, STR("stderr")))
		*ret_kind = JOURNAL_STDERR;
	else
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "stream must be \"stdout\", \"stderr\" or \"both\"");
	return 0;
}

int handle_cursor(struct str text, uint64_t most, uint64_t *ret, struct err *err)
{
	uint64_t cursor;

	if (parse_number(text, &cursor) < 0 || cursor > most)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "that cursor was never given: it must be a number up to %llu",
			       (unsigned long long)most);
	*ret = cursor;
	return 0;
}

/* --- showing --- */

static void write_process(struct json_writer *w, const struct process *p)
{
	json_object(w);
	process_write(p, w);
	json_object_end(w);
}

void handle_process_reply(struct exchange *x, const struct process *p)
{
	struct json_writer w;

	if (p->sb)
		handle_generation(x, p->sb);
	json_writer_init(&w, false);
	write_process(&w, p);
	exchange_reply_json(x, 200, &w);
	json_writer_close(&w);
}

void handle_process_get(struct exchange *x)
{
	struct process *p;
	struct err err;

	if (handle_process_find(x, &p, &err) < 0)
		exchange_reply_err(x, &err);
	else
		handle_process_reply(x, p);
}

static void write_all(struct json_writer *w, struct sandbox *sb, bool are_terminals)
{
	json_array(w);
	list_for_each (node, &sb->processes) {
		struct process *p = list_entry(node, struct process, link);

		if (p->is_terminal == are_terminals &&
		    (p->state != PROCESS_STARTING || p->is_revived))
			write_process(w, p);
	}
	json_array_end(w);
}

static void write_processes(struct json_writer *w, struct sandbox *sb)
{
	write_all(w, sb, false);
}

static void write_terminals(struct json_writer *w, struct sandbox *sb)
{
	write_all(w, sb, true);
}

void handle_process_list(struct exchange *x)
{
	handle_show(x, write_processes);
}

void handle_terminal_list(struct exchange *x)
{
	handle_show(x, write_terminals);
}

/* --- signals --- */

struct signal_body {
	uint64_t signal;
};

void handle_process_kill(struct exchange *x)
{
	static const struct json_field fields[] = {
		{"signal", JSON_UINT, offsetof(struct signal_body, signal), false, 0, NULL, 0},
		{NULL, JSON_BOOL, 0, false, 0, NULL, 0},
	};
	struct signal_body body = {SIGNAL_DEFAULT};
	struct process *p;
	struct err err;
	int r = handle_process_find(x, &p, &err);

	if (r == 0 && exchange_buffered(x).len)
		r = json_parse(exchange_arena(x), exchange_buffered(x), fields, &body, &err);
	if (r == 0 && (body.signal < 1 || body.signal > SIGNAL_MAX))
		r = err_set(&err, -EINVAL, ERR_INVALID_REQUEST,
			    "signal must be a number from 1 to %d", SIGNAL_MAX);
	if (r < 0) {
		exchange_reply_err(x, &err);
		return;
	}
	if (handle_process_later(x, p, handle_process_kill))
		return;
	process_signal(p, (int)body.signal);
	handle_generation(x, p->sb);
	exchange_reply_empty(x, 204);
}

/* --- ending --- */

struct ending {
	struct end_call *call;
	struct process *p; /* held */
	struct process_wait wait;
	bool is_gone; /* it never ran, or nobody will hear how it ended */
};

/* One that was named, or all. What was asked for goes on if the client goes away. */
struct end_call {
	struct exchange *x;
	struct hold hold;
	bool is_list;
	uint64_t generation;
	unsigned pending;
	struct err err; /* of the last that is gone */
	size_t len;
	struct ending items[];
};

static void reply_ended(struct end_call *c)
{
	struct json_writer w;

	json_writer_init(&w, false);
	if (c->is_list)
		json_array(&w);
	for (size_t i = 0; i < c->len; i++) {
		if (!c->items[i].is_gone)
			write_process(&w, c->items[i].p);
	}
	if (c->is_list)
		json_array_end(&w);
	exchange_reply_json(c->x, 200, &w);
	json_writer_close(&w);
}

static void finish_end(struct end_call *c)
{
	if (c->pending)
		return;
	hold_end(&c->hold);
	if (c->x) {
		exchange_on_gone(c->x, NULL, NULL);
		if (!c->is_list && c->items[0].is_gone)
			exchange_reply_err(c->x, &c->err);
		else
			reply_ended(c);
	}
	for (size_t i = 0; i < c->len; i++)
		process_release(c->items[i].p);
	free(c);
}

static void on_process_ended(struct process_wait *wait, struct process *p, const struct err *err)
{
	struct ending *e = container_of(wait, struct ending, wait);

	e->is_gone = err != NULL;
	if (err)
		e->call->err = *err;
	e->call->pending--;
	finish_end(e->call);
}

static void on_end_gone(void *arg)
{
	struct end_call *c = arg;

	exchange_reply_gone(take(c->x));
}

static struct end_call *end_call_new(struct exchange *x, struct sandbox *sb, size_t room)
{
	struct end_call *c = calloc(1, sizeof(*c) + room * sizeof(struct ending));

	if (!c) {
		exchange_reply_no_memory(x);
		return NULL;
	}
	c->x = x;
	c->pending = 1; /* the caller, until all were asked */
	hold_begin(&c->hold, sb, HOLD_REQUEST);
	handle_generation(x, sb);
	exchange_on_gone(x, on_end_gone, c);
	return c;
}

static void end_one(struct end_call *c, struct process *p, uint64_t grace_ms)
{
	struct ending *e = &c->items[c->len++];

	e->call = c;
	e->p = p;
	e->wait.done = on_process_ended;
	list_init(&e->wait.link);
	process_hold(p);
	process_end(p, grace_ms);
	if (process_wait_end(p, &e->wait) == 0)
		c->pending++;
}

static int take_grace(struct exchange *x, uint64_t *ret, struct err *err)
{
	int r = handle_query_number(x, "grace_ms", ret, err);

	if (r >= 0 && *ret > GRACE_MAX_MS)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "grace_ms must be at most %d",
			       GRACE_MAX_MS);
	return r;
}

void handle_process_end(struct exchange *x, struct process *p, uint64_t grace_ms)
{
	struct end_call *c = end_call_new(x, p->sb, 1);

	if (!c)
		return;
	end_one(c, p, grace_ms);
	c->pending--;
	finish_end(c);
}

void handle_process_delete(struct exchange *x)
{
	uint64_t grace_ms = 0;
	struct process *p;
	struct err err;
	int r = handle_process_find(x, &p, &err);

	if (r == 0)
		r = take_grace(x, &grace_ms, &err);
	if (r < 0)
		exchange_reply_err(x, &err);
	else if (!handle_process_later(x, p, handle_process_delete))
		handle_process_end(x, p, grace_ms);
}

void handle_process_delete_all(struct exchange *x)
{
	uint64_t grace_ms = 0;
	struct end_call *c;
	struct sandbox *sb;
	struct err err;
	int r = handle_find(x, false, &sb, &err);

	if (r == 0)
		r = take_grace(x, &grace_ms, &err);
	if (r < 0) {
		exchange_reply_err(x, &err);
		return;
	}
	list_for_each (node, &sb->processes) {
		if (handle_process_later(x, list_entry(node, struct process, link),
					 handle_process_delete_all))
			return;
	}
	c = end_call_new(x, sb, sb->processes_len);
	if (!c)
		return;
	c->is_list = true;
	list_for_each_safe (node, &sb->processes) {
		struct process *p = list_entry(node, struct process, link);

		if ((p->state != PROCESS_ENDED || process_is_tree_lost(p)) && !p->is_terminal)
			end_one(c, p, grace_ms);
	}
	c->pending--;
	finish_end(c);
}
