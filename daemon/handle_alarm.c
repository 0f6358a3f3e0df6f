/* Routes of .../alarm/{name} and .../alarms. None of them wakes the sandbox. */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "daemon/alarm.h"
#include "daemon/handle_sandbox.h"
#include "daemon/registry.h"
#include "daemon/routes.h"
#include "proto/uri.h"

/* A request that waits for what it asked for to be stored. */
struct alarm_call {
	struct exchange *x; /* NULL: the client is gone, and that was answered */
	struct sandbox *sb; /* there when the call is done */
	struct alarm_wait wait;
	struct sandbox_id name;
	bool is_removal;
};

static int find(struct exchange *x, struct sandbox **ret, struct sandbox_id *ret_name,
		struct err *err)
{
	struct str name;
	int r = handle_find(x, false, ret, err);

	if (r == 0 && (uri_decode(exchange_arena(x), exchange_captures(x)->items[1], &name) < 0 ||
		       sandbox_id_parse(name, ret_name) < 0))
		r = err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			    "an alarm's name has 1 to 63 letters, digits and dashes, and begins "
			    "and ends with a letter or digit");
	return r;
}

static int find_alarm(const struct sandbox *sb, const struct sandbox_id *name,
		      const struct alarm **ret, struct err *err)
{
	*ret = alarm_find(sb, name);
	return *ret ? 0
		    : err_set(err, -ENOENT, ERR_NOT_FOUND, "the sandbox has no alarm \"%s\"",
			      name->text);
}

static void reply_alarm(struct exchange *x, const struct sandbox *sb, const struct sandbox_id *name)
{
	const struct alarm *alarm;
	struct json_writer w;
	struct err err;

	if (find_alarm(sb, name, &alarm, &err) < 0) {
		exchange_reply_err(x, &err);
		return;
	}
	handle_generation(x, sb);
	json_writer_init(&w, false);
	alarm_write(alarm, &w);
	exchange_reply_json(x, 200, &w);
	json_writer_close(&w);
}

/* --- changing --- */

static void on_done(struct alarm_wait *wait, const struct err *err)
{
	struct alarm_call *c = container_of(wait, struct alarm_call, wait);

	if (c->x)
		exchange_on_gone(c->x, NULL, NULL);
	if (c->x && err)
		exchange_reply_err(c->x, err);
	else if (c->x && c->is_removal)
		exchange_reply_empty(c->x, 204);
	else if (c->x)
		reply_alarm(c->x, c->sb, &c->name);
	free(c);
}

static void on_gone(void *arg)
{
	struct alarm_call *c = arg;

	exchange_reply_gone(take(c->x));
}

static struct alarm_call *call_new(struct exchange *x, struct sandbox *sb,
				   const struct sandbox_id *name)
{
	struct alarm_call *c = calloc(1, sizeof(*c));

	if (!c) {
		exchange_reply_no_memory(x);
		return NULL;
	}
	*c = (struct alarm_call){.x = x, .sb = sb, .wait = {on_done}, .name = *name};
	exchange_on_gone(x, on_gone, c);
	return c;
}

void handle_alarm_put(struct exchange *x)
{
	struct alarm_request request;
	struct alarm_call *c;
	struct sandbox *sb;
	struct sandbox_id name;
	struct err err;
	int r = find(x, &sb, &name, &err);

	if (r == 0)
		r = alarm_request_parse(exchange_arena(x), exchange_buffered(x), &request, &err);
	if (r < 0) {
		exchange_reply_err(x, &err);
		return;
	}
	c = call_new(x, sb, &name);
	r = c ? alarm_put(sb, &name, &request, &c->wait, &err) : 0;
	if (r != 0)
		on_done(&c->wait, r < 0 ? &err : NULL);
}

void handle_alarm_delete(struct exchange *x)
{
	struct alarm_call *c;
	struct sandbox *sb;
	struct sandbox_id name;
	struct err err;
	int r;

	r = find(x, &sb, &name, &err);
	if (r < 0 && err.code == ERR_NOT_FOUND)
		exchange_reply_empty(x, 204);
	else if (r < 0)
		exchange_reply_err(x, &err);
	c = r < 0 ? NULL : call_new(x, sb, &name);
	if (!c)
		return;
	c->is_removal = true;
	r = alarm_delete(sb, &name, &c->wait, &err);
	if (r != 0)
		on_done(&c->wait, r < 0 ? &err : NULL);
}

/* --- showing --- */

void handle_alarm_get(struct exchange *x)
{
	struct sandbox *sb;
	struct sandbox_id name;
	struct err err;

	if (find(x, &sb, &name, &err) < 0)
		exchange_reply_err(x, &err);
	else
		reply_alarm(x, sb, &name);
}

static void write_all(struct json_writer *w, struct sandbox *sb)
{
	json_object(w);
	json_key(w, "alarms");
	json_array(w);
	for (const struct alarm *a = NULL; (a = alarm_next(sb, a));)
		alarm_write(a, w);
	json_array_end(w);
	json_object_end(w);
}

void handle_alarm_list(struct exchange *x)
{
	handle_show(x, write_all);
}
