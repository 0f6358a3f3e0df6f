/* Routes of terminals, and the bridge's /pty. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "daemon/handle_process.h"
#include "daemon/handle_sandbox.h"
#include "daemon/registry.h"
#include "daemon/routes.h"
#include "daemon/terminal.h"
#include "proto/agent.h"
#include "proto/uri.h"
#include "proto/websocket.h"

#define TERMINATE_GRACE_MS 1000
#define LEFTOVERS_MS       2000 /* that a name is not free though its shell has exited */
#define CTRL_C             "\x03"

void handle_terminal_start(struct exchange *x)
{
	struct process_request request = {.id = {NULL, 0}};
	struct str body = exchange_buffered(x);
	struct err err;

	if (!body.len)
		body = STR("{}");
	if (terminal_request_parse(exchange_arena(x), body, &request, &err) < 0)
		exchange_reply_err(x, &err);
	else
		handle_process_run(x, &request);
}

void handle_terminal_get(struct exchange *x)
{
	struct process *p;
	struct err err;

	if (handle_terminal_find(x, &p, &err) < 0)
		exchange_reply_err(x, &err);
	else
		handle_process_reply(x, p);
}

/* As the key does it: the terminal makes a signal of it, unless its program reads the key itself.
 */
void handle_terminal_interrupt(struct exchange *x)
{
	struct process *p;
	struct err err;
	int r = handle_terminal_find(x, &p, &err);

	if (r == 0 && handle_process_later(x, p, handle_terminal_interrupt))
		return;
	if (r == 0)
		r = terminal_type(p, STR(CTRL_C), &err);
	if (r < 0) {
		exchange_reply_err(x, &err);
		return;
	}
	handle_generation(x, p->sb);
	exchange_reply_empty(x, 204);
}

/* A shell takes a hangup for what it is, and tells its jobs. */
void handle_terminal_terminate(struct exchange *x)
{
	struct process *p;
	struct err err;

	if (handle_terminal_find(x, &p, &err) < 0) {
		exchange_reply_err(x, &err);
		return;
	}
	if (handle_process_later(x, p, handle_terminal_terminate))
		return;
	process_signal(p, SIGHUP);
	handle_process_end(x, p, TERMINATE_GRACE_MS);
}

/* --- viewers --- */

static int take_cells(struct exchange *x, const char *name, uint32_t *ret, struct err *err)
{
	uint64_t value = 0;
	int r = handle_query_number(x, name, &value, err);

	if (r > 0 && (value < 1 || value > AGENT_CELLS_MAX))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "%s must be from 1 to %d", name,
			       AGENT_CELLS_MAX);
	*ret = (uint32_t)value;
	return r < 0 ? r : 0;
}

/* Before anything is made of it: who cannot view needs no terminal. */
static int take_view(struct exchange *x, struct terminal_view *view, struct err *err)
{
	char key[WEBSOCKET_ACCEPT_LEN + 1];
	int r = websocket_accept_key(exchange_head(x), key, err);

	if (r < 0 && err->code == ERR_UPGRADE_REQUIRED)
		exchange_header(x, "Sec-WebSocket-Version", "13");
	if (r == 0)
		r = take_cells(x, "cols", &view->cols, err);
	if (r == 0)
		r = take_cells(x, "rows", &view->rows, err);
	if (r < 0)
		return r;
	r = handle_query_number(x, "cursor", &view->cursor, err);
	view->has_cursor = r > 0;
	return r < 0 ? r : 0;
}

void handle_terminal_connect(struct exchange *x)
{
	struct terminal_view view = {false};
	struct process *p;
	struct err err;
	int r = handle_terminal_find(x, &p, &err);

	if (r == 0)
		r = take_view(x, &view, &err);
	if (r < 0)
		exchange_reply_err(x, &err);
	else if (!handle_process_later(x, p, handle_terminal_connect))
		terminal_view(x, p, &view);
}

/* --- the bridge --- */

struct pty_call {
	struct exchange *x; /* NULL: the client is gone, and that was answered */
	struct sandbox *sb;
	struct sandbox_wait wait;
	struct process_wait started, ended;
	uv_timer_t late;
	bool has_late;
	struct process *held; /* whose end is awaited */
	struct process_request request;
	struct terminal_view view;
};

static void on_late_closed(uv_handle_t *handle)
{
	free(handle->data);
}

static void free_pty(struct pty_call *c)
{
	if (c->held)
		process_release(c->held);
	if (c->has_late)
		uv_close((uv_handle_t *)&c->late, on_late_closed);
	else
		free(c);
}

static void finish_pty(struct pty_call *c, struct process *p, const struct err *err)
{
	struct exchange *x = c->x;
	struct terminal_view view = c->view;

	free_pty(c);
	if (x)
		exchange_on_gone(x, NULL, NULL);
	if (x && err)
		exchange_reply_err(x, err);
	else if (x)
		terminal_view(x, p, &view);
	else if (p && view.is_owner && p->exec)
		exec_kill(p->exec); /* it was for this client alone */
}

static void on_pty_runs(struct process_wait *wait, struct process *p, const struct err *err)
{
	finish_pty(container_of(wait, struct pty_call, started), err ? NULL : p, err);
}

static struct process *find_session(const struct pty_call *c)
{
	struct sandbox_id id;

	if (!c->request.id.len || sandbox_id_parse(c->request.id, &id) < 0)
		return NULL;
	return process_find(c->sb, &id);
}

static void use_sandbox(struct pty_call *c);

/* Everything may be another now: the sandbox may have ended with it, or the name be taken again. */
static void on_name_free(struct process_wait *wait, struct process *p, const struct err *err)
{
	struct pty_call *c = container_of(wait, struct pty_call, ended);
	struct err gone;

	uv_timer_stop(&c->late);
	if (err)
		finish_pty(c, NULL, err);
	else if (handle_find(c->x, true, &c->sb, &gone) < 0)
		finish_pty(c, NULL, &gone);
	else
		use_sandbox(c);
}

static void on_late(uv_timer_t *timer)
{
	struct pty_call *c = timer->data;
	struct err err;

	process_cancel(&c->ended);
	err_set(&err, -EBUSY, ERR_CONFLICT,
		"the terminal's shell has exited, but something that it started still runs: "
		"end it with POST .../terminals/{id}/terminate, or choose another session");
	finish_pty(c, NULL, &err);
}

static void await_name(struct pty_call *c, struct process *p)
{
	process_hold(p);
	c->held = p;
	process_wait_end(p, &c->ended);
	uv_timer_init(registry_loop(c->sb->registry), &c->late);
	c->late.data = c;
	c->has_late = true;
	uv_timer_start(&c->late, on_late, LEFTOVERS_MS, 0);
}

/* The terminal of that name if it lives, or a new one. */
static void start_pty(struct pty_call *c)
{
	struct process *p = find_session(c);
	struct err err;

	if (p && p->is_terminal && p->state == PROCESS_RUNNING && !p->has_exited)
		finish_pty(c, p, NULL);
	else if (p && p->is_terminal && p->state == PROCESS_STARTING)
		list_append(&p->starts, &c->started.link);
	else if (p && p->is_terminal && p->state != PROCESS_ENDED && !c->has_late)
		await_name(c, p);
	else if (process_start(c->sb, &c->request, &c->started, &p, &err) < 0 &&
		 !handle_again(c->x, c->sb, &c->wait))
		finish_pty(c, NULL, &err);
}

static void on_sandbox_runs(struct sandbox_wait *wait, struct sandbox *sb, const struct err *err)
{
	struct pty_call *c = container_of(wait, struct pty_call, wait);

	if (err)
		finish_pty(c, NULL, err);
	else
		start_pty(c);
}

static void on_pty_gone(void *arg)
{
	struct pty_call *c = arg;
	bool is_begun = list_is_empty(&c->wait.link) && list_is_empty(&c->ended.link);

	sandbox_cancel(&c->wait);
	process_cancel(&c->ended);
	exchange_reply_gone(take(c->x));
	if (!is_begun)
		free_pty(c);
}

static void use_sandbox(struct pty_call *c)
{
	struct sandbox *sb = c->sb;
	struct err err;
	int r = sandbox_use(sb, &c->wait, &err);

	if (r < 0) {
		finish_pty(c, NULL, &err);
		sandbox_discard(sb);
	} else if (r == 1) {
		start_pty(c);
	}
}

static int take_pty(struct exchange *x, struct pty_call *c, struct err *err)
{
	struct arena *arena = exchange_arena(x);
	struct str query = exchange_head(x)->query, shell = STR(""), session = STR("");
	int r = take_view(x, &c->view, err);

	if (r < 0)
		return r;
	if (uri_query(arena, query, STR("shell"), &shell) < 0 ||
	    uri_query(arena, query, STR("session"), &session) < 0)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "shell or session is given twice, or badly escaped");
	r = terminal_request_shell(arena, shell, &c->request.exec.argv);
	if (r < 0)
		return err_set(err, r, ERR_INVALID_REQUEST, "shell is no name of a program");
	c->request.id = session;
	c->request.exec.cwd = STR("/workspace");
	c->request.exec.env = c->request.exec.user = STR("");
	c->request.exec.is_terminal = true;
	c->request.exec.cols = c->view.cols;
	c->request.exec.rows = c->view.rows;
	c->view.is_bridge = true;
	c->view.is_owner = c->request.exec.is_owned = !session.len;
	return 0;
}

void handle_pty(struct exchange *x)
{
	struct pty_call *c = calloc(1, sizeof(*c));
	struct err err;
	int r = c ? take_pty(x, c, &err) : err_set(&err, -ENOMEM, ERR_INTERNAL, "out of memory");

	if (r == 0)
		r = handle_find(x, true, &c->sb, &err);
	if (r < 0) {
		free(c);
		exchange_reply_err(x, &err);
		return;
	}
	c->x = x;
	c->wait.done = on_sandbox_runs;
	c->started.done = on_pty_runs;
	c->ended.done = on_name_free;
	list_init(&c->ended.link);
	list_init(&c->wait.link);
	list_init(&c->started.link);
	exchange_on_gone(x, on_pty_gone, c);
	use_sandbox(c);
}
