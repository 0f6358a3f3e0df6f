#include "daemon/preview.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/access_log.h"
#include "daemon/preview_state.h"
#include "daemon/process.h"
#include "daemon/registry.h"
#include "proto/api_error.h"
#include "proto/forward.h"
#include "proto/preview_url.h"

static struct berthd *berthd_of(struct exchange *x)
{
	return server_arg(exchange_server(x));
}

/* --- the end --- */

static void tell_log(const struct visit *v)
{
	const struct http_head *head = exchange_head(v->x);
	struct access_entry entry = {
		.client = str_of(exchange_peer(v->x)),
		.sandbox = str_of(v->sb->id.text),
		.port = v->port->number,
		.method = head->method_name,
		.path = head->path,
		.status = v->status,
		.bytes_in = v->bytes_in,
		.bytes_out = v->bytes_out,
		.duration_us = (uv_hrtime() - v->begun_ns) / 1000,
		.is_upgrade = v->state == VISIT_TUNNEL,
	};

	access_log_add(v->berthd->access_log, &entry);
}

static void count(struct visit *v)
{
	struct port_counts *counts = &v->port->counts;
	unsigned class = (unsigned)v->status / 100;

	counts->answers[class < array_len(counts->answers) ? class : 0]++;
	counts->open--;
}

/*
 * A request that waits for its answer holds, and so do bytes on their way. A stream or a tunnel
 * that is silent does not: its last byte began the idle time anew.
 */
void visit_hold(struct visit *v)
{
	bool is_held = v->state < VISIT_ANSWERING || v->is_server_full || v->is_client_full ||
		       (v->state == VISIT_TUNNEL && v->sb->settings.hold_open_sockets);

	if (is_held)
		hold_begin(&v->hold, v->sb, HOLD_PREVIEW);
	else
		hold_end(&v->hold);
}

void visit_end(struct visit *v)
{
	assert(v->state != VISIT_OVER);
	if (v->berthd->access_log)
		tell_log(v);
	v->state = VISIT_OVER;
	list_remove(&v->link);
	hold_end(&v->hold);
	visit_stop_waiting(v);
	sandbox_cancel(&v->wait);
	port_connect_cancel(&v->listing);
	if (v->upstream)
		upstream_close(take(v->upstream));
	count(v);
	http_parser_close(&v->parser);
	buf_close(&v->trailers);
	exchange_on_gone(v->x, NULL, NULL);
}

void visit_fail(struct visit *v, const struct err *err)
{
	struct exchange *x = v->x;

	v->status = api_status(err->code);
	visit_end(v);
	page_error(x, err);
}

static void on_gone(void *arg)
{
	struct visit *v = arg;
	struct exchange *x = v->x;

	visit_end(v);
	exchange_reply_gone(x);
}

static void is_destroyed(struct err *err)
{
	err_set(err, -ENOENT, ERR_GONE, "the sandbox of this address was destroyed");
}

void visit_stopped(struct visit *v)
{
	struct err err;

	if (sandbox_is_leaving(v->sb))
		is_destroyed(&err);
	else
		err_set(&err, -ECONNRESET, ERR_UNAVAILABLE,
			"the sandbox was stopped before its server had answered: try again");
	visit_fail(v, &err);
}

void preview_evict(struct port *port)
{
	struct err err;

	if (sandbox_is_leaving(port->sb))
		is_destroyed(&err);
	else
		err_set(&err, -ENOENT, ERR_NOT_FOUND, "this port is not exposed any more");
	while (!list_is_empty(&port->visits)) {
		struct visit *v = list_entry(port->visits.next, struct visit, link);
		struct stream *answer = v->answer;

		if (!answer) {
			visit_fail(v, &err);
			continue;
		}
		visit_end(v);
		stream_end(answer, -ECONNABORTED);
	}
}

/* --- waiting --- */

struct patience {
	uv_timer_t timer;
	struct visit *v; /* NULL: it is closing */
	uint64_t since_ms;
};

static void on_patience_closed(uv_handle_t *handle)
{
	free(container_of((uv_timer_t *)handle, struct patience, timer));
}

void visit_stop_waiting(struct visit *v)
{
	struct patience *p = take(v->patience);

	if (!p)
		return;
	p->v = NULL;
	uv_close((uv_handle_t *)&p->timer, on_patience_closed);
}

static void give_up(struct visit *v)
{
	struct err err;

	if (v->state == VISIT_STARTING)
		err_set(&err, -ETIMEDOUT, ERR_UNAVAILABLE,
			"the sandbox runs, but nothing listens on port %u yet: try again",
			v->port->number);
	else
		err_set(&err, -ETIMEDOUT, ERR_UNAVAILABLE,
			"the sandbox is not awake yet: try again");
	visit_fail(v, &err);
}

static void show_waking(struct visit *v)
{
	struct exchange *x = v->x;
	struct sandbox *sb = v->sb;
	uint16_t port = v->port->number;

	v->status = 503;
	visit_end(v);
	page_waking(x, sb, port);
}

static void visit_use(struct visit *v);

static void on_patience(uv_timer_t *timer)
{
	struct patience *p = container_of(timer, struct patience, timer);
	struct visit *v = p->v;
	uint64_t waited = uv_now(timer->loop) - p->since_ms;

	if (!v)
		return;
	if (waited >= PREVIEW_PAGE_MS && page_is_wanted(v->x) && !v->is_upgrade)
		show_waking(v);
	else if (waited >= PREVIEW_LIMIT_MS)
		give_up(v);
	else if (v->state == VISIT_STARTING)
		visit_use(v);
}

/* Goes on until visit_stop_waiting(). */
static void patience_begin(struct visit *v)
{
	uv_loop_t *loop = registry_loop(v->sb->registry);

	if (v->patience)
		return;
	v->patience = calloc(1, sizeof(*v->patience));
	if (!v->patience)
		return; /* it waits as long as its client does */
	v->patience->v = v;
	v->patience->since_ms = uv_now(loop);
	uv_timer_init(loop, &v->patience->timer);
	uv_timer_start(&v->patience->timer, on_patience, PREVIEW_RETRY_MS, PREVIEW_RETRY_MS);
}

/* Why is for its owner to read, in its last_failure: it may speak of the host. */
static void not_started(struct visit *v)
{
	struct err err;

	err_set(&err, -EAGAIN, ERR_UNAVAILABLE,
		"the sandbox cannot be started now: try again later, or ask its owner");
	visit_fail(v, &err);
}

static void on_running(struct sandbox_wait *wait, struct sandbox *sb, const struct err *err)
{
	struct visit *v = container_of(wait, struct visit, wait);

	if (err)
		not_started(v);
	else
		visit_connect(v);
}

/* Whoever is safe to ask twice may get a connection that its server closes in this very moment. */
static bool may_be_kept(const struct visit *v)
{
	enum http_method method = exchange_head(v->x)->method;

	return !v->is_retried && !v->is_upgrade &&
	       (method == HTTP_METHOD_GET || method == HTTP_METHOD_HEAD ||
		method == HTTP_METHOD_OPTIONS) &&
	       exchange_head(v->x)->framing == HTTP_NO_BODY;
}

/* A kept connection tells by itself whether its sandbox is there. */
static bool has_kept(const struct visit *v)
{
	return v->sb->state == SANDBOX_RUNNING && !v->sb->still && v->port->idle_len &&
	       may_be_kept(v);
}

static void visit_use(struct visit *v)
{
	struct err err;
	int r;

	v->state = VISIT_WAKING;
	r = has_kept(v) ? 1 : sandbox_use(v->sb, &v->wait, &err);
	if (r < 0)
		not_started(v);
	else if (r > 0)
		visit_connect(v);
	else
		patience_begin(v);
}

/* --- connecting --- */

static void lost(struct visit *v)
{
	struct err err;

	if (sandbox_use_again(v->sb, &v->wait)) {
		v->state = VISIT_WAKING;
		patience_begin(v);
		return;
	}
	err_set(&err, -ECONNRESET, ERR_UNAVAILABLE,
		"the sandbox ended while it was asked: try again");
	visit_fail(v, &err);
}

/* What another connection brought is not to be read on. */
static void parse_anew(struct visit *v)
{
	http_parser_close(&v->parser);
	http_parser_init(&v->parser);
	v->parser.trailers = &v->trailers;
	v->parser.is_bodiless = exchange_head(v->x)->method == HTTP_METHOD_HEAD;
}

void visit_connect(struct visit *v)
{
	uint16_t number = v->port->number;

	v->state = VISIT_CONNECTING;
	parse_anew(v);
	v->upstream = may_be_kept(v)
			      ? upstream_open(v->sb, v->port, number, &visit_upstream_ops, v)
			      : upstream_open_new(v->sb, v->port, number, &visit_upstream_ops, v);
	v->is_kept = v->upstream && upstream_is_open(v->upstream);
	if (!v->upstream)
		visit_refused(v, -errno);
	else if (v->is_kept)
		visit_ask(v);
}

static void on_listing(struct port_connect *c, int result, const struct port_listening *listening)
{
	struct visit *v = container_of(c, struct visit, listing);
	struct exchange *x = v->x;
	uint16_t port = v->port->number;

	v->status = 502;
	visit_end(v);
	page_silent(x, port, listening);
}

void visit_refused(struct visit *v, int error)
{
	struct err err;

	/* -EPIPE: its init has died, and nobody has heard of it yet. */
	if (error == -ECONNRESET || error == -EPIPE || v->sb->state != SANDBOX_RUNNING) {
		lost(v);
	} else if (error == -EAGAIN || error == -ENOBUFS ||
		   (error == -ECONNREFUSED && process_is_coming_up(v->sb, PREVIEW_LIMIT_MS))) {
		/* Too many ask at once, or too early. */
		v->state = VISIT_STARTING;
		patience_begin(v);
	} else if (error == -ECONNREFUSED) {
		v->listing.done = on_listing;
		if (port_list(v->sb, &v->listing) < 0)
			lost(v);
	} else {
		err_set(&err, error, ERR_BAD_GATEWAY,
			"the server on port %u cannot be connected to: %s", v->port->number,
			strerror(-error));
		visit_fail(v, &err);
	}
}

/* --- the beginning --- */

static void begin(struct exchange *x, struct port *port)
{
	struct visit *v = arena_zalloc(exchange_arena(x), sizeof(*v));
	const struct http_head *head = exchange_head(x);

	if (!v) {
		exchange_reply_no_memory(x);
		return;
	}
	v->x = x;
	v->berthd = berthd_of(x);
	v->port = port;
	v->sb = port->sb;
	v->begun_ns = uv_hrtime();
	v->is_upgrade = forward_is_upgrade(head);
	v->is_sent = head->framing == HTTP_NO_BODY;
	v->wait.done = on_running;
	list_init(&v->wait.link);
	http_parser_init(&v->parser);
	buf_init(&v->trailers, HTTP_TRAILER_MAX);
	exchange_peer(x); /* for the log: it cannot be asked for when the client is gone */
	list_append(&port->visits, &v->link);
	port->counts.requests++;
	port->counts.open++;
	visit_hold(v);
	exchange_on_gone(x, on_gone, v);
	visit_use(v);
}

void handle_preview(struct exchange *x)
{
	struct berthd *b = berthd_of(x);
	char label[PORT_LABEL_SIZE];
	struct port *port = NULL;
	bool is_gone = false;
	struct err err;

	if (preview_url_label(&b->preview_url, exchange_head(x)->host, label) == 0)
		port = ports_route(registry_ports(b->registry), str_of(label), &is_gone);
	if (port) {
		begin(x, port);
		return;
	}
	if (is_gone)
		is_destroyed(&err);
	else
		err_set(&err, -ENOENT, ERR_NOT_FOUND,
			"no port of a sandbox is exposed under this host name");
	page_error(x, &err);
}
