/*
 * GET .../connect/{port}: the connection becomes one to a port inside, byte for byte.
 *
 *	waiting for the sandbox ──> connecting ──> open ── the client's end ──> half open
 *	                             ^    └── nobody listens: who does? ──> 502
 *	                             └─ soon ─┘  (what is started with the sandbox may be about to)
 *
 * Bytes are activity, and while some wait for a side that is slow they hold the sandbox. A silent
 * connection does not: the sandbox may be frozen under it, and what the client sends wakes it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "daemon/activity.h"
#include "daemon/handle_sandbox.h"
#include "daemon/port_connect.h"
#include "daemon/process.h"
#include "daemon/registry.h"
#include "daemon/routes.h"
#include "daemon/sandbox_sleep.h"
#include "daemon/upstream.h"

#define TOLD_MAX     20    /* ports in the sentence */
#define COMING_UP_MS 10000 /* that a server has which is started with its sandbox */
#define AGAIN_MS     50
#define ORPHAN_MS    60000 /* that a server has to take what a client left behind */

struct wire {
	struct exchange *x; /* NULL: the client is gone */
	struct sandbox *sb; /* while `again` runs nothing keeps it: it is looked for anew */
	struct registry *registry;
	struct sandbox_id id;
	struct sandbox_wait wait;
	struct port_connect listing;
	struct upstream *up;
	struct stream *output; /* NULL: not open yet, or not any more */
	struct hold hold;
	uv_timer_t again;
	uint16_t port;
	bool is_client_slow, is_server_slow, is_input_paused;
};

static void on_closed(uv_handle_t *handle)
{
	free(container_of((uv_timer_t *)handle, struct wire, again));
}

/* Nothing of it is called any more. */
static void wire_close(struct wire *w)
{
	sandbox_cancel(&w->wait);
	port_connect_cancel(&w->listing);
	if (w->up)
		upstream_close(w->up);
	hold_end(&w->hold);
	uv_close((uv_handle_t *)&w->again, on_closed);
}

static void fail(struct wire *w, const struct err *err)
{
	struct exchange *x = w->x;

	wire_close(w);
	exchange_on_gone(x, NULL, NULL);
	exchange_reply_err(x, err);
}

/* --- bytes --- */

static void hold_if_slow(struct wire *w)
{
	if (w->is_client_slow || w->is_server_slow)
		hold_begin(&w->hold, w->sb, HOLD_PREVIEW);
	else
		hold_end(&w->hold);
}

/* The last that the client hears. */
static void finish(struct wire *w, int status)
{
	struct stream *output = w->output;

	wire_close(w);
	if (output)
		stream_end(output, status);
}

static void client_data(void *arg, const char *bytes, size_t len)
{
	struct wire *w = arg;
	uv_buf_t part = uv_buf_init((char *)bytes, (unsigned)len);
	size_t unsent = upstream_write(w->up, &part, 1);

	w->is_server_slow = unsent > 0;
	if (unsent >= UPSTREAM_WRITE_HIGH && !w->is_input_paused) {
		w->is_input_paused = true;
		exchange_body_pause(w->x);
	}
	hold_if_slow(w);
	activity_touch(w->sb);
	sandbox_wake(w->sb);
}

static void client_end(void *arg, int status)
{
	struct wire *w = arg;

	if (status < 0)
		finish(w, status);
	else
		upstream_shutdown(w->up);
}

static void client_pause(void *arg)
{
	struct wire *w = arg;

	w->is_client_slow = true;
	hold_if_slow(w);
	upstream_pause(w->up);
}

static void client_resume(void *arg)
{
	struct wire *w = arg;

	w->is_client_slow = false;
	hold_if_slow(w);
	upstream_resume(w->up);
}

static void on_orphaned(uv_timer_t *timer)
{
	wire_close(container_of(timer, struct wire, again));
}

/* What it has sent before still arrives, unless its server does not want it. */
static void client_gone(void *arg)
{
	struct wire *w = arg;

	w->output = NULL;
	w->x = NULL;
	if (!w->is_server_slow) {
		wire_close(w);
		return;
	}
	w->is_client_slow = false;
	upstream_resume(w->up);
	uv_timer_start(&w->again, on_orphaned, ORPHAN_MS, 0);
}

static const struct stream_consumer consumer = {client_data, client_end};
static const struct stream_producer producer = {client_pause, client_resume, client_gone};

static void server_data(void *arg, const char *bytes, size_t len)
{
	struct wire *w = arg;

	activity_touch(w->sb);
	if (w->output)
		stream_push(w->output, bytes, len);
}

static void server_end(void *arg, int status)
{
	finish(arg, status);
}

static void server_room(void *arg)
{
	struct wire *w = arg;

	if (w->is_input_paused && w->x) {
		w->is_input_paused = false;
		exchange_body_resume(w->x);
	}
}

static void server_sent(void *arg)
{
	struct wire *w = arg;

	w->is_server_slow = false;
	hold_if_slow(w);
	if (!w->x)
		wire_close(w);
}

/* --- connecting --- */

static void tell_ports(const struct port_listening *listening, char *text, size_t size)
{
	size_t len = 0, shown = listening->len < TOLD_MAX ? listening->len : TOLD_MAX;

	for (size_t i = 0; i < shown; i++)
		len += (size_t)snprintf(text + len, size - len, "%s%u", i ? ", " : "",
					listening->ports[i]);
	if (shown < listening->len)
		snprintf(text + len, size - len, " and others");
}

static void on_listed(struct port_connect *listing, int result,
		      const struct port_listening *listening)
{
	struct wire *w = container_of(listing, struct wire, listing);
	char ports[TOLD_MAX * 7 + 32];
	struct err err;

	if (result < 0 || !listening->len) {
		err_set(&err, -ECONNREFUSED, ERR_PORT_NOT_LISTENING,
			"nothing listens on port %u inside the sandbox%s", w->port,
			result < 0 ? "" : ", nor on any other");
	} else {
		tell_ports(listening, ports, sizeof(ports));
		err_set(&err, -ECONNREFUSED, ERR_PORT_NOT_LISTENING,
			"nothing listens on port %u inside the sandbox, but on %s", w->port, ports);
	}
	fail(w, &err);
}

static void on_again(uv_timer_t *timer);

static void refuse(struct wire *w, int error)
{
	struct err err;

	if (error == -ECONNREFUSED && process_is_coming_up(w->sb, COMING_UP_MS)) {
		uv_timer_start(&w->again, on_again, AGAIN_MS, 0);
		return;
	}
	if (error == -ECONNREFUSED && port_list(w->sb, &w->listing) == 0)
		return;
	if (error == -ECONNREFUSED)
		err_set(&err, error, ERR_PORT_NOT_LISTENING,
			"nothing listens on port %u inside the sandbox", w->port);
	else if (error == -ETIMEDOUT)
		err_set(&err, error, ERR_TIMEOUT,
			"who listens on port %u inside the sandbox accepts no connection", w->port);
	else if (error == -EPROTONOSUPPORT)
		err_set(&err, error, ERR_UNSUPPORTED,
			"the sandbox was started by an older Berth, whose init cannot connect to "
			"ports: stop it once");
	else if (error == -EAGAIN)
		err_set(&err, error, ERR_CAPACITY_EXCEEDED,
			"too many wait for a connection into the sandbox");
	else
		err_set(&err, error, ERR_EXEC_TRANSPORT_ERROR,
			"cannot connect to port %u inside the sandbox: %s", w->port,
			strerror(-error));
	fail(w, &err);
}

static void on_connected(void *arg, int error)
{
	struct wire *w = arg;

	if (error < 0) {
		upstream_close(take(w->up));
		if (error == -ECONNRESET && handle_again(w->x, w->sb, &w->wait))
			return;
		refuse(w, error);
		return;
	}
	exchange_on_gone(w->x, NULL, NULL);
	handle_generation(w->x, w->sb);
	hold_if_slow(w);
	w->output = exchange_upgrade(w->x, &(struct upgrade){
						   .protocol = "tcp",
						   .consumer = &consumer,
						   .producer = &producer,
						   .arg = w,
						   .is_half_open = true,
					   });
	if (!w->output)
		wire_close(w);
}

static const struct upstream_ops ops = {on_connected, server_data, server_end, server_room,
					server_sent};

static void open_wire(struct wire *w)
{
	int error;

	hold_begin(&w->hold, w->sb, HOLD_PREVIEW); /* until it is known how it went */
	w->up = upstream_open(w->sb, NULL, w->port, &ops, w);
	error = errno;
	if (!w->up && !handle_again(w->x, w->sb, &w->wait))
		refuse(w, -error);
}

static void on_again(uv_timer_t *timer)
{
	struct wire *w = container_of(timer, struct wire, again);
	struct err err;
	int r;

	/* It may have gone meanwhile, or been deleted. */
	w->sb = registry_find(w->registry, &w->id);
	if (!w->sb || !w->sb->is_stored)
		r = err_set(&err, -ENOENT, ERR_NOT_FOUND, "the sandbox was deleted meanwhile");
	else
		r = handle_check_generation(w->x, w->sb, &err);
	if (r == 0)
		r = sandbox_use(w->sb, &w->wait, &err);
	if (r < 0)
		fail(w, &err);
	else if (r == 1)
		open_wire(w);
}

static void on_running(struct sandbox_wait *wait, struct sandbox *sb, const struct err *err)
{
	struct wire *w = container_of(wait, struct wire, wait);

	if (err)
		fail(w, err);
	else
		open_wire(w);
}

static void on_gone(void *arg)
{
	struct wire *w = arg;
	struct exchange *x = w->x;

	wire_close(w);
	exchange_reply_gone(x);
}

/* --- the request --- */

static int check_upgrade(struct exchange *x, struct err *err)
{
	const struct http_head *head = exchange_head(x);
	const struct str *protocol = http_header_find(head, STR("upgrade"));

	if (head->has_upgrade && protocol && http_list_has(*protocol, STR("tcp")) &&
	    head->method == HTTP_METHOD_GET)
		return 0;
	exchange_header(x, "Upgrade", "tcp");
	return err_set(err, -EINVAL, ERR_UPGRADE_REQUIRED,
		       "this becomes a connection to the port: send Connection: Upgrade and "
		       "Upgrade: tcp");
}

void handle_connect(struct exchange *x)
{
	struct wire *w = calloc(1, sizeof(*w));
	struct err err;
	int r = w ? handle_port_number(x, &w->port, &err)
		  : err_set(&err, -ENOMEM, ERR_INTERNAL, "out of memory");

	if (r == 0)
		r = check_upgrade(x, &err);
	/* None is made for this: nobody would listen in it. If it is there, may it be woken? */
	if (r == 0)
		r = handle_find(x, false, &w->sb, &err);
	if (r == 0)
		r = handle_find(x, true, &w->sb, &err);
	if (r < 0) {
		free(w);
		exchange_reply_err(x, &err);
		return;
	}
	w->x = x;
	w->registry = w->sb->registry;
	w->id = w->sb->id;
	w->wait.done = on_running;
	w->listing.done = on_listed;
	list_init(&w->wait.link);
	uv_timer_init(registry_loop(w->sb->registry), &w->again);
	exchange_on_gone(x, on_gone, w);
	r = sandbox_use(w->sb, &w->wait, &err);
	if (r < 0)
		fail(w, &err);
	else if (r == 1)
		open_wire(w);
}
