/* Routes of .../session: make, list, remove. Commands come by .../exec and its Session-Id. */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "daemon/handle_sandbox.h"
#include "daemon/registry.h"
#include "daemon/routes.h"
#include "daemon/session.h"
#include "proto/time_text.h"
#include "proto/uri.h"

struct session_call {
	struct exchange *x; /* NULL: the client is gone, and that was answered */
	struct sandbox *sb;
	struct sandbox_wait wait;
	struct session_wait turn;
	struct sandbox_id made; /* its name, if none was given */
	struct session_request request;
};

static void finish_err(struct session_call *c, const struct err *err)
{
	if (c->x) {
		exchange_on_gone(c->x, NULL, NULL);
		exchange_reply_err(c->x, err);
	}
	free(c);
}

static void write_session(struct json_writer *w, const struct session *s)
{
	struct session_view view = session_view(s);
	const struct session_fact *fact = view.fact;
	char text[TIME_TEXT_SIZE];

	json_object(w);
	json_key(w, "id");
	json_str(w, fact->id);
	json_key(w, "state");
	json_text(w, view.state);
	json_key(w, "cwd");
	json_str(w, fact->cwd);
	json_key(w, "user");
	json_str(w, fact->user);
	json_key(w, "shell");
	json_str(w, fact->shell);
	json_key(w, "waiting");
	json_int(w, view.waiting);
	json_key(w, "created_at");
	if (time_text_format(fact->created_at_ms, text) < 0)
		json_null(w);
	else
		json_text(w, text);
	json_object_end(w);
}

/* --- making --- */

/* Its shell runs, and is stored: that is all that was wanted. */
static void on_turn(struct session_wait *turn, struct exec_shell *shell)
{
	struct session_call *c = container_of(turn, struct session_call, turn);
	struct session *s = turn->session;
	struct exchange *x = c->x;
	struct sandbox *sb = c->sb;
	struct json_writer w;

	free(c);
	session_pass(shell);
	if (x) {
		exchange_on_gone(x, NULL, NULL);
		handle_generation(x, sb);
		json_writer_init(&w, false);
		write_session(&w, s);
		exchange_reply_json(x, 200, &w);
		json_writer_close(&w);
	}
}

static void on_turn_failed(struct session_wait *turn, const struct err *err)
{
	finish_err(container_of(turn, struct session_call, turn), err);
}

/* What is begun goes on: the session is there, whoever was told. */
static void on_gone(void *arg)
{
	struct session_call *c = arg;

	exchange_reply_gone(take(c->x));
}

static void enter(struct session_call *c)
{
	const struct session_request *r = &c->request;
	struct session_fact fact = {
		.id = r->id.len ? r->id : str_of(c->made.text),
		.cwd = r->exec.cwd,
		.user = r->exec.user,
		.shell = r->shell,
		.env = r->exec.env,
	};
	struct session *s;
	struct err err;
	int result;

	if (!c->x) {
		free(c); /* and with it what the request had said */
		return;
	}
	if (session_find(c->sb, fact.id))
		result = err_set(&err, -EEXIST, ERR_CONFLICT,
				 "a session of that ID is there already; DELETE removes it");
	else
		result = session_new(c->sb, &fact, &s, &err);
	if (result == 0)
		result = session_enter(s, &c->turn, &err);
	if (result < 0)
		finish_err(c, &err);
}

static void on_running(struct sandbox_wait *wait, struct sandbox *sb, const struct err *err)
{
	struct session_call *c = container_of(wait, struct session_call, wait);

	if (err)
		finish_err(c, err);
	else
		enter(c);
}

void handle_session_create(struct exchange *x)
{
	struct session_call *c = calloc(1, sizeof(*c));
	struct str body = exchange_buffered(x);
	struct err err;
	int r = err_set(&err, -ENOMEM, ERR_INTERNAL, "out of memory");

	if (!c) {
		exchange_reply_err(x, &err);
		return;
	}
	c->x = x;
	c->wait.done = on_running;
	list_init(&c->wait.link);
	c->turn = (struct session_wait){.ready = on_turn, .failed = on_turn_failed};
	list_init(&c->turn.link);
	if (handle_make_id(&c->made) == 0)
		r = session_request_parse(exchange_arena(x), body.len ? body : STR("{}"),
					  &c->request, &err);
	if (r == 0)
		r = handle_find(x, true, &c->sb, &err);
	if (r == 0) {
		exchange_on_gone(x, on_gone, c);
		r = sandbox_use(c->sb, &c->wait, &err);
	}
	if (r < 0) {
		struct sandbox *sb = c->sb;

		finish_err(c, &err);
		if (sb)
			sandbox_discard(sb);
	} else if (r == 1) {
		enter(c);
	}
}

/* --- listing --- */

static void write_all(struct json_writer *w, struct sandbox *sb)
{
	struct session *s = NULL;

	json_object(w);
	json_key(w, "sessions");
	json_array(w);
	while ((s = session_next(sb, s))) {
		if (session_view(s).is_stored)
			write_session(w, s);
	}
	json_array_end(w);
	json_object_end(w);
}

void handle_session_list(struct exchange *x)
{
	handle_show(x, write_all);
}

/* --- removing --- */

static void on_deleted(void *arg, const struct err *err)
{
	struct exchange *x = arg;

	if (err)
		exchange_reply_err(x, err);
	else
		exchange_reply_empty(x, 204);
}

void handle_session_delete(struct exchange *x)
{
	struct session *s = NULL;
	struct sandbox *sb;
	struct err err;
	struct str id;
	int r = handle_find(x, false, &sb, &err);

	if (r == 0 && uri_decode(exchange_arena(x), exchange_captures(x)->items[1], &id) < 0)
		r = err_set(&err, -EINVAL, ERR_INVALID_REQUEST, "the session's ID is malformed");
	if (r == 0)
		s = session_find(sb, id);
	if (s)
		r = session_delete(s, on_deleted, x, &err);
	if (r < 0 && err.code != ERR_NOT_FOUND)
		exchange_reply_err(x, &err);
	else if (!s)
		exchange_reply_empty(x, 204);
}
