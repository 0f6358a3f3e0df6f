/* POST /v1/sandbox/{id}/exec: as server-sent events, or as one JSON answer. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "daemon/berthd.h"
#include "daemon/activity.h"
#include "daemon/exec.h"
#include "daemon/handle_process.h"
#include "daemon/handle_sandbox.h"
#include "daemon/output.h"
#include "daemon/registry.h"
#include "daemon/routes.h"
#include "daemon/session.h"
#include "daemon/sse.h"
#include "proto/api_error.h"
#include "proto/exec_request.h"

#define FEED_MAX (64 * 1024) /* of inline stdin at once */
/* What it holds is copied and unescaped into the exchange's arena: that must have room for it. */
#define EXEC_BODY_MAX (6 * 1024 * 1024)

static_assert(EXEC_BODY_MAX + 8 * 1024 * 1024 < EXCHANGE_ARENA_MAX,
	      "the body and its longest string");
static_assert(OUTPUT_WRITTEN_MAX(EXEC_OUTPUT_MAX) < EXCHANGE_ARENA_MAX, "the answer");
static_assert(EXEC_STDIN_MAX / 3 * 4 < EXEC_BODY_MAX, "stdin as base64");

/* One request. Lives until its answer is complete and its exec has ended, whichever is later. */
struct exec_call {
	struct exchange *x; /* NULL once answered, or taken over by the events */
	struct sandbox *sb;
	struct sandbox_wait wait;
	struct exec_request request; /* in the exchange's arena */
	struct exec *exec;
	struct str session; /* its ID, from the head; "": none */
	struct session_wait turn;
	struct hold hold; /* while it waits for that */
	uv_loop_t *loop;

	struct buf body; /* JSON */
	bool body_failed;
	struct exchange *stdin_x; /* the body is stdin, and still flows */
	struct str inline_left;   /* of request.stdin_bytes: not handed on yet */
	bool is_feeding;

	bool wants_events;
	struct sse sse;
	bool sse_open;
	struct output output;
};

static void release(struct exec_call *c)
{
	if (c->exec || c->sse_open || c->x)
		return;
	hold_end(&c->hold);
	output_close(&c->output);
	buf_close(&c->body);
	free(c);
}

/* --- as events --- */

static void on_events_pause(void *arg)
{
	struct exec_call *c = arg;

	if (c->exec)
		exec_pause(c->exec);
}

static void on_events_resume(void *arg)
{
	struct exec_call *c = arg;

	if (c->exec)
		exec_resume(c->exec);
}

static void on_events_abort(void *arg)
{
	struct exec_call *c = arg;

	if (c->exec)
		exec_abandon(take(c->exec));
	sse_end(&c->sse);
}

static void on_events_closed(void *arg)
{
	struct exec_call *c = arg;

	c->sse_open = false;
	release(c);
}

static const struct stream_producer events_producer = {on_events_pause, on_events_resume,
						       on_events_abort};

static void send_end(struct exec_call *c, const struct exec_end *end)
{
	struct json_writer w;
	struct buf text;

	output_send_rest(&c->output, &c->sse);
	buf_init(&text, 64 * 1024);
	json_writer_init(&w, false);
	json_object(&w);
	exec_end_write(end, &w);
	json_object_end(&w);
	if (json_writer_end(&w, &text) == 0)
		sse_send(&c->sse, STR("exit"), (struct str){NULL, 0},
			 (struct str){buf_at(&text), buf_len(&text)});
	json_writer_close(&w);
	buf_close(&text);
	sse_end(&c->sse);
}

/* --- as one answer --- */

static void reply_end(struct exec_call *c, const struct exec_end *end)
{
	struct json_writer w;

	json_writer_init(&w, false);
	json_object(&w);
	output_write(&c->output, &w);
	exec_end_write(end, &w);
	json_object_end(&w);
	exchange_reply_json(take(c->x), 200, &w);
	json_writer_close(&w);
}

/* --- the exec's side --- */

static void on_output(void *arg, bool is_stderr, struct str bytes)
{
	struct exec_call *c = arg;

	if (c->wants_events)
		output_send(&c->output, &c->sse, is_stderr, bytes);
	else
		output_keep(&c->output, is_stderr, bytes);
}

static void on_ended(void *arg, const struct exec_end *end)
{
	struct exec_call *c = arg;

	c->exec = NULL;
	if (c->wants_events)
		send_end(c, end);
	else if (c->x)
		reply_end(c, end);
	release(c);
}

/* --- stdin as the request's body --- */

/* In pieces, as the command reads; the exchange, and so its arena, is there as long as the exec. */
static void feed_inline(struct exec_call *c)
{
	struct str *left = &c->inline_left;
	bool is_full = false;

	if (c->is_feeding || !left->at)
		return;
	c->is_feeding = true; /* room that is made while we write needs no second call */
	while (left->len && !is_full) {
		size_t n = left->len < FEED_MAX ? left->len : FEED_MAX;

		is_full = exec_stdin(c->exec, (struct str){left->at, n});
		*left = (struct str){left->at + n, left->len - n};
	}
	c->is_feeding = false;
	if (!left->len) {
		left->at = NULL;
		exec_stdin_end(c->exec);
	}
}

static void on_stdin_ready(void *arg)
{
	struct exec_call *c = arg;

	if (c->exec)
		feed_inline(c);
	if (c->stdin_x)
		exchange_body_resume(c->stdin_x);
}

static void on_stdin_data(void *arg, const char *bytes, size_t len)
{
	struct exec_call *c = arg;

	if (c->exec && exec_stdin(c->exec, (struct str){bytes, len}))
		exchange_body_pause(c->stdin_x);
}

static void on_stdin_end(void *arg, int status)
{
	struct exec_call *c = arg;

	c->stdin_x = NULL;
	if (c->exec && status == 0)
		exec_stdin_end(c->exec);
}

static const struct stream_consumer stdin_consumer = {on_stdin_data, on_stdin_end};
static const struct exec_ops exec_ops = {on_output, on_ended, on_stdin_ready};

/* --- from the request to the exec --- */

static void fail(struct exec_call *c, const struct err *err)
{
	c->stdin_x = NULL;
	exchange_reply_err(take(c->x), err);
	release(c);
}

/* Before anything has begun. */
static void fail_early(struct exec_call *c, const struct err *err)
{
	struct sandbox *sb = c->sb;

	fail(c, err);
	if (sb)
		sandbox_discard(sb);
}

static void on_gone(void *arg)
{
	struct exec_call *c = arg;
	struct err err;

	sandbox_cancel(&c->wait);
	session_cancel(&c->turn);
	if (c->exec)
		exec_abandon(take(c->exec));
	err_set(&err, -ECONNRESET, ERR_REQUEST_TIMEOUT, "the client went away");
	fail(c, &err);
}

static void begin_events(struct exec_call *c)
{
	struct exchange *x = take(c->x);

	c->sse_open = true;
	if (sse_start(&c->sse, x,
		      &(struct sse_config){c->loop, SSE_HEARTBEAT_MS, &events_producer,
					   on_events_closed, c}) < 0)
		on_events_abort(c);
}

static void run(struct exec_call *c)
{
	struct err err;

	c->exec = exec_new(c->sb, &c->request, &exec_ops, c, &err);
	hold_end(&c->hold);
	if (!c->exec) {
		if (c->request.shell || !handle_again(c->x, c->sb, &c->wait))
			fail(c, &err);
		return;
	}
	handle_generation(c->x, c->sb);
	if (c->request.has_stdin && !c->stdin_x) {
		c->inline_left = c->request.stdin_bytes;
		feed_inline(c);
	}
	if (c->stdin_x)
		exchange_body_resume(c->stdin_x);
	output_init(&c->output, c->request.max_output_bytes);
	if (c->wants_events)
		begin_events(c);
}

static void on_turn(struct session_wait *turn, struct exec_shell *shell)
{
	struct exec_call *c = container_of(turn, struct exec_call, turn);

	c->request.shell = shell;
	run(c);
	if (!shell->command)
		session_pass(shell);
}

static void on_turn_failed(struct session_wait *turn, const struct err *err)
{
	fail(container_of(turn, struct exec_call, turn), err);
}

/* One that nobody made has the usual settings, as a sandbox has. */
static void start(struct exec_call *c)
{
	struct session_fact fact = {.id = c->session, .cwd = STR("/workspace")};
	struct session *s = NULL;
	struct err err;
	int r = 0;

	if (!c->session.len) {
		run(c);
		return;
	}
	s = session_find(c->sb, c->session);
	if (!s)
		r = session_new(c->sb, &fact, &s, &err);
	if (r == 0) {
		hold_begin(&c->hold, c->sb, HOLD_REQUEST);
		r = session_enter(s, &c->turn, &err);
	}
	if (r < 0)
		fail(c, &err);
}

static void on_running(struct sandbox_wait *wait, struct sandbox *sb, const struct err *err)
{
	struct exec_call *c = container_of(wait, struct exec_call, wait);

	if (err)
		fail(c, err);
	else
		start(c);
}

/* Found only now: while the body came in, the sandbox of that ID may have been deleted. */
static void use_sandbox(struct exec_call *c)
{
	struct err err;
	int r;

	r = handle_find(c->x, true, &c->sb, &err);
	if (r == 0 && c->session.len)
		r = exec_request_for_shell(exchange_arena(c->x), &c->request, &err);
	else if (r == 0)
		r = handle_env(exchange_arena(c->x), c->sb, &c->request, &err);
	if (r == 0)
		r = sandbox_use(c->sb, &c->wait, &err);
	if (r < 0)
		fail_early(c, &err);
	else if (r == 1)
		start(c);
}

/* It becomes a background process, and is not ours any more. */
static void detach(struct exec_call *c)
{
	struct process_request request = {.exec = c->request, .id = STR("")};
	struct exchange *x = take(c->x);

	exchange_on_gone(x, NULL, NULL);
	release(c);
	handle_process_run(x, &request);
}

/* --- the JSON body --- */

static void on_json_data(void *arg, const char *bytes, size_t len)
{
	struct exec_call *c = arg;

	if (buf_append(&c->body, bytes, len) < 0)
		c->body_failed = true;
}

static void on_json_end(void *arg, int status)
{
	struct exec_call *c = arg;
	struct str text = {buf_at(&c->body), buf_len(&c->body)};
	struct err err;
	int r;

	if (!c->x || status == -ECONNRESET)
		return; /* on_gone() answers */
	if (status == -EFBIG || c->body_failed)
		r = err_set(&err, -EFBIG, ERR_PAYLOAD_TOO_LARGE, "the body is larger than %d bytes",
			    EXEC_BODY_MAX);
	else if (status < 0)
		r = err_set(&err, status, ERR_INVALID_REQUEST, "the body is malformed");
	else
		r = exec_request_parse(exchange_arena(c->x), text.len ? text : STR(""), &c->request,
				       &err);
	buf_close(&c->body);
	if (r == 0 && c->request.detach && c->session.len)
		r = err_set(
			&err, -EINVAL, ERR_INVALID_REQUEST,
			"a detached command runs in no session: leave out detach or Session-Id");
	if (r == 0 && c->request.detach && c->request.has_stdin)
		r = err_set(&err, -EINVAL, ERR_INVALID_REQUEST,
			    "stdin is not for a detached command: send it with "
			    "POST .../processes/{id}/stdin");
	if (r < 0)
		fail(c, &err);
	else if (c->request.detach)
		detach(c);
	else
		use_sandbox(c);
}

static const struct stream_consumer json_consumer = {on_json_data, on_json_end};

static bool wants_events(const struct http_head *head)
{
	const struct str *accept = http_header_find(head, STR("accept"));

	return !accept || !http_list_has(*accept, STR("application/json"));
}

static bool is_stream(const struct http_head *head)
{
	const struct str *type = http_header_find(head, STR("content-type"));

	return type && str_eq_nocase(*type, STR("application/octet-stream"));
}

static void take_stdin(struct exec_call *c)
{
	const struct http_head *head = exchange_head(c->x);
	struct err err;

	if (exec_request_from_query(exchange_arena(c->x), head->query, &c->request, &err) < 0) {
		fail(c, &err);
		return;
	}
	c->request.has_stdin = true;
	c->stdin_x = c->x;
	exchange_body(c->x, &stdin_consumer, c);
	exchange_body_pause(c->x); /* until somebody reads it */
	use_sandbox(c);
}

void handle_exec(struct exchange *x)
{
	struct exec_call *c = calloc(1, sizeof(*c));
	struct berthd *b = server_arg(exchange_server(x));
	const struct str *session;
	struct err err;

	if (!c) {
		exchange_reply_no_memory(x);
		return;
	}
	c->x = x;
	c->loop = registry_loop(b->registry);
	c->wait.done = on_running;
	list_init(&c->wait.link);
	c->turn = (struct session_wait){.ready = on_turn, .failed = on_turn_failed};
	list_init(&c->turn.link);
	buf_init(&c->body, EXEC_BODY_MAX);
	c->wants_events = wants_events(exchange_head(x));
	session = http_header_find(exchange_head(x), STR("session-id"));
	if (session && !session_id_is_valid(*session)) {
		err_set(&err, -EINVAL, ERR_INVALID_REQUEST,
			"Session-Id must be 1 to 128 letters, digits and -_.: and begin with a "
			"letter or digit");
		fail(c, &err);
		return;
	}
	if (session)
		c->session = *session;
	exchange_on_gone(x, on_gone, c);
	if (is_stream(exchange_head(x)))
		take_stdin(c);
	else
		exchange_body(x, &json_consumer, c);
}
