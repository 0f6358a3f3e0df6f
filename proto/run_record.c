#include "proto/run_record.h"

#include "base/cleanup.h"
#include "proto/time_text.h"
#include "proto/utf8.h"

/* clang-format off */
static const char *const status_names[] = {
	[RUN_QUEUED]    = "queued",
	[RUN_RUNNING]   = "running",
	[RUN_COMPLETED] = "completed",
	[RUN_FAILED]    = "failed",
	[RUN_TIMED_OUT] = "timed_out",
	[RUN_CANCELLED] = "cancelled",
	[RUN_LOST]      = "lost",
};
/* clang-format on */

const char *run_status_name(enum run_status status)
{
	return status_names[status];
}

int run_status_find(struct str name)
{
	for (int i = 0; i < RUN_STATUS_COUNT; i++) {
		if (str_eq(name, str_of(status_names[i])))
			return i;
	}
	return -1;
}

static struct str cut(struct str s, size_t max)
{
	if (s.len <= max)
		return s;
	return (struct str){s.at, utf8_valid_len((struct str){s.at, max})};
}

static void write_text(struct json_writer *w, const char *key, struct str text, size_t max)
{
	json_key(w, key);
	json_str(w, cut(text, max));
}

/* The lines of a traceback as one text. */
static void write_stack(struct json_writer *w, const struct json_strings *lines)
{
	struct buf text;

	buf_init(&text, 2 * RUN_ERROR_TEXT_MAX);
	for (size_t i = 0; i < lines->len && buf_len(&text) <= RUN_ERROR_TEXT_MAX; i++) {
		struct str line = cut(lines->items[i], RUN_ERROR_TEXT_MAX - 1);

		if ((i && buf_append(&text, "\n", 1) < 0) || buf_append_str(&text, line) < 0)
			break;
	}
	write_text(w, "stack", (struct str){buf_at(&text), buf_len(&text)}, RUN_ERROR_TEXT_MAX);
	buf_close(&text);
}

static void write_position(struct json_writer *w, const struct run_error *e)
{
	json_key(w, "position");
	json_object(w);
	write_text(w, "file", e->file, RUN_ERROR_NAME_MAX);
	json_key(w, "line");
	json_int(w, (int64_t)(e->line & INT64_MAX));
	json_key(w, "column");
	if (e->column)
		json_int(w, (int64_t)(e->column & INT64_MAX));
	else
		json_null(w);
	json_object_end(w);
}

int run_error_write(const struct run_error *e, struct buf *out)
{
	cleanup(json_writer_close) struct json_writer w;

	json_writer_init(&w, false);
	json_object(&w);
	json_key(&w, "code");
	json_text(&w, e->code);
	if (e->name.len)
		write_text(&w, "name", e->name, RUN_ERROR_NAME_MAX);
	write_text(&w, "message", e->message, RUN_ERROR_TEXT_MAX);
	if (e->traceback && e->traceback->len)
		write_stack(&w, e->traceback);
	if (e->line)
		write_position(&w, e);
	json_object_end(&w);
	return json_writer_end(&w, out);
}

static void write_raw(struct json_writer *w, const char *key, struct str json, const char *none)
{
	json_key(w, key);
	json_raw(w, json.len ? json : str_of(none));
}

static void write_figure(struct json_writer *w, const char *key, int64_t value)
{
	json_key(w, key);
	if (value < 0)
		json_null(w);
	else
		json_int(w, value);
}

static void write_metrics(struct json_writer *w, const struct run_metrics *m)
{
	json_key(w, "metrics");
	json_object(w);
	write_figure(w, "duration_ms", m->duration_ms);
	write_figure(w, "cold_start_ms", m->cold_start_ms);
	write_figure(w, "cpu_ms", m->cpu_ms);
	write_figure(w, "memory_peak_bytes", m->memory_peak_bytes);
	/* It has no network. */
	write_figure(w, "network_requests", 0);
	write_figure(w, "network_bytes", 0);
	json_object_end(w);
}

void run_record_write(const struct run_record *r, bool is_whole, struct json_writer *w)
{
	json_object(w);
	json_key(w, "id");
	json_text(w, r->id.text);
	json_key(w, "task_id");
	if (r->task_id.len)
		json_str(w, r->task_id);
	else
		json_null(w);
	json_key(w, "status");
	json_text(w, run_status_name(r->status));
	json_key(w, "language");
	json_text(w, kernel_language_name(r->language));
	if (is_whole) {
		write_raw(w, "result", r->result, "null");
		write_raw(w, "logs", r->logs, "[]");
	}
	json_key(w, "logs_dropped");
	json_int(w, (int64_t)r->logs_dropped);
	json_key(w, "truncated");
	json_bool(w, r->is_truncated);
	write_raw(w, "error", r->error, "null");
	if (is_whole)
		write_raw(w, "tests", r->tests, "[]");
	write_metrics(w, &r->metrics);
	json_key(w, "timeout_ms");
	json_int(w, (int64_t)r->timeout_ms);
	write_raw(w, "metadata", r->metadata, "null");
	json_key(w, "sandbox");
	json_text(w, r->sandbox.text);
	json_key(w, "pooled");
	json_bool(w, r->is_pooled);
	json_key(w, "trust");
	if (r->trust == TRUST_UNSAID) /* of a Berth that had none of it */
		json_null(w);
	else
		json_text(w, trust_name(r->trust));
	time_text_write(w, "created_at", r->created_at_ms);
	time_text_write(w, "started_at", r->started_at_ms);
	time_text_write(w, "ended_at", r->ended_at_ms);
	json_object_end(w);
}

void run_record_write_logs(const struct run_record *r, struct json_writer *w)
{
	json_object(w);
	json_key(w, "id");
	json_text(w, r->id.text);
	json_key(w, "status");
	json_text(w, run_status_name(r->status));
	write_raw(w, "logs", r->logs, "[]");
	json_key(w, "logs_dropped");
	json_int(w, (int64_t)r->logs_dropped);
	json_key(w, "truncated");
	json_bool(w, r->is_truncated);
	json_object_end(w);
}

void run_verdict_write(const struct run_verdict *v, struct json_writer *w)
{
	json_object(w);
	write_raw(w, "input", v->input, "null");
	write_raw(w, "expected", v->expected, "null");
	write_raw(w, "actual", v->actual, "null");
	json_key(w, "passed");
	json_bool(w, v->passed);
	if (v->error.len)
		write_raw(w, "error", v->error, "null");
	json_object_end(w);
}
