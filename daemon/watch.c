#include "daemon/watch.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "daemon/activity.h"
#include "daemon/exec.h"
#include "daemon/file_worker.h"
#include "daemon/registry.h"
#include "proto/file_error.h"

/* Of what a watcher says, so much is read in such a time: some 50,000 events in a second. */
#define SHARE_BYTES (256 * 1024)
#define SHARE_MS    50

struct watcher {
	struct sandbox *sb; /* until it is over */
	struct exec *exec;  /* NULL once it has ended */
	struct file_reader reader;
	struct list watches;
	unsigned watches_len;
	uint32_t last_number;
	bool is_begun; /* its RESULT was there */
	bool is_full;  /* it does not read what it is told */
	bool is_over;
	size_t taken; /* since `taken_ms` */
	uint64_t taken_ms;
	uv_timer_t timer; /* resting; then its end, which must not be within a call of the exec's */
};

struct watch {
	struct list link;
	struct watcher *watcher;
	uint32_t number;
	bool is_ready;
	const struct watch_ops *ops;
	void *arg;
	char *path; /* for sentences */
};

/* --- the end of one, and of all --- */

static void on_timer_closed(uv_handle_t *handle)
{
	free(container_of((uv_timer_t *)handle, struct watcher, timer));
}

static void dispose(struct watcher *w)
{
	file_reader_close(&w->reader);
	uv_close((uv_handle_t *)&w->timer, on_timer_closed);
}

static void on_over(uv_timer_t *timer)
{
	struct watcher *w = container_of(timer, struct watcher, timer);

	exec_abandon(take(w->exec));
	dispose(w);
}

static void be_over(struct watcher *w)
{
	if (w->is_over)
		return;
	w->is_over = true;
	if (w->sb->watcher == w)
		w->sb->watcher = NULL;
	w->sb = NULL;
	if (w->exec)
		uv_timer_start(&w->timer, on_over, 0, 0);
}

static void forget(struct watch *watch)
{
	struct watcher *w = watch->watcher;

	list_remove(&watch->link);
	free(watch->path);
	free(watch);
	if (--w->watches_len == 0)
		be_over(w);
}

static void end(struct watch *watch, const char *reason, const struct err *err)
{
	const struct watch_ops *ops = watch->ops;
	void *arg = watch->arg;

	forget(watch);
	ops->ended(arg, reason, err);
}

static void end_all(struct watcher *w, const char *reason, const struct err *err)
{
	struct list watches;

	/* Whoever comes from here on gets another one. */
	be_over(w);
	list_init(&watches);
	while (!list_is_empty(&w->watches))
		list_move(&watches, w->watches.next);
	while (!list_is_empty(&watches)) {
		struct watch *watch = list_entry(watches.next, struct watch, link);

		end(watch, watch->is_ready ? reason : NULL, err);
	}
}

static void fail_nonsense(struct watcher *w)
{
	struct err err;

	err_set(&err, -EBADMSG, ERR_EXEC_TRANSPORT_ERROR,
		"the sandbox's watcher answered nonsense");
	end_all(w, NULL, &err);
}

static void on_exec_ended(void *arg, const struct exec_end *exec_end)
{
	struct watcher *w = arg;
	bool is_stopped = exec_end->reason == EXEC_KILLED;
	struct err err;

	w->exec = NULL;
	if (is_stopped)
		err_set(&err, -ESHUTDOWN, ERR_CONFLICT, "the sandbox was stopped");
	else
		file_worker_explain(exec_end, false, &err);
	end_all(w, is_stopped ? "stopped" : NULL, &err);
	dispose(w);
}

/* --- what it says --- */

static struct watch *find(struct watcher *w, uint32_t number)
{
	list_for_each (node, &w->watches) {
		struct watch *watch = list_entry(node, struct watch, link);

		if (watch->number == number)
			return watch;
	}
	return NULL;
}

static void explain(const struct watch *watch, uint32_t error, struct err *err)
{
	struct file_request request = {.op = FILE_OP_WATCH, .path = str_of(watch->path)};
	struct file_result result = {.error = error, .stage = FILE_AT_PATH};

	file_error_set(err, &request, &result);
}

static void take_result(struct watcher *w, const struct file_result *result)
{
	struct watch *first = list_entry(w->watches.next, struct watch, link);
	struct err err;

	if (w->is_begun) {
		fail_nonsense(w);
	} else if (result->error) {
		explain(first, result->error, &err);
		end_all(w, NULL, &err);
	}
	w->is_begun = true;
}

static void take_ready(struct watcher *w, struct watch *watch, const struct watch_ready *ready)
{
	struct err err;

	if (watch->is_ready) {
		fail_nonsense(w);
	} else if (ready->error) {
		explain(watch, ready->error, &err);
		end(watch, NULL, &err);
	} else {
		watch->is_ready = true;
		watch->ops->ready(watch->arg, ready->directories);
	}
}

static void take_gone(struct watch *watch, const struct watch_gone *gone)
{
	static const char *const reasons[WATCH_WHY_COUNT] = {
		[WATCH_REMOVED] = "removed",
		[WATCH_MOVED] = "moved",
		[WATCH_UNMOUNTED] = "unmounted",
	};
	struct err err;

	explain(watch, gone->error ? gone->error : EIO, &err);
	end(watch, reasons[gone->why], &err);
}

union frame {
	struct file_result result;
	struct watch_ready ready;
	struct watch_event event;
	struct watch_number number; /* and the first member of all but the result */
	struct watch_gone gone;
};

static const struct frame_field *fields_of(uint16_t type)
{
	return type == FILE_RESULT      ? file_result_fields
	       : type == WATCH_READY    ? watch_ready_fields
	       : type == WATCH_EVENT    ? watch_event_fields
	       : type == WATCH_OVERFLOW ? watch_number_fields
	       : type == WATCH_GONE     ? watch_gone_fields
					: NULL;
}

static void take_frame(struct watcher *w, const struct file_piece *piece)
{
	const struct frame_field *fields = fields_of(piece->head.type);
	struct watch *watch;
	union frame u;

	if (!fields || frame_decode(piece->message, fields, &u) < 0 ||
	    (piece->head.type != FILE_RESULT && !w->is_begun)) {
		fail_nonsense(w);
		return;
	}
	if (piece->head.type == FILE_RESULT) {
		take_result(w, &u.result);
		return;
	}
	watch = find(w, u.number.watch);
	if (!watch)
		return; /* it was dropped, and the watcher does not know yet */
	if (piece->head.type == WATCH_READY)
		take_ready(w, watch, &u.ready);
	else if (!watch->is_ready)
		fail_nonsense(w);
	else if (piece->head.type == WATCH_GONE)
		take_gone(watch, &u.gone);
	else if (piece->head.type == WATCH_OVERFLOW)
		watch->ops->overflow(watch->arg);
	else if (u.event.kind)
		watch->ops->event(watch->arg, &u.event);
}

static void on_rested(uv_timer_t *timer)
{
	struct watcher *w = container_of(timer, struct watcher, timer);

	exec_resume(w->exec); /* may be its end */
}

/* One sandbox that changes without end must not have all of our time. */
static void count(struct watcher *w, size_t len)
{
	uint64_t now = uv_now(w->timer.loop);

	if (now - w->taken_ms >= SHARE_MS) {
		w->taken_ms = now;
		w->taken = 0;
	}
	w->taken += len;
	if (w->taken < SHARE_BYTES || uv_is_active((uv_handle_t *)&w->timer))
		return;
	exec_pause(w->exec);
	uv_timer_start(&w->timer, on_rested, SHARE_MS, 0);
}

static void on_output(void *arg, bool is_stderr, struct str bytes)
{
	struct watcher *w = arg;
	struct file_piece piece;

	if (!w->is_over) {
		activity_touch(w->sb);
		count(w, bytes.len);
	}
	while (!is_stderr && !w->is_over) {
		int r = file_reader_next(&w->reader, &bytes, &piece);

		if (r == FILE_FOUND_NOTHING)
			return;
		if (r == FILE_FOUND_FRAME)
			take_frame(w, &piece);
		else
			fail_nonsense(w);
	}
}

static void on_room(void *arg)
{
	struct watcher *w = arg;

	w->is_full = false;
}

/* --- what it is told --- */

static int send_frame(struct watcher *w, uint16_t type, const struct frame_field *fields,
		      const void *value)
{
	struct frame_head head = {type, FRAME_VERSION, 0};
	char bytes[FRAME_MAX];
	int size = frame_encode(bytes, sizeof(bytes), &head, fields, value);

	if (size < 0)
		return size;
	if (exec_stdin(w->exec, (struct str){bytes, (size_t)size}))
		w->is_full = true;
	return 0;
}

static struct watcher *watcher_new(struct sandbox *sb, struct err *err)
{
	static const struct exec_ops ops = {on_output, on_exec_ended, on_room};
	struct exec_request exec = {
		.cwd = STR("/"), .has_stdin = true, .is_worker = true, .is_quiet = true};
	struct file_request request = {.op = FILE_OP_WATCH, .path = STR("/")};
	struct watcher *w = calloc(1, sizeof(*w));

	if (!w) {
		err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
		return NULL;
	}
	w->sb = sb;
	list_init(&w->watches);
	file_reader_init(&w->reader);
	w->exec = exec_new(sb, &exec, &ops, w, err);
	if (!w->exec) {
		free(w);
		return NULL;
	}
	uv_timer_init(registry_loop(sb->registry), &w->timer);
	send_frame(w, FILE_REQUEST, file_request_fields, &request);
	return w;
}

static int check_room(const struct watcher *w, struct err *err)
{
	if (w->watches_len == WATCH_SUBS_MAX)
		return err_set(err, -EAGAIN, ERR_CAPACITY_EXCEEDED,
			       "the sandbox is watched %u times already, and more is not possible",
			       w->watches_len);
	if (w->is_full)
		return err_set(err, -EAGAIN, ERR_CAPACITY_EXCEEDED,
			       "the sandbox's watcher does not keep up: try again later");
	return 0;
}

struct watch *watch_new(struct sandbox *sb, const struct watch_add *add,
			const struct watch_ops *ops, void *arg, struct err *err)
{
	struct watch_add numbered = *add;
	struct watch *watch;

	if (sb->watcher && check_room(sb->watcher, err) < 0)
		return NULL;
	watch = calloc(1, sizeof(*watch));
	if (watch)
		watch->path = strndup(add->path.at, add->path.len);
	if (!watch || !watch->path) {
		free(watch);
		err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
		return NULL;
	}
	if (!sb->watcher)
		sb->watcher = watcher_new(sb, err);
	if (!sb->watcher) {
		free(watch->path);
		free(watch);
		return NULL;
	}
	watch->watcher = sb->watcher;
	watch->ops = ops;
	watch->arg = arg;
	watch->number = numbered.watch = ++sb->watcher->last_number;
	list_append(&sb->watcher->watches, &watch->link);
	sb->watcher->watches_len++;
	send_frame(sb->watcher, WATCH_ADD, watch_add_fields, &numbered);
	return watch;
}

void watch_drop(struct watch *watch)
{
	struct watcher *w = watch->watcher;
	struct watch_number number = {watch->number};

	if (w->exec && w->watches_len > 1)
		send_frame(w, WATCH_REMOVE, watch_number_fields, &number);
	forget(watch);
}
