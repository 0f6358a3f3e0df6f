#include "daemon/terminal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "daemon/activity.h"
#include "daemon/berthd.h"
#include "daemon/handle_sandbox.h"
#include "daemon/registry.h"
#include "daemon/sandbox_sleep.h"
#include "daemon/websocket.h"
#include "proto/agent.h"

#define TURN_NS     (5 * 1000000ULL) /* so that one long replay does not hold up all others */
#define RESIZES_MAX 200 /* of one viewer in a second: init cannot say that it is enough */

#define CLOSE_NORMAL     1000
#define CLOSE_GOING_AWAY 1001
#define CLOSE_POLICY     1008
#define CLOSE_INTERNAL   1011

/* Lives until its websocket and its timers are closed. */
struct viewer {
	struct list link;  /* the terminal's viewers */
	struct process *p; /* held, and read */
	struct journal *journal;
	struct journal_follower follower;
	struct journal_reader reader;
	struct websocket *ws;
	uv_timer_t again, stall;
	const struct config *config; /* berthd's */
	unsigned handles;
	struct hold hold;
	struct buf typed; /* what the terminal has no room for now */
	uint64_t second;  /* in which `resizes` came */
	unsigned resizes;
	uint32_t cols, rows; /* of its own screen; 0: it did not say */
	uint64_t sized_ns;   /* when it did */
	bool is_bridge, is_owner;
	bool is_paused; /* it does not keep up */
	bool is_over;
};

static void release(struct viewer *v)
{
	if (--v->handles)
		return;
	buf_close(&v->typed);
	free(v);
}

static void on_timer_closed(uv_handle_t *handle)
{
	release(handle->data);
}

/* --- the slowest viewer sets the pace --- */

static void throttle(struct process *p)
{
	uint64_t most = 0;
	bool was_throttled = p->is_throttled;

	list_for_each (node, &p->viewers) {
		struct viewer *v = list_entry(node, struct viewer, link);
		uint64_t behind = journal_end(v->journal) - v->reader.cursor;

		most = behind > most ? behind : most;
	}
	if (!p->exec)
		return;
	p->is_throttled = most > (was_throttled ? TERMINAL_BEHIND_MAX / 2 : TERMINAL_BEHIND_MAX);
	if (p->is_throttled && !was_throttled)
		exec_pause(p->exec);
	else if (!p->is_throttled && was_throttled)
		exec_resume(p->exec);
}

/* --- the last who said a size sets it --- */

static void resize(struct viewer *v, uint32_t cols, uint32_t rows)
{
	v->cols = cols;
	v->rows = rows;
	v->sized_ns = uv_hrtime();
	if (v->p->exec)
		exec_resize(v->p->exec, cols, rows);
}

/* One has left, and its screen counts no more. */
static void resize_back(struct process *p)
{
	struct viewer *last = NULL;

	list_for_each (node, &p->viewers) {
		struct viewer *v = list_entry(node, struct viewer, link);

		if (v->cols && (!last || v->sized_ns > last->sized_ns))
			last = v;
	}
	if (last && p->exec && !p->has_exited)
		exec_resize(p->exec, last->cols, last->rows);
}

/* Once: it sees nothing more from here on. */
static void be_over(struct viewer *v)
{
	struct process *p = v->p;

	if (v->is_over)
		return;
	v->is_over = true;
	hold_end(&v->hold);
	list_remove(&v->follower.link);
	list_remove(&v->link);
	uv_close((uv_handle_t *)&v->again, on_timer_closed);
	uv_close((uv_handle_t *)&v->stall, on_timer_closed);
	if (v->is_owner && p->exec)
		exec_kill(p->exec);
	if (v->cols)
		resize_back(p);
	throttle(p);
	process_read_end(p);
	process_release(p);
}

/* --- what it is told --- */

static void open_text(struct json_writer *w, const char *type)
{
	json_writer_init(w, false);
	json_object(w);
	json_key(w, "type");
	json_text(w, type);
}

static void write_cursor(struct json_writer *w, uint64_t cursor)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, cursor);
	json_key(w, "cursor");
	json_text(w, text);
}

static void send_text(struct viewer *v, struct json_writer *w)
{
	struct buf text;

	buf_init(&text, 4096);
	json_object_end(w);
	if (json_writer_end(w, &text) == 0)
		websocket_send(v->ws, true, (struct str){buf_at(&text), buf_len(&text)});
	json_writer_close(w);
	buf_close(&text);
}

static void send_ready(struct viewer *v)
{
	struct json_writer w;

	open_text(&w, "ready");
	json_key(&w, "id");
	json_text(&w, v->p->id.text);
	write_cursor(&w, v->reader.cursor);
	send_text(v, &w);
}

static void send_truncated(struct viewer *v, uint64_t bytes)
{
	struct json_writer w;

	if (v->is_bridge)
		return;
	open_text(&w, "truncated");
	json_key(&w, "bytes");
	json_int(&w, (int64_t)bytes);
	write_cursor(&w, v->reader.cursor);
	send_text(v, &w);
}

static void send_exit(struct viewer *v)
{
	const struct exec_end *end = v->p->is_over ? &v->p->end : &v->p->main_end;
	struct json_writer w;

	open_text(&w, "exit");
	json_key(&w, "code");
	if (end->exit_code < 0)
		json_null(&w);
	else
		json_int(&w, end->exit_code);
	if (end->signal) {
		json_key(&w, "signal");
		json_int(&w, end->signal);
	}
	json_key(&w, "reason");
	json_text(&w, exec_reason_name(end->reason));
	write_cursor(&w, v->reader.cursor);
	send_text(v, &w);
}

static void send_error(struct viewer *v, const char *message)
{
	struct json_writer w;

	open_text(&w, "error");
	json_key(&w, "message");
	json_text(&w, message);
	send_text(v, &w);
}

/* The bridge's clients look at no close frame. */
static void finish(struct viewer *v, uint16_t code, const char *reason)
{
	if (!v->is_over && v->is_bridge && code != CLOSE_NORMAL)
		send_error(v, reason);
	if (!v->is_over)
		websocket_close(v->ws, code, str_of(reason));
}

/* --- from the journal --- */

static void rest(struct viewer *v)
{
	const struct process *p = v->p;

	if (p->is_over || p->is_exit_stored) {
		send_exit(v);
		finish(v, CLOSE_NORMAL, "the program has ended");
	} else if (p->state == PROCESS_ENDED) {
		finish(v, CLOSE_GOING_AWAY, "the sandbox is gone, or berthd is stopping");
	}
}

/* Its files may be those of another of the same name now. */
static bool is_removed(const struct viewer *v)
{
	return !v->p->sb && v->reader.cursor < journal_end(v->journal);
}

static void on_again(uv_timer_t *timer)
{
	struct viewer *v = timer->data;
	char room[JOURNAL_PIECE_MAX];
	struct journal_piece piece;
	uint64_t until_ns = uv_hrtime() + TURN_NS;
	int r;

	do {
		if (v->is_over || v->is_paused)
			return;
		r = is_removed(v) ? -ENOENT : journal_read(v->journal, &v->reader, room, &piece);
		if (r == 1 && piece.kind == JOURNAL_GAP)
			send_truncated(v, piece.gap);
		else if (r == 1 && websocket_send(v->ws, false, piece.bytes) < 0)
			finish(v, CLOSE_INTERNAL, "out of memory");
	} while (r == 1 && uv_hrtime() < until_ns);
	if (v->is_over)
		return;
	/* Not 0: libuv before 1.45 runs that in the same turn, before anybody else. */
	if (r == 1)
		uv_timer_start(&v->again, on_again, 1, 0);
	else if (r == -ENOENT)
		finish(v, CLOSE_GOING_AWAY, "what it printed is not kept any more");
	else if (r < 0)
		finish(v, CLOSE_INTERNAL, "what it printed cannot be read");
	else if (!v->is_paused)
		rest(v);
	if (!v->is_over)
		throttle(v->p);
}

/* It may be the pipe that is just being read: what follows of this comes later. */
static void on_changed(struct journal_follower *follower)
{
	struct viewer *v = container_of(follower, struct viewer, follower);
	struct process *p = v->p;

	if (!v->is_paused)
		uv_timer_start(&v->again, on_again, 0, 0);
	if (p->exec && !p->is_throttled &&
	    journal_end(v->journal) - v->reader.cursor > TERMINAL_BEHIND_MAX) {
		p->is_throttled = true;
		exec_pause(p->exec);
	}
}

/* --- what is typed --- */

/* One at a time may go past the mark, which is what the exec has room for. */
static bool put(struct process *p, struct str bytes)
{
	if (p->is_input_full)
		return false;
	if (p->exec && !p->has_exited)
		p->is_input_full = exec_stdin(p->exec, bytes);
	return true;
}

static void on_room(void *arg)
{
	struct process *p = arg;

	p->is_input_full = false;
	list_for_each_safe (node, &p->viewers) {
		struct viewer *v = list_entry(node, struct viewer, link);

		if (!buf_len(&v->typed))
			continue;
		if (!put(p, (struct str){buf_at(&v->typed), buf_len(&v->typed)}))
			return;
		buf_close(&v->typed);
		websocket_resume(v->ws);
	}
}

int terminal_type(struct process *p, struct str bytes, struct err *err)
{
	if (!p->exec || p->has_exited)
		return err_set(err, -ESRCH, ERR_CONFLICT, "the terminal's program has ended");
	p->on_room = on_room;
	p->writer = p;
	if (!put(p, bytes))
		return err_set(err, -EAGAIN, ERR_CONFLICT,
			       "the terminal's program does not read what was typed before");
	return 0;
}

static void on_typed(struct viewer *v, struct str bytes)
{
	/* Of nothing nothing would be left to wait for room, and on_room() would pass it by. */
	if (!bytes.len || (buf_len(&v->typed) == 0 && put(v->p, bytes)))
		return;
	websocket_pause(v->ws);
	if (buf_append_str(&v->typed, bytes) < 0)
		finish(v, CLOSE_INTERNAL, "out of memory");
}

struct control {
	struct str type;
	uint64_t cols, rows;
};

static bool is_too_often(struct viewer *v)
{
	uint64_t second = uv_now(v->again.loop) / 1000;

	if (second != v->second)
		v->resizes = 0;
	v->second = second;
	return ++v->resizes > RESIZES_MAX;
}

static void on_control(struct viewer *v, struct str text)
{
	static const struct json_field fields[] = {
		{"type", JSON_STRING, offsetof(struct control, type), true, 0, NULL, 0},
		{"cols", JSON_UINT, offsetof(struct control, cols), true, 0, NULL, 0},
		{"rows", JSON_UINT, offsetof(struct control, rows), true, 0, NULL, 0},
		{NULL, JSON_BOOL, 0, false, 0, NULL, 0},
	};
	struct control c = {STR(""), 0, 0};
	struct arena arena;
	struct err err;
	bool is_good;

	arena_init(&arena, 4 * TERMINAL_MESSAGE_MAX);
	is_good = json_parse(&arena, text, fields, &c, &err) == 0 &&
		  str_eq(c.type, STR("resize")) && c.cols >= 1 && c.cols <= AGENT_CELLS_MAX &&
		  c.rows >= 1 && c.rows <= AGENT_CELLS_MAX;
	arena_close(&arena);
	if (!is_good)
		finish(v, CLOSE_POLICY,
		       "text must be {\"type\":\"resize\",\"cols\":80,\"rows\":24}");
	else if (is_too_often(v))
		finish(v, CLOSE_POLICY, "it resized the terminal too often");
	else
		resize(v, (uint32_t)c.cols, (uint32_t)c.rows);
}

/* --- its websocket --- */

static void on_message(void *arg, bool is_text, struct str bytes)
{
	struct viewer *v = arg;

	if (v->is_over)
		return;
	if (v->p->sb)
		sandbox_wake(v->p->sb); /* somebody froze it under our eyes */
	if (is_text)
		on_control(v, bytes);
	else
		on_typed(v, bytes);
}

static void on_stall(uv_timer_t *timer)
{
	finish(timer->data, CLOSE_POLICY, "it did not read what the terminal printed for too long");
}

static void on_pause(void *arg)
{
	struct viewer *v = arg;

	v->is_paused = true;
	if (!v->is_over)
		uv_timer_start(&v->stall, on_stall, v->config->viewer_timeout_ms, 0);
}

static void on_resume(void *arg)
{
	struct viewer *v = arg;

	v->is_paused = false;
	if (v->is_over)
		return;
	uv_timer_stop(&v->stall);
	uv_timer_start(&v->again, on_again, 0, 0);
}

static void on_closed(void *arg, uint16_t code)
{
	struct viewer *v = arg;

	be_over(v);
	release(v);
}

static const struct websocket_ops ops = {on_message, on_pause, on_resume, on_closed};

/* --- the request --- */

static uint64_t first_cursor(const struct journal *journal, const struct terminal_view *view)
{
	uint64_t start = journal_start(journal), end = journal_end(journal);

	if (view->has_cursor)
		return view->cursor < end ? view->cursor : end;
	return end - start > TERMINAL_REPLAY ? end - TERMINAL_REPLAY : start;
}

static struct viewer *viewer_new(struct process *p, const struct terminal_view *view,
				 struct err *err)
{
	struct viewer *v;
	unsigned count = 0;

	list_for_each (node, &p->viewers)
		count++;
	if (count >= TERMINAL_VIEWERS_MAX) {
		err_set(err, -EMFILE, ERR_CAPACITY_EXCEEDED,
			"the terminal has %u viewers: no more may be there at once", count);
		return NULL;
	}
	v = calloc(1, sizeof(*v));
	if (!v) {
		err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
		return NULL;
	}
	v->journal = process_read(p, err);
	if (!v->journal) {
		free(v);
		return NULL;
	}
	v->p = p;
	v->is_bridge = view->is_bridge;
	v->is_owner = view->is_owner;
	v->reader.cursor = first_cursor(v->journal, view);
	v->follower.changed = on_changed;
	buf_init(&v->typed, STREAM_OVERRUN_MAX + 2 * TERMINAL_MESSAGE_MAX);
	list_init(&v->follower.link);
	list_init(&v->link);
	return v;
}

static void open_view(struct viewer *v, const struct terminal_view *view)
{
	struct process *p = v->p;
	uv_loop_t *loop = registry_loop(p->sb->registry);

	process_hold(p);
	uv_timer_init(loop, &v->again);
	uv_timer_init(loop, &v->stall);
	v->again.data = v->stall.data = v;
	v->handles = 3;
	v->hold.name = p->id.text;
	hold_begin(&v->hold, p->sb, HOLD_TERMINAL);
	list_append(&p->viewers, &v->link);
	p->on_room = on_room;
	p->writer = p;
	journal_follow(v->journal, &v->follower);
	if (view->cols && view->rows)
		resize(v, view->cols, view->rows);
	uv_timer_start(&v->again, on_again, 0, 0);
	send_ready(v);
}

void terminal_view(struct exchange *x, struct process *p, const struct terminal_view *view)
{
	const struct berthd *b = server_arg(exchange_server(x));
	struct err err;
	struct viewer *v = NULL;

	if (!p->sb)
		err_set(&err, -ENOENT, ERR_NOT_FOUND, "the sandbox was deleted");
	else
		v = viewer_new(p, view, &err);
	if (!v) {
		exchange_reply_err(x, &err);
	} else {
		v->config = &b->config;
		handle_generation(x, p->sb);
		v->ws = websocket_accept(x, &ops, TERMINAL_MESSAGE_MAX, v);
	}
	if (v && v->ws) {
		open_view(v, view);
		return;
	}
	/* It was for this viewer alone. */
	if (view->is_owner && p->exec)
		exec_kill(p->exec);
	if (v) {
		process_read_end(p);
		free(v);
	}
}
