#include "daemon/file_worker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "daemon/registry.h"
#include "proto/file_error.h"

#define MOVE_MAX  ((size_t)1 << 20) /* as much as a pipe may hold; others wait meanwhile */
#define LINGER_MS 30000 /* that a worker has to come to its end when nobody listens any more */

/* What it may say next. */
enum phase {
	OPENING,  /* read, write, pack, unpack: the first RESULT */
	DECIDING, /* read: nothing, before GO */
	GOING,    /* read: DATA */
	READING,  /* read: its bytes */
	WORKING,  /* the last RESULT; list and pack: ENTRY before it */
};

struct file_worker {
	struct exec *exec; /* NULL once it has ended */
	const struct file_worker_ops *ops;
	void *arg;
	struct file_request request;
	struct file_reader reader;
	enum phase phase;
	uint64_t left;                 /* read: bytes that are wanted; pack: of the entry's data */
	uint32_t entries;              /* that it has told */
	char entry[FILE_PATH_MAX + 1]; /* pack: the last one, whose bytes may be cut */
	bool is_complete;              /* write, unpack: END was sent */
	bool is_over;                  /* nobody is called any more */
	bool kill_wanted;              /* ... and its process ends now */
	bool has_moved;                /* something came or went since it was looked at */
	uv_timer_t
		timer; /* watching; what must not happen within a call of the exec's; lingering */
};

static void on_timer_closed(uv_handle_t *handle)
{
	free(container_of((uv_timer_t *)handle, struct file_worker, timer));
}

static void dispose(struct file_worker *w)
{
	file_reader_close(&w->reader);
	uv_close((uv_handle_t *)&w->timer, on_timer_closed);
}

/* --- the end --- */

static void on_linger(uv_timer_t *timer)
{
	struct file_worker *w = container_of(timer, struct file_worker, timer);

	exec_abandon(take(w->exec));
	dispose(w);
}

static void on_over(uv_timer_t *timer)
{
	struct file_worker *w = container_of(timer, struct file_worker, timer);

	if (w->kill_wanted) {
		on_linger(timer);
		return;
	}
	exec_stdin_end(w->exec);
	uv_timer_start(&w->timer, on_linger, LINGER_MS, 0);
	exec_resume(w->exec); /* may be its end */
}

/* Also from within a call of the exec's, which must not be ended or resumed there. */
static void be_over(struct file_worker *w, bool kill_wanted)
{
	w->is_over = true;
	w->kill_wanted = kill_wanted;
	if (w->exec)
		uv_timer_start(&w->timer, on_over, 0, 0);
}

static void fail(struct file_worker *w, const struct err *err)
{
	be_over(w, true);
	w->ops->ended(w->arg, NULL, err);
}

static void fail_nonsense(struct file_worker *w)
{
	struct err err;

	err_set(&err, -EBADMSG, ERR_EXEC_TRANSPORT_ERROR,
		"the sandbox's file worker answered nonsense");
	fail(w, &err);
}

static void finish(struct file_worker *w, const struct file_result *result)
{
	be_over(w, false);
	w->ops->ended(w->arg, result, NULL);
}

/* It said itself why, and exits. */
static void finish_error(struct file_worker *w, const struct file_result *result)
{
	struct err err;

	file_error_set(&err, &w->request, result);
	be_over(w, false);
	w->ops->ended(w->arg, NULL, &err);
}

static void on_watch(uv_timer_t *timer)
{
	struct file_worker *w = container_of(timer, struct file_worker, timer);
	struct err err;

	if (w->has_moved) {
		w->has_moved = false;
		return;
	}
	err_set(&err, -ETIMEDOUT, ERR_TIMEOUT,
		"the sandbox's file worker did nothing for %d seconds: was it stopped?",
		LINGER_MS / 1000);
	fail(w, &err);
}

void file_worker_watch(struct file_worker *w)
{
	w->has_moved = true;
	uv_timer_start(&w->timer, on_watch, LINGER_MS, LINGER_MS);
}

void file_worker_drop(struct file_worker *w)
{
	bool reads_only = w->phase == GOING || w->phase == READING ||
			  w->request.op == FILE_OP_LIST || w->request.op == FILE_OP_PACK ||
			  w->request.op == FILE_OP_PROBE;

	be_over(w, reads_only);
}

void file_worker_explain(const struct exec_end *end, bool is_cut, struct err *err)
{
	if (end->reason == EXEC_NOT_STARTED)
		err_set(err, -EAGAIN, ERR_EXEC_ERROR, "the file worker was not started: %s",
			end->message);
	else if (end->reason == EXEC_LOST)
		err_set(err, -EPIPE, ERR_EXEC_TRANSPORT_ERROR, "the file worker was lost: %s",
			end->message);
	else if (end->reason == EXEC_OOM)
		err_set(err, -ENOMEM, ERR_MEMORY_LIMIT,
			"the sandbox ran out of memory, and its file worker was killed");
	else if (end->reason == EXEC_CPU_LIMIT)
		err_set(err, -ETIME, ERR_CPU_LIMIT, "%s", end->message);
	else if (end->reason == EXEC_KILLED)
		err_set(err, -ECANCELED, ERR_EXEC_TRANSPORT_ERROR,
			"the sandbox was stopped or deleted meanwhile");
	else if (is_cut && end->reason == EXEC_EXITED)
		err_set(err, -ENODATA, ERR_EXEC_ERROR, "the file became shorter while it was read");
	else
		err_set(err, -EPIPE, ERR_EXEC_TRANSPORT_ERROR,
			"the file worker ended without an answer (exit code %d)", end->exit_code);
}

/* Its last words do not fit between bytes that were promised: an end there is what it says. */
static void explain(const struct file_worker *w, const struct exec_end *end, struct err *err)
{
	bool is_cut = w->phase == READING || w->reader.raw > 0;

	file_worker_explain(end, is_cut, err);
	if (!is_cut || end->reason != EXEC_EXITED)
		return;
	if (w->entry[0])
		err_wrap(err, -ENODATA, "\"%s\" in \"%.*s\"", w->entry, STR_ARGS(w->request.path));
	else
		err_wrap(err, -ENODATA, "\"%.*s\"", STR_ARGS(w->request.path));
}

static void on_exec_ended(void *arg, const struct exec_end *end)
{
	struct file_worker *w = arg;
	struct err err;

	w->exec = NULL;
	if (!w->is_over) {
		explain(w, end, &err);
		fail(w, &err);
	}
	dispose(w);
}

/* --- what it says --- */

static bool changes_by_data(const struct file_worker *w)
{
	return w->request.op == FILE_OP_WRITE || w->request.op == FILE_OP_UNPACK;
}

static void take_result(struct file_worker *w, const struct file_result *result)
{
	if (w->phase != OPENING && w->phase != WORKING) {
		fail_nonsense(w);
	} else if (result->error) {
		finish_error(w, result);
	} else if (w->phase == OPENING) {
		w->phase = w->request.op == FILE_OP_READ ? DECIDING : WORKING;
		w->left = result->stat.size;
		w->ops->begun(w->arg, result);
	} else if (changes_by_data(w) && !w->is_complete) {
		fail_nonsense(w); /* it cannot be there yet */
	} else {
		finish(w, result);
	}
}

static void take_entry(struct file_worker *w, const struct file_entry *entry)
{
	bool is_list = w->request.op == FILE_OP_LIST;

	if (w->phase != WORKING || (!is_list && w->request.op != FILE_OP_PACK) ||
	    (is_list && w->entries >= w->request.limit)) {
		fail_nonsense(w);
		return;
	}
	w->entries++;
	w->left = entry->stat.size;
	snprintf(w->entry, sizeof(w->entry), "%.*s", STR_ARGS(entry->name));
	w->ops->entry(w->arg, entry);
}

static void take_data(struct file_worker *w, uint64_t size, bool is_hole)
{
	if (w->phase == GOING && !is_hole && size == w->left) {
		w->phase = READING;
	} else if (w->phase == WORKING && w->request.op == FILE_OP_PACK && w->entries &&
		   size <= w->left) {
		w->left -= size;
		w->ops->data(w->arg, size, is_hole);
	} else {
		fail_nonsense(w);
	}
}

static void take_frame(struct file_worker *w, const struct file_piece *piece)
{
	union {
		struct file_result result;
		struct file_entry entry;
		struct file_data data;
	} u;
	const struct frame_field *fields = piece->head.type == FILE_RESULT  ? file_result_fields
					   : piece->head.type == FILE_ENTRY ? file_entry_fields
									    : file_data_fields;

	if (frame_decode(piece->message, fields, &u) < 0) {
		fail_nonsense(w);
		return;
	}
	switch (piece->head.type) {
	case FILE_RESULT:
		take_result(w, &u.result);
		break;
	case FILE_ENTRY:
		take_entry(w, &u.entry);
		break;
	case FILE_DATA:
	case FILE_HOLE:
		take_data(w, u.data.size, piece->head.type == FILE_HOLE);
		break;
	default:
		fail_nonsense(w);
	}
}

static void took(struct file_worker *w, size_t size)
{
	w->left -= size;
	if (!w->left)
		finish(w, NULL);
}

static void take_bytes(struct file_worker *w, struct str bytes)
{
	w->ops->bytes(w->arg, bytes);
	if (w->phase == READING && !w->is_over)
		took(w, bytes.len); /* the reader gives no more than DATA said */
}

static size_t on_move(void *arg, int fd)
{
	struct file_worker *w = arg;
	size_t moved;

	if (w->is_over || w->phase != READING || !w->ops->move)
		return 0;
	moved = w->ops->move(w->arg, fd, w->left < MOVE_MAX ? (size_t)w->left : MOVE_MAX);
	if (!moved)
		return 0;
	w->has_moved = true;
	file_reader_skip(&w->reader, moved);
	took(w, moved);
	return moved;
}

static void on_output(void *arg, bool is_stderr, struct str bytes)
{
	struct file_worker *w = arg;
	struct file_piece piece;

	w->has_moved = true;
	while (!is_stderr && !w->is_over) {
		int r = file_reader_next(&w->reader, &bytes, &piece);

		if (r == FILE_FOUND_NOTHING)
			return;
		if (r == FILE_FOUND_FRAME)
			take_frame(w, &piece);
		else if (r == FILE_FOUND_BYTES)
			take_bytes(w, piece.bytes);
		else
			fail_nonsense(w);
	}
}

static void on_room(void *arg)
{
	struct file_worker *w = arg;

	w->has_moved = true;
	if (!w->is_over && w->ops->room)
		w->ops->room(w->arg);
}

static const struct exec_ops exec_ops = {on_output, on_exec_ended, on_room, on_move};

void file_worker_pause(struct file_worker *w)
{
	exec_pause(w->exec);
}

void file_worker_resume(struct file_worker *w)
{
	exec_resume(w->exec);
}

/* --- what it is told --- */

static bool send_frame(struct file_worker *w, enum file_frame type,
		       const struct frame_field *fields, const void *value)
{
	struct frame_head head = {(uint16_t)type, FRAME_VERSION, 0};
	char bytes[FRAME_MAX];
	int size = frame_encode(bytes, sizeof(bytes), &head, fields, value);

	/* A frame that does not fit is left out; the worker then makes no sense of the rest. */
	return size > 0 && exec_stdin(w->exec, (struct str){bytes, (size_t)size});
}

void file_worker_go(struct file_worker *w, uint64_t offset, uint64_t length)
{
	struct file_go go = {offset, length};

	w->phase = GOING;
	w->left = length;
	send_frame(w, FILE_GO, file_go_fields, &go);
}

bool file_worker_entry(struct file_worker *w, const struct file_entry *entry)
{
	return send_frame(w, FILE_ENTRY, file_entry_fields, entry);
}

bool file_worker_hole(struct file_worker *w, uint64_t size)
{
	return send_frame(w, FILE_HOLE, file_data_fields, &(struct file_data){size});
}

bool file_worker_data(struct file_worker *w, uint64_t size)
{
	return send_frame(w, FILE_DATA, file_data_fields, &(struct file_data){size});
}

bool file_worker_bytes(struct file_worker *w, struct str bytes)
{
	w->has_moved = true;
	return exec_stdin(w->exec, bytes);
}

void file_worker_end(struct file_worker *w)
{
	w->is_complete = true;
	send_frame(w, FILE_END, file_end_fields, &(struct file_end){0});
}

/* --- the beginning --- */

struct file_worker *file_worker_hire(struct sandbox *sb, const struct file_request *request,
				     const struct file_worker_ops *ops, void *arg, struct err *err)
{
	struct exec_request exec = {.cwd = STR("/"), .has_stdin = true, .is_worker = true};
	struct file_worker *w = calloc(1, sizeof(*w));
	bool opens = request->op == FILE_OP_READ || request->op == FILE_OP_WRITE ||
		     request->op == FILE_OP_PACK || request->op == FILE_OP_UNPACK;

	if (!w) {
		err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
		return NULL;
	}
	w->ops = ops;
	w->arg = arg;
	w->request = *request;
	w->phase = opens ? OPENING : WORKING;
	file_reader_init(&w->reader);
	w->exec = exec_new(sb, &exec, &exec_ops, w, err);
	if (!w->exec) {
		free(w);
		return NULL;
	}
	uv_timer_init(registry_loop(sb->registry), &w->timer);
	return w;
}

void file_worker_ask(struct file_worker *w)
{
	send_frame(w, FILE_REQUEST, file_request_fields, &w->request);
}

struct file_worker *file_worker_new(struct sandbox *sb, const struct file_request *request,
				    const struct file_worker_ops *ops, void *arg, struct err *err)
{
	struct file_worker *w = file_worker_hire(sb, request, ops, arg, err);

	if (w)
		file_worker_ask(w);
	return w;
}

const struct exec *file_worker_exec(const struct file_worker *w)
{
	return w->exec;
}
