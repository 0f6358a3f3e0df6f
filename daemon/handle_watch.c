/* GET .../watch/{path...}: what changes there, as server-sent events. */
#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "daemon/file_call.h"
#include "daemon/handle_sandbox.h"
#include "daemon/registry.h"
#include "daemon/routes.h"
#include "daemon/sse.h"
#include "daemon/watch.h"
#include "proto/api_error.h"
#include "proto/file_json.h"
#include "proto/uri.h"

#define QUEUE_MAX (256 * 1024) /* of events that a client has not taken yet */
#define EVENT_MAX (256 * 1024)

enum event_name { READY, CREATE, MODIFY, DELETE, MOVE, OVERFLOWED, END, ERROR, NAME_COUNT };

/* clang-format off */
static const struct str names[NAME_COUNT] = {
	[READY] = {"ready", 5},   [CREATE] = {"create", 6}, [MODIFY] = {"modify", 6},
	[DELETE] = {"delete", 6}, [MOVE] = {"move", 4},     [OVERFLOWED] = {"overflow", 8},
	[END] = {"end", 3},       [ERROR] = {"error", 5},
};
/* clang-format on */

/* Until the answer begins. In the exchange's arena, and gone with it. */
struct watch_call {
	struct file_call call;
	struct str include, exclude;
	struct viewer *viewer;
};

/* One who watches. Lives until the events are over and the watch is, whichever is later. */
struct viewer {
	struct watch_call *call; /* NULL once it has begun */
	struct watch *watch;     /* NULL: it has ended */
	struct sse sse;
	bool is_open; /* sse is */
	bool is_paused;
	/* What waits while it is: each a struct record and its data. When it is full, the rest is
	 * lost, and that is said. */
	struct buf queue;
	uint64_t lost;
	bool has_end; /* the last event: */
	enum event_name end_name;
	struct buf end;
	bool is_recursive;
	char path[FILE_PATH_MAX + 1];
	size_t path_len;
};

struct record {
	uint32_t name, len;
};

static void release(struct viewer *v)
{
	if (v->is_open || v->watch || v->call)
		return;
	buf_close(&v->queue);
	buf_close(&v->end);
	free(v);
}

/* --- to the client --- */

static struct str buf_str(const struct buf *buf)
{
	return (struct str){buf_at(buf), buf_len(buf)};
}

static void send_now(struct viewer *v, enum event_name name, struct str data)
{
	sse_send(&v->sse, names[name], (struct str){NULL, 0}, data);
}

static void keep(struct viewer *v, enum event_name name, struct str data)
{
	struct record record = {name, (uint32_t)data.len};
	char *room = v->lost ? NULL : buf_room(&v->queue, sizeof(record) + data.len);

	if (!room) {
		v->lost++;
		return;
	}
	memcpy(room, &record, sizeof(record));
	memcpy(room + sizeof(record), data.at, data.len);
	buf_added(&v->queue, sizeof(record) + data.len);
}

static void post(struct viewer *v, enum event_name name, struct str data)
{
	if (v->is_paused)
		keep(v, name, data);
	else
		send_now(v, name, data);
}

static void send_overflow(struct viewer *v)
{
	post(v, OVERFLOWED,
	     STR("{\"message\":\"events were lost: look again at what is watched\"}"));
}

static void send_queue(struct viewer *v)
{
	while (!v->is_paused && buf_len(&v->queue)) {
		struct record record;

		memcpy(&record, buf_at(&v->queue), sizeof(record));
		send_now(v, record.name,
			 (struct str){buf_at(&v->queue) + sizeof(record), record.len});
		buf_consume(&v->queue, sizeof(record) + record.len);
	}
	if (v->is_paused)
		return;
	buf_close(&v->queue);
	if (v->lost) {
		v->lost = 0;
		send_overflow(v);
	}
	if (v->has_end && !v->is_paused) {
		send_now(v, v->end_name, buf_str(&v->end));
		sse_end(&v->sse);
	}
}

/* --- events --- */

static void write_path(struct json_writer *w, const struct viewer *v, struct str below,
		       bool is_from)
{
	struct str path = {v->path, v->path_len};
	char whole[2 * FILE_PATH_MAX + 2];

	if (below.len) {
		memcpy(whole, path.at, path.len);
		if (path.at[path.len - 1] != '/')
			whole[path.len++] = '/';
		memcpy(whole + path.len, below.at, below.len);
		path = (struct str){whole, path.len + below.len};
	}
	if (is_from)
		file_json_write_bytes(w, "from", "from_base64", path);
	else
		file_json_write_name(w, path);
}

static void send_json(struct viewer *v, enum event_name name, struct json_writer *w)
{
	struct buf text;

	json_object_end(w);
	buf_init(&text, EVENT_MAX);
	if (json_writer_end(w, &text) == 0)
		post(v, name, buf_str(&text));
	else
		send_overflow(v); /* the truth, if not all of it */
	buf_close(&text);
	json_writer_close(w);
}

static void on_event(void *arg, const struct watch_event *event)
{
	static const enum event_name of_kind[WATCH_KIND_COUNT] = {
		[WATCH_CREATE] = CREATE,
		[WATCH_MODIFY] = MODIFY,
		[WATCH_DELETE] = DELETE,
		[WATCH_MOVE] = MOVE,
	};
	struct viewer *v = arg;
	struct json_writer w;

	json_writer_init(&w, false);
	json_object(&w);
	write_path(&w, v, event->path, false);
	if (event->kind == WATCH_MOVE)
		write_path(&w, v, event->from, true);
	json_key(&w, "is_directory");
	json_bool(&w, event->is_directory);
	send_json(v, of_kind[event->kind], &w);
}

static void on_overflow(void *arg)
{
	send_overflow(arg);
}

static void write_end(struct viewer *v, const char *reason, const struct err *err)
{
	static const char *const messages[][2] = {
		{"removed", "what was watched is gone"},
		{"moved", "what was watched has another place now"},
		{"unmounted", "what was watched was unmounted"},
		{"stopped", "the sandbox was stopped"},
	};
	struct json_writer w;

	v->has_end = true;
	v->end_name = reason ? END : ERROR;
	if (!reason) {
		api_error_write(&v->end, err);
		return;
	}
	json_writer_init(&w, false);
	json_object(&w);
	json_key(&w, "reason");
	json_text(&w, reason);
	for (size_t i = 0; i < array_len(messages); i++) {
		if (strcmp(messages[i][0], reason) == 0) {
			json_key(&w, "message");
			json_text(&w, messages[i][1]);
		}
	}
	json_object_end(&w);
	json_writer_end(&w, &v->end);
	json_writer_close(&w);
}

static void on_ended(void *arg, const char *reason, const struct err *err)
{
	struct viewer *v = arg;

	v->watch = NULL;
	if (v->call) {
		file_call_fail(&v->call->call, err);
		return;
	}
	if (!v->is_open || v->has_end)
		return;
	write_end(v, reason, err);
	send_queue(v);
}

/* --- the stream --- */

static void on_pause(void *arg)
{
	struct viewer *v = arg;

	v->is_paused = true;
}

static void on_resume(void *arg)
{
	struct viewer *v = arg;

	v->is_paused = false;
	send_queue(v);
}

static void on_abort(void *arg)
{
	struct viewer *v = arg;

	if (v->watch)
		watch_drop(take(v->watch));
	sse_end(&v->sse);
}

static void on_closed(void *arg)
{
	struct viewer *v = arg;

	v->is_open = false;
	release(v);
}

static void on_ready(void *arg, uint32_t directories)
{
	static const struct stream_producer producer = {on_pause, on_resume, on_abort};
	struct viewer *v = arg;
	struct file_call *c = &v->call->call;
	struct json_writer w;

	v->call = NULL;
	v->is_open = true;
	if (sse_start(&v->sse, c->x,
		      &(struct sse_config){registry_loop(c->sb->registry), SSE_HEARTBEAT_MS,
					   &producer, on_closed, v}) < 0) {
		on_abort(v);
		return;
	}
	json_writer_init(&w, false);
	json_object(&w);
	write_path(&w, v, (struct str){NULL, 0}, false);
	json_key(&w, "recursive");
	json_bool(&w, v->is_recursive);
	json_key(&w, "directories");
	json_int(&w, directories);
	send_json(v, READY, &w);
}

/* --- the request --- */

static void close_call(struct file_call *c)
{
	struct watch_call *call = container_of(c, struct watch_call, call);
	struct viewer *v = take(call->viewer);

	if (!v)
		return;
	v->call = NULL;
	if (v->watch)
		watch_drop(take(v->watch));
	release(v);
}

static void begin(struct file_call *c)
{
	static const struct watch_ops ops = {on_ready, on_event, on_overflow, on_ended};
	struct watch_call *call = container_of(c, struct watch_call, call);
	struct watch_add add = {.flags = c->request.flags,
				.path = c->request.path,
				.include = call->include,
				.exclude = call->exclude};
	struct viewer *v = calloc(1, sizeof(*v));
	struct err err;

	if (!v) {
		err_set(&err, -ENOMEM, ERR_INTERNAL, "out of memory");
		file_call_fail(c, &err);
		return;
	}
	call->viewer = v;
	v->call = call;
	buf_init(&v->queue, QUEUE_MAX);
	buf_init(&v->end, 64 * 1024);
	v->is_recursive = c->request.flags & FILE_RECURSIVE;
	v->path_len = c->request.path.len;
	memcpy(v->path, c->request.path.at, v->path_len);
	while (v->path_len > 1 && v->path[v->path_len - 1] == '/')
		v->path_len--;
	v->watch = watch_new(c->sb, &add, &ops, v, &err);
	if (v->watch) {
		handle_generation(c->x, c->sb);
		return;
	}
	close_call(c);
	if (!handle_again(c->x, c->sb, &c->wait))
		file_call_fail(c, &err);
}

void handle_watch(struct exchange *x)
{
	static const char *const query[] = {"recursive", "include", "exclude", NULL};
	struct watch_call *call = file_call_new(x, sizeof(*call), FILE_OP_WATCH, NULL);
	struct file_call *c;
	struct err err;

	if (!call)
		return;
	c = &call->call;
	c->query = query;
	c->begin = begin;
	c->close = close_call;
	if (file_call_take_path(c, &err) < 0 ||
	    file_call_flag(c, "recursive", FILE_RECURSIVE, &err) < 0 ||
	    file_call_patterns(c, "include", &call->include, &err) < 0 ||
	    file_call_patterns(c, "exclude", &call->exclude, &err) < 0)
		file_call_fail(c, &err);
	else
		file_call_start(c);
}
