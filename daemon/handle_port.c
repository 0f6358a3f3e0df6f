/*
 * Routes of .../port and .../tunnel. None of them starts a sandbox, but exposing a port makes one
 * that is not there.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "daemon/berthd.h"
#include "daemon/handle_sandbox.h"
#include "daemon/port.h"
#include "daemon/registry.h"
#include "daemon/routes.h"
#include "proto/uri.h"

/* A request that waits for what it asked for to be stored, and before that for its sandbox. */
struct port_call {
	struct exchange *x; /* NULL: the client is gone, and that was answered */
	struct registry *registry;
	struct sandbox_id id;
	struct sandbox_wait change; /* of settings, under way */
	struct port_wait wait;
	uint16_t number;
	bool is_tunnel, is_removal;
	struct port_request request;
};

int handle_port_number(struct exchange *x, uint16_t *ret, struct err *err)
{
	struct str text;

	if (uri_decode(exchange_arena(x), exchange_captures(x)->items[1], &text) == 0 &&
	    port_number_parse(text, ret) == 0)
		return 0;
	return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "a port is a number from 1 to 65535");
}

static void reply_port(struct exchange *x, const struct sandbox *sb, uint16_t number,
		       void (*write)(const struct port *port, struct json_writer *w))
{
	const struct port *port = port_find(sb, number);
	struct json_writer w;

	if (!port) {
		exchange_reply_error(x, -ENOENT, ERR_NOT_FOUND,
				     "this port of the sandbox is not exposed");
		return;
	}
	handle_generation(x, sb);
	json_writer_init(&w, false);
	write(port, &w);
	exchange_reply_json(x, 200, &w);
	json_writer_close(&w);
}

/* --- changing --- */

static void finish(struct port_call *c, const struct err *err)
{
	const struct sandbox *sb = registry_find(c->registry, &c->id);

	if (c->x)
		exchange_on_gone(c->x, NULL, NULL);
	if (c->x && err)
		exchange_reply_err(c->x, err);
	else if (c->x && c->is_removal)
		exchange_reply_empty(c->x, 204);
	else if (c->x)
		reply_port(c->x, sb, c->number, c->is_tunnel ? port_write_tunnel : port_write);
	free(c);
}

static void on_done(struct port_wait *wait, const struct err *err)
{
	finish(container_of(wait, struct port_call, wait), err);
}

static void on_gone(void *arg)
{
	struct port_call *c = arg;

	exchange_reply_gone(take(c->x));
}

static void ask(struct port_call *c, struct sandbox *sb)
{
	struct err err;
	int r = c->is_removal ? port_delete(sb, c->number, &c->wait, &err)
			      : port_put(sb, c->number, &c->request, &c->wait, &err);

	if (r != 0)
		finish(c, r < 0 ? &err : NULL);
}

static void on_stored(void *arg, int result, const struct err *err)
{
	struct port_call *c = arg;

	if (result < 0)
		finish(c, err);
	else
		ask(c, registry_find(c->registry, &c->id));
}

/* Whoever made it has stored it, or could not. */
static void on_changed(struct sandbox_wait *wait, struct sandbox *sb, const struct err *err)
{
	struct port_call *c = container_of(wait, struct port_call, change);

	if (err)
		finish(c, err);
	else
		ask(c, sb);
}

/* Nothing is stored of one that is not. */
static void store_sandbox(struct port_call *c, struct sandbox *sb)
{
	struct settings settings;
	struct err err;
	int r;

	if (sandbox_change(sb, &c->change) == 0)
		return;
	r = settings_copy(&settings, &sb->settings);
	if (r == 0)
		r = sandbox_save_settings(sb, &settings, on_stored, c);
	if (r == 0)
		return;
	store_refuse(&err, r);
	finish(c, &err);
	sandbox_discard(sb);
}

static struct port_call *call_new(struct exchange *x, const struct sandbox *sb, uint16_t number)
{
	struct port_call *c = calloc(1, sizeof(*c));

	if (!c) {
		exchange_reply_no_memory(x);
		return NULL;
	}
	*c = (struct port_call){
		.x = x,
		.registry = sb->registry,
		.id = sb->id,
		.change = {.done = on_changed},
		.wait = {on_done},
		.number = number,
	};
	list_init(&c->change.link);
	exchange_on_gone(x, on_gone, c);
	return c;
}

static void expose(struct exchange *x, bool is_tunnel)
{
	struct str body = exchange_buffered(x);
	struct port_request request;
	struct sandbox *sb = NULL;
	struct port_call *c = NULL;
	uint16_t number;
	struct err err;
	int r = handle_port_number(x, &number, &err);

	if (r == 0)
		r = is_tunnel ? port_request_parse_tunnel(exchange_arena(x), body, &request, &err)
			      : port_request_parse(exchange_arena(x), body, &request, &err);
	if (r == 0)
		r = handle_find(x, false, &sb, &err);
	if (r < 0 && err.code == ERR_NOT_FOUND)
		r = handle_find(x, true, &sb, &err);
	if (r < 0)
		exchange_reply_err(x, &err);
	else
		c = call_new(x, sb, number);
	if (!c) {
		if (r == 0)
			sandbox_discard(sb);
		return;
	}
	c->is_tunnel = is_tunnel;
	c->request = request;
	if (sb->is_stored)
		ask(c, sb);
	else
		store_sandbox(c, sb);
}

void handle_port_put(struct exchange *x)
{
	expose(x, false);
}

void handle_tunnel_put(struct exchange *x)
{
	expose(x, true);
}

void handle_port_delete(struct exchange *x)
{
	struct port_call *c = NULL;
	struct sandbox *sb = NULL;
	uint16_t number;
	struct err err;
	int r = handle_port_number(x, &number, &err);

	if (r == 0)
		r = handle_find(x, false, &sb, &err);
	if (r < 0 && err.code == ERR_NOT_FOUND)
		exchange_reply_empty(x, 204);
	else if (r < 0)
		exchange_reply_err(x, &err);
	else
		c = call_new(x, sb, number);
	if (!c)
		return;
	c->is_removal = true;
	ask(c, sb);
}

/* --- showing --- */

void handle_port_get(struct exchange *x)
{
	struct sandbox *sb = NULL;
	uint16_t number;
	struct err err;

	if (handle_port_number(x, &number, &err) < 0 || handle_find(x, false, &sb, &err) < 0)
		exchange_reply_err(x, &err);
	else
		reply_port(x, sb, number, port_write);
}

static void write_all(struct json_writer *w, struct sandbox *sb)
{
	json_object(w);
	port_write_all(sb, w);
	json_object_end(w);
}

void handle_port_list(struct exchange *x)
{
	handle_show(x, write_all);
}
