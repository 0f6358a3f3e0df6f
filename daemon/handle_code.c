/* POST /v1/sandbox/{id}/code: as server-sent events, or as one JSON answer. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "daemon/berthd.h"
#include "daemon/context.h"
#include "daemon/handle_sandbox.h"
#include "daemon/output.h"
#include "daemon/registry.h"
#include "daemon/routes.h"
#include "daemon/sse.h"
#include "proto/code_request.h"

/* Of an answer that is no stream: of each of both streams, and of all results and the error. */
#define OUTPUT_MAX  (2 * 1024 * 1024)
#define RESULTS_MAX (8 * 1024 * 1024)
static_assert(OUTPUT_WRITTEN_MAX(OUTPUT_MAX) + RESULTS_MAX + 64 * 1024 < EXCHANGE_ARENA_MAX,
	      "the answer");

/* One request. Lives until its answer is complete and its call has ended, whichever is later. */
struct code_call {
	struct exchange *x; /* NULL once answered, or taken over by the events */
	struct sandbox *sb;
	struct sandbox_wait wait;
	struct code_request request; /* in the exchange's arena, as what `call` refers to */
	struct context_call call;
	bool is_entered, has_begun;
	char context[EXEC_SESSION_ID_MAX + 1];
	enum kernel_language language;
	uv_loop_t *loop;

	bool wants_events;
	struct sse sse;
	bool sse_open;

	struct output output;
	struct buf results; /* the array without its brackets */
	struct buf error;
	uint64_t results_kept, results_dropped;
};

static void release(struct code_call *c)
{
	if (c->is_entered || c->sse_open || c->x)
		return;
	output_close(&c->output);
	buf_close(&c->results);
	buf_close(&c->error);
	free(c);
}

/* --- its end, as both say it --- */

static void write_end(const struct code_call *c, const struct context_end *end,
		      struct json_writer *w)
{
	json_key(w, "context");
	json_text(w, c->context);
	json_key(w, "language");
	json_text(w, kernel_language_name(c->language));
	json_key(w, "reason");
	json_text(w, context_reason_name(end->reason));
	json_key(w, "fresh");
	json_bool(w, end->is_fresh);
	json_key(w, "replaced");
	json_bool(w, end->is_replaced);
	json_key(w, "duration_ms");
	json_int(w, (int64_t)end->duration_ms);
	if (end->reason == CONTEXT_EXITED) {
		json_key(w, "exit_code");
		json_int(w, end->exit_code);
	}
	if (end->signal) {
		json_key(w, "signal");
		json_int(w, end->signal);
	}
	if (end->message[0]) {
		json_key(w, "message");
		json_text(w, end->message);
	}
}

/* --- as events --- */

static void send_written(struct code_call *c, struct str event, struct json_writer *w)
{
	struct buf text;

	buf_init(&text, JSON_TEXT_MAX);
	if (json_writer_end(w, &text) == 0)
		sse_send(&c->sse, event, (struct str){NULL, 0},
			 (struct str){buf_at(&text), buf_len(&text)});
	json_writer_close(w);
	buf_close(&text);
}

static void send_end(struct code_call *c, const struct context_end *end)
{
	struct json_writer w;

	output_send_rest(&c->output, &c->sse);
	json_writer_init(&w, false);
	json_object(&w);
	write_end(c, end, &w);
	json_object_end(&w);
	send_written(c, STR("done"), &w);
	sse_end(&c->sse);
}

static void on_events_pause(void *arg)
{
	struct code_call *c = arg;

	if (c->is_entered)
		context_pause(&c->call);
}

static void on_events_resume(void *arg)
{
	struct code_call *c = arg;

	if (c->is_entered)
		context_resume(&c->call);
}

static void abandon(struct code_call *c)
{
	if (c->is_entered)
		context_abandon(&c->call);
	c->is_entered = false;
}

static void on_events_abort(void *arg)
{
	struct code_call *c = arg;

	abandon(c);
	sse_end(&c->sse);
}

static void on_events_closed(void *arg)
{
	struct code_call *c = arg;

	c->sse_open = false;
	release(c);
}

static const struct stream_producer events_producer = {on_events_pause, on_events_resume,
						       on_events_abort};

static void begin_events(struct code_call *c)
{
	struct exchange *x = take(c->x);

	c->sse_open = true;
	if (sse_start(&c->sse, x,
		      &(struct sse_config){c->loop, SSE_HEARTBEAT_MS, &events_producer,
					   on_events_closed, c}) < 0)
		on_events_abort(c);
}

/* --- as one answer --- */

/* One more of an array; false: it does not fit. */
static bool append_written(struct code_call *c, struct buf *out, struct json_writer *w)
{
	struct buf text;
	bool fits;

	buf_init(&text, JSON_TEXT_MAX);
	fits = json_writer_end(w, &text) == 0 &&
	       buf_len(&c->results) + buf_len(&c->error) + buf_len(&text) < RESULTS_MAX &&
	       (!buf_len(out) || buf_append(out, ",", 1) == 0) &&
	       buf_append(out, buf_at(&text), buf_len(&text)) == 0;
	json_writer_close(w);
	buf_close(&text);
	return fits;
}

/* An error that is too long to be told is told without where it was. */
static void keep_error(struct code_call *c, const struct kernel_error *error)
{
	struct kernel_error cut = *error;
	struct json_writer w;

	if (buf_len(&c->error))
		return;
	json_writer_init(&w, false);
	code_error_write(error, &w);
	if (append_written(c, &c->error, &w))
		return;
	cut.traceback.len = 0;
	cut.message = STR("the error is too long for this answer: ask for events "
			  "(Accept: text/event-stream)");
	cut.name.len = cut.file.len = cut.blocked.len = 0;
	buf_close(&c->results);
	c->results_dropped += c->results_kept;
	c->results_kept = 0;
	json_writer_init(&w, false);
	code_error_write(&cut, &w);
	append_written(c, &c->error, &w);
}

static void write_array(struct json_writer *w, const struct buf *items)
{
	struct buf text;

	buf_init(&text, RESULTS_MAX + 2);
	if (buf_append(&text, "[", 1) == 0 &&
	    buf_append(&text, buf_at(items), buf_len(items)) == 0 && buf_append(&text, "]", 1) == 0)
		json_raw(w, (struct str){buf_at(&text), buf_len(&text)});
	buf_close(&text);
}

static void reply_end(struct code_call *c, const struct context_end *end)
{
	struct json_writer w;

	json_writer_init(&w, false);
	json_object(&w);
	json_key(&w, "results");
	write_array(&w, &c->results);
	json_key(&w, "results_dropped");
	json_int(&w, (int64_t)c->results_dropped);
	output_write(&c->output, &w);
	json_key(&w, "error");
	if (buf_len(&c->error))
		json_raw(&w, (struct str){buf_at(&c->error), buf_len(&c->error)});
	else
		json_null(&w);
	write_end(c, end, &w);
	json_object_end(&w);
	exchange_reply_json(take(c->x), 200, &w);
	json_writer_close(&w);
}

/* --- the context's side --- */

static void on_began(struct context_call *call)
{
	struct code_call *c = container_of(call, struct code_call, call);

	c->has_begun = true;
	handle_generation(c->x, c->sb);
	if (c->wants_events)
		begin_events(c);
}

static void on_output(struct context_call *call, bool is_stderr, struct str bytes)
{
	struct code_call *c = container_of(call, struct code_call, call);

	if (c->wants_events)
		output_send(&c->output, &c->sse, is_stderr, bytes);
	else
		output_keep(&c->output, is_stderr, bytes);
}

static void on_report(struct context_call *call, const struct kernel_report *report)
{
	struct code_call *c = container_of(call, struct code_call, call);
	bool is_result = report->kind == KERNEL_RESULT;
	struct json_writer w;

	if (!is_result && report->kind != KERNEL_ERROR)
		return;
	if (!is_result && !c->wants_events) {
		keep_error(c, &report->error);
		return;
	}
	json_writer_init(&w, false);
	if (is_result)
		code_result_write(&report->result, &w);
	else
		code_error_write(&report->error, &w);
	if (c->wants_events)
		send_written(c, is_result ? STR("result") : STR("error"), &w);
	else if (append_written(c, &c->results, &w))
		c->results_kept++;
	else
		c->results_dropped++;
}

/* Nothing was answered yet: it is said by the status. */
static void set_err(const struct context_end *end, struct err *err)
{
	err_set(err, -ECANCELED, end->code ? end->code : ERR_UNAVAILABLE, "%s",
		end->message[0] ? end->message : "the call was ended before it began");
}

static void on_ended(struct context_call *call, const struct context_end *end)
{
	struct code_call *c = container_of(call, struct code_call, call);
	struct err err;

	c->is_entered = false;
	if (!c->has_begun) {
		set_err(end, &err);
		exchange_reply_err(take(c->x), &err);
	} else if (c->wants_events) {
		send_end(c, end);
	} else {
		reply_end(c, end);
	}
	release(c);
}

static const struct context_call_ops call_ops = {on_began, on_output, on_report, on_ended};

/* --- from the request to the call --- */

static void fail(struct code_call *c, const struct err *err)
{
	exchange_reply_err(take(c->x), err);
	release(c);
}

static void on_gone(void *arg)
{
	struct code_call *c = arg;

	sandbox_cancel(&c->wait);
	abandon(c);
	exchange_reply_gone(take(c->x));
	release(c);
}

static int find_context(struct code_call *c, struct context **ret, struct err *err)
{
	const struct code_request *q = &c->request;
	struct context_view view;

	if (!q->context.len) {
		*ret = context_default(c->sb, q->language, err);
		return *ret ? 0 : -EAGAIN;
	}
	*ret = context_find(c->sb, q->context);
	if (!*ret)
		return err_set(err, -ENOENT, ERR_NOT_FOUND,
			       "the sandbox has no such context: GET .../context lists them, "
			       "POST .../context makes one");
	view = context_view(*ret);
	if (q->has_language && q->language != view.language)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "the context's language is %s, and not %s: choose another context",
			       kernel_language_name(view.language),
			       kernel_language_name(q->language));
	return 0;
}

static void enter(struct code_call *c)
{
	struct context *context;
	struct context_view view;
	struct err err;

	if (find_context(c, &context, &err) < 0) {
		fail(c, &err);
		return;
	}
	view = context_view(context);
	snprintf(c->context, sizeof(c->context), "%.*s", STR_ARGS(view.id));
	c->language = view.language;
	c->call.ops = &call_ops;
	c->call.order = (struct kernel_order){
		.kind = KERNEL_CODE,
		.code = c->request.code,
		.file = c->request.file,
	};
	c->call.timeout_ms = c->request.timeout_ms;
	list_init(&c->call.link);
	c->is_entered = true;
	if (context_enter(context, &c->call, &err) < 0) {
		c->is_entered = false;
		fail(c, &err);
	}
}

static void on_running(struct sandbox_wait *wait, struct sandbox *sb, const struct err *err)
{
	struct code_call *c = container_of(wait, struct code_call, wait);

	if (err)
		fail(c, err);
	else
		enter(c);
}

static int use_sandbox(struct code_call *c, struct err *err)
{
	struct context *context;
	int r = handle_find(c->x, !c->request.context.len, &c->sb, err);

	/* Nothing is started for a context that is not there. */
	if (r == 0 && c->request.context.len)
		r = find_context(c, &context, err);
	if (r == 0)
		r = sandbox_use(c->sb, &c->wait, err);
	return r;
}

static bool wants_events(const struct http_head *head)
{
	const struct str *accept = http_header_find(head, STR("accept"));

	return !accept || !http_list_has(*accept, STR("application/json"));
}

void handle_code(struct exchange *x)
{
	struct code_call *c = calloc(1, sizeof(*c));
	struct berthd *b = server_arg(exchange_server(x));
	struct str body = exchange_buffered(x);
	struct sandbox *sb;
	struct err err;
	int r;

	if (!c) {
		exchange_reply_no_memory(x);
		return;
	}
	c->x = x;
	c->loop = registry_loop(b->registry);
	c->wait.done = on_running;
	list_init(&c->wait.link);
	output_init(&c->output, OUTPUT_MAX);
	buf_init(&c->results, RESULTS_MAX);
	buf_init(&c->error, RESULTS_MAX);
	c->wants_events = wants_events(exchange_head(x));
	exchange_on_gone(x, on_gone, c);
	r = code_request_parse(exchange_arena(x), body.len ? body : STR("{}"), &c->request, &err);
	if (r == 0)
		r = use_sandbox(c, &err);
	sb = c->sb;
	if (r < 0) {
		fail(c, &err);
		if (sb)
			sandbox_discard(sb);
	} else if (r == 1) {
		enter(c);
	}
}
