/* Routes of .../context: make, list, interrupt, remove. Code comes by .../code. */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "daemon/context.h"
#include "daemon/handle_sandbox.h"
#include "daemon/registry.h"
#include "daemon/routes.h"
#include "proto/code_request.h"
#include "proto/time_text.h"
#include "proto/uri.h"

struct context_make {
	struct exchange *x; /* NULL: the client is gone, and that was answered */
	struct sandbox *sb;
	struct sandbox_wait wait;
	struct sandbox_id made; /* its name, if none was given */
	struct context_request request;
};

static void finish_err(struct context_make *m, const struct err *err)
{
	if (m->x) {
		exchange_on_gone(m->x, NULL, NULL);
		exchange_reply_err(m->x, err);
	}
	free(m);
}

static void write_context(struct json_writer *w, const struct context *c)
{
	struct context_view view = context_view(c);
	char text[TIME_TEXT_SIZE];

	json_object(w);
	json_key(w, "id");
	json_str(w, view.id);
	json_key(w, "language");
	json_text(w, kernel_language_name(view.language));
	json_key(w, "state");
	json_text(w, view.state);
	json_key(w, "cwd");
	json_str(w, view.cwd);
	if (view.user.len) {
		json_key(w, "user");
		json_str(w, view.user);
	}
	json_key(w, "default");
	json_bool(w, view.is_default);
	json_key(w, "waiting");
	json_int(w, view.waiting);
	json_key(w, "calls");
	json_int(w, (int64_t)view.calls);
	json_key(w, "pid");
	if (view.pid)
		json_int(w, view.pid);
	else
		json_null(w);
	json_key(w, "created_at");
	if (time_text_format(view.created_at_ms, text) < 0)
		json_null(w);
	else
		json_text(w, text);
	json_object_end(w);
}

/* --- making --- */

static struct str id_of(const struct context_make *m)
{
	return m->request.id.len ? m->request.id : str_of(m->made.text);
}

/* Its kernel runs, and is stored: that is all that was wanted. */
static void on_warm(void *arg, const struct err *err)
{
	struct context_make *m = arg;
	struct context *c = m->x ? context_find(m->sb, id_of(m)) : NULL;
	struct exchange *x = m->x;
	struct sandbox *sb = m->sb;
	struct json_writer w;

	if (err || !c) {
		finish_err(m, err);
		return;
	}
	free(m);
	exchange_on_gone(x, NULL, NULL);
	handle_generation(x, sb);
	json_writer_init(&w, false);
	write_context(&w, c);
	exchange_reply_json(x, 200, &w);
	json_writer_close(&w);
}

/* What is begun goes on: the context is there, whoever was told. */
static void on_gone(void *arg)
{
	struct context_make *m = arg;

	exchange_reply_gone(take(m->x));
}

static void make(struct context_make *m)
{
	struct context_settings settings = {
		.id = id_of(m),
		.language = m->request.language,
		.cwd = m->request.exec.cwd,
		.env = m->request.exec.env,
		.user = m->request.exec.user,
	};
	struct context *c;
	struct err err;

	if (!m->x) {
		free(m); /* and with it what the request had said */
		return;
	}
	c = context_new(m->sb, &settings, &err);
	if (!c || context_warm(c, on_warm, m, &err) < 0)
		finish_err(m, &err);
}

static void on_running(struct sandbox_wait *wait, struct sandbox *sb, const struct err *err)
{
	struct context_make *m = container_of(wait, struct context_make, wait);

	if (err)
		finish_err(m, err);
	else
		make(m);
}

void handle_context_create(struct exchange *x)
{
	struct context_make *m = calloc(1, sizeof(*m));
	struct str body = exchange_buffered(x);
	struct err err;
	int r = err_set(&err, -ENOMEM, ERR_INTERNAL, "out of memory");

	if (!m) {
		exchange_reply_err(x, &err);
		return;
	}
	m->x = x;
	m->wait.done = on_running;
	list_init(&m->wait.link);
	if (handle_make_id(&m->made) == 0)
		r = context_request_parse(exchange_arena(x), body.len ? body : STR("{}"),
					  &m->request, &err);
	if (r == 0)
		r = handle_find(x, true, &m->sb, &err);
	if (r == 0) {
		exchange_on_gone(x, on_gone, m);
		r = sandbox_use(m->sb, &m->wait, &err);
	}
	if (r < 0) {
		struct sandbox *sb = m->sb;

		finish_err(m, &err);
		if (sb)
			sandbox_discard(sb);
	} else if (r == 1) {
		make(m);
	}
}

/* --- listing --- */

static void write_all(struct json_writer *w, struct sandbox *sb)
{
	struct context *c = NULL;

	json_object(w);
	json_key(w, "contexts");
	json_array(w);
	while ((c = context_next(sb, c))) {
		if (context_view(c).is_listed)
			write_context(w, c);
	}
	json_array_end(w);
	json_object_end(w);
}

void handle_context_list(struct exchange *x)
{
	handle_show(x, write_all);
}

/* --- one of them --- */

/* ERR_NOT_FOUND if there is no sandbox, or no context of that name in it. */
static int find(struct exchange *x, struct context **ret, struct err *err)
{
	struct sandbox *sb;
	struct str id;
	int r = handle_find(x, false, &sb, err);

	if (r < 0)
		return r;
	if (uri_decode(exchange_arena(x), exchange_captures(x)->items[1], &id) < 0)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "the context's ID is malformed");
	*ret = context_find(sb, id);
	if (!*ret)
		return err_set(err, -ENOENT, ERR_NOT_FOUND,
			       "the sandbox has no such context: GET .../context lists them");
	return 0;
}

void handle_context_interrupt(struct exchange *x)
{
	struct context *c;
	struct json_writer w;
	struct err err;

	if (find(x, &c, &err) < 0) {
		exchange_reply_err(x, &err);
		return;
	}
	json_writer_init(&w, false);
	json_object(&w);
	json_key(&w, "interrupted");
	json_bool(&w, context_interrupt_running(c));
	json_object_end(&w);
	exchange_reply_json(x, 200, &w);
	json_writer_close(&w);
}

static void on_deleted(void *arg, const struct err *err)
{
	struct exchange *x = arg;

	if (err)
		exchange_reply_err(x, err);
	else
		exchange_reply_empty(x, 204);
}

/* One that is not there is removed already. */
void handle_context_delete(struct exchange *x)
{
	struct context *c;
	struct err err;
	int r = find(x, &c, &err);

	if (r == 0)
		r = context_delete(c, on_deleted, x, &err);
	if (r < 0 && err.code == ERR_NOT_FOUND)
		exchange_reply_empty(x, 204);
	else if (r < 0)
		exchange_reply_err(x, &err);
}
