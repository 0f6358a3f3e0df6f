#include "daemon/store_run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "daemon/store_fact.h"

#define TEXTS 6

struct run_op {
	struct store_fact base;
	struct run_record record;
	struct store_run_query query;
	store_run_each_fn *each;
	struct store_run_lost lost;
	char texts[];
};

/* In the order of the columns. */
static void texts_of(struct run_record *record, struct str *ret[TEXTS])
{
	ret[0] = &record->task_id;
	ret[1] = &record->metadata;
	ret[2] = &record->error;
	ret[3] = &record->result;
	ret[4] = &record->logs;
	ret[5] = &record->tests;
}

static size_t texts_size(const struct run_record *r)
{
	return r->task_id.len + r->metadata.len + r->error.len + r->result.len + r->logs.len +
	       r->tests.len;
}

static struct run_op *new_op(const struct run_record *record, store_done_fn *done, void *arg)
{
	struct run_op *o = store_fact_new(sizeof(*o) + texts_size(record) + 1, done, arg);
	struct str *texts[TEXTS];
	char *at;

	if (!o)
		return NULL;
	o->record = *record;
	texts_of(&o->record, texts);
	at = o->texts;
	for (int i = 0; i < TEXTS; i++) {
		char *start = at;

		if (texts[i]->len)
			at = mempcpy(at, texts[i]->at, texts[i]->len);
		texts[i]->at = start;
	}
	return o;
}

/* --- writing --- */

/* ?1 is the ID, ?2 to ?7 are texts, then what is counted. */
static int bind_record(sqlite3_stmt *s, struct run_record *record)
{
	const struct run_metrics *m = &record->metrics;
	const int64_t numbers[] = {
		record->created_at_ms,
		record->started_at_ms,
		record->ended_at_ms,
		(int64_t)record->timeout_ms,
		m->duration_ms,
		m->cold_start_ms,
		m->cpu_ms,
		m->memory_peak_bytes,
		(int64_t)record->logs_dropped,
		(int64_t)texts_size(record),
	};
	const char *trust = trust_name(record->trust);
	struct str *texts[TEXTS];
	int r = sqlite3_bind_text(s, 1, record->id.text, -1, SQLITE_STATIC);

	texts_of(record, texts);
	for (int i = 0; r == SQLITE_OK && i < TEXTS; i++)
		r = sqlite3_bind_blob(s, 2 + i, texts[i]->at, (int)texts[i]->len, SQLITE_STATIC);
	for (int i = 0; r == SQLITE_OK && i < (int)array_len(numbers); i++)
		r = sqlite3_bind_int64(s, 8 + i, numbers[i]);
	if (r == SQLITE_OK)
		r = sqlite3_bind_text(s, 18, run_status_name(record->status), -1, SQLITE_STATIC);
	if (r == SQLITE_OK)
		r = sqlite3_bind_text(s, 19, kernel_language_name(record->language), -1,
				      SQLITE_STATIC);
	if (r == SQLITE_OK)
		r = sqlite3_bind_text(s, 20, trust ? trust : "", -1, SQLITE_STATIC);
	if (r == SQLITE_OK)
		r = sqlite3_bind_text(s, 21, record->sandbox.text, -1, SQLITE_STATIC);
	if (r == SQLITE_OK)
		r = sqlite3_bind_int(s, 22, record->is_pooled);
	return r == SQLITE_OK ? sqlite3_bind_int(s, 23, record->is_truncated) : r;
}

static int write_record(struct store_op *op, struct sqlite3 *db, const char *sql)
{
	struct run_op *o = container_of(op, struct run_op, base.op);
	cleanup_statement sqlite3_stmt *s = NULL;

	if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK ||
	    bind_record(s, &o->record) != SQLITE_OK || sqlite3_step(s) != SQLITE_DONE)
		return store_fail(op, db, "storing a run");
	return 0;
}

static int work_add(struct store_op *op, struct sqlite3 *db)
{
	return write_record(
		op, db,
		"INSERT INTO run (id, task_id, metadata, error, result, logs, tests, "
		"created_at_ms, started_at_ms, ended_at_ms, timeout_ms, duration_ms, "
		"cold_start_ms, cpu_ms, memory_peak_bytes, logs_dropped, bytes, status, language, "
		"trust, sandbox, pooled, truncated) "
		"VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, "
		"?17, ?18, ?19, ?20, ?21, ?22, ?23)");
}

static int work_save(struct store_op *op, struct sqlite3 *db)
{
	return write_record(op, db,
			    "UPDATE run SET error = ?4, result = ?5, logs = ?6, tests = ?7, "
			    "started_at_ms = ?9, ended_at_ms = ?10, duration_ms = ?12, "
			    "cold_start_ms = ?13, cpu_ms = ?14, memory_peak_bytes = ?15, "
			    "logs_dropped = ?16, bytes = length(task_id) + length(metadata) + "
			    "length(?4) + length(?5) + length(?6) + length(?7), status = ?18, "
			    "language = ?19, sandbox = ?21, pooled = ?22, truncated = ?23 "
			    "WHERE id = ?1");
}

int store_run_add(struct store *store, const struct run_record *record, store_done_fn *done,
		  void *arg)
{
	struct run_op *o = new_op(record, done, arg);

	return store_fact_submit(store, o ? &o->base : NULL, work_add);
}

int store_run_save(struct store *store, const struct run_record *record, store_done_fn *done,
		   void *arg)
{
	struct run_op *o = new_op(record, done, arg);

	return store_fact_submit(store, o ? &o->base : NULL, work_save);
}

int store_run_save_end(struct store *store, const struct run_record *record, store_done_fn *done,
		       void *arg)
{
	struct run_record end = *record;
	struct run_op *o;

	end.result = end.logs = end.tests = STR("");
	end.is_truncated = true;
	o = new_op(&end, done, arg);
	if (o)
		o->base.op.is_vital = true;
	return store_fact_submit(store, o ? &o->base : NULL, work_save);
}

/* --- bounds --- */

/* Of those that are over, and whose sandboxes are gone. An index holds all that is asked for here.
 */
#define OVER "FROM run WHERE has_sandbox = 0 AND ended_at_ms > 0"

static int count_over(struct sqlite3 *db, int64_t *ret_count, int64_t *ret_bytes)
{
	cleanup_statement sqlite3_stmt *s = NULL;
	int r = sqlite3_prepare_v2(db, "SELECT count(*), ifnull(sum(bytes), 0) " OVER, -1, &s,
				   NULL);

	if (r != SQLITE_OK || sqlite3_step(s) != SQLITE_ROW)
		return SQLITE_ERROR;
	*ret_count = sqlite3_column_int64(s, 0);
	*ret_bytes = sqlite3_column_int64(s, 1);
	return SQLITE_OK;
}

/* The last that has to go, so that few enough are left; `ret_number` 0: none. */
static int find_last(struct sqlite3 *db, int64_t *ret_ended_at_ms, int64_t *ret_number)
{
	cleanup_statement sqlite3_stmt *s = NULL;
	int64_t count, bytes;
	int r = count_over(db, &count, &bytes);

	*ret_number = 0;
	if (r == SQLITE_OK && count <= RUNS_KEPT_MAX && bytes <= RUNS_KEPT_BYTES)
		return SQLITE_OK;
	if (r == SQLITE_OK)
		r = sqlite3_prepare_v2(db,
				       "SELECT ended_at_ms, number, bytes " OVER
				       " ORDER BY ended_at_ms, number",
				       -1, &s, NULL);
	if (r != SQLITE_OK)
		return r;
	while ((count > RUNS_KEPT_MAX || bytes > RUNS_KEPT_BYTES) &&
	       (r = sqlite3_step(s)) == SQLITE_ROW) {
		*ret_ended_at_ms = sqlite3_column_int64(s, 0);
		*ret_number = sqlite3_column_int64(s, 1);
		bytes -= sqlite3_column_int64(s, 2);
		count--;
	}
	return r == SQLITE_ROW || r == SQLITE_DONE ? SQLITE_OK : r;
}

/* Those that ended first go first: a long run's record must not go with its end. */
static int prune(struct sqlite3 *db)
{
	cleanup_statement sqlite3_stmt *s = NULL;
	int64_t ended_at_ms = 0, number;
	int r = find_last(db, &ended_at_ms, &number);

	if (r != SQLITE_OK || !number)
		return r;
	r = sqlite3_prepare_v2(db, "DELETE " OVER " AND (ended_at_ms, number) <= (?1, ?2)", -1, &s,
			       NULL);
	if (r == SQLITE_OK)
		r = sqlite3_bind_int64(s, 1, ended_at_ms);
	if (r == SQLITE_OK)
		r = sqlite3_bind_int64(s, 2, number);
	if (r == SQLITE_OK)
		r = sqlite3_step(s);
	return r == SQLITE_DONE ? SQLITE_OK : r;
}

static bool do_with_id(struct sqlite3 *db, const char *sql, const struct sandbox_id *id)
{
	cleanup_statement sqlite3_stmt *s = NULL;

	return sqlite3_prepare_v2(db, sql, -1, &s, NULL) == SQLITE_OK &&
	       sqlite3_bind_text(s, 1, id->text, -1, SQLITE_STATIC) == SQLITE_OK &&
	       sqlite3_step(s) == SQLITE_DONE;
}

static int work_pool(struct store_op *op, struct sqlite3 *db)
{
	struct run_op *o = container_of(op, struct run_op, base.op);

	if (!do_with_id(db, "INSERT INTO pool (id) VALUES (?1)", &o->record.id))
		return store_fail(op, db, "storing a sandbox of the pool");
	return 0;
}

int store_run_pool(struct store *store, const struct sandbox_id *id, store_done_fn *done, void *arg)
{
	struct run_op *o = new_op(&(struct run_record){.id = *id}, done, arg);

	return store_fact_submit(store, o ? &o->base : NULL, work_pool);
}

static int work_clean(struct store_op *op, struct sqlite3 *db)
{
	struct run_op *o = container_of(op, struct run_op, base.op);

	if (!do_with_id(db, "UPDATE run SET has_sandbox = 0 WHERE id = ?1", &o->record.id) ||
	    !do_with_id(db, "DELETE FROM pool WHERE id = ?1", &o->record.id) ||
	    prune(db) != SQLITE_OK)
		return store_fail(op, db, "storing that a run's sandbox is gone");
	return 0;
}

int store_run_clean(struct store *store, const struct sandbox_id *id, store_done_fn *done,
		    void *arg)
{
	struct run_op *o = new_op(&(struct run_record){.id = *id}, done, arg);

	return store_fact_submit(store, o ? &o->base : NULL, work_clean);
}

/* --- after a crash --- */

struct left_row {
	struct sandbox_id id;
	bool is_lost;
};

static int mark_lost(struct run_op *o, struct sqlite3 *db)
{
	cleanup_statement sqlite3_stmt *s = NULL;
	struct str error = o->record.error;

	/* Those that an earlier one has told of are left, and not lost again. */
	if (sqlite3_exec(db, "UPDATE run SET has_sandbox = 1 WHERE has_sandbox = 2", NULL, NULL,
			 NULL) != SQLITE_OK ||
	    sqlite3_prepare_v2(db,
			       "UPDATE run SET status = 'lost', ended_at_ms = ?1, error = ?2, "
			       "bytes = bytes + length(?2), has_sandbox = 2 "
			       "WHERE status IN ('queued', 'running')",
			       -1, &s, NULL) != SQLITE_OK ||
	    sqlite3_bind_int64(s, 1, o->lost.ended_at_ms) != SQLITE_OK ||
	    sqlite3_bind_blob(s, 2, error.at, (int)error.len, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_step(s) != SQLITE_DONE)
		return -EIO;
	return 0;
}

static int keep_left(struct buf *rows, struct sqlite3_stmt *row)
{
	struct left_row left = {.is_lost = sqlite3_column_int(row, 1) == 2};

	snprintf(left.id.text, sizeof(left.id.text), "%s",
		 (const char *)sqlite3_column_text(row, 0));
	return buf_append(rows, &left, sizeof(left));
}

static size_t give_left(struct store_fact *base, const char *row)
{
	struct run_op *o = container_of(base, struct run_op, base);
	struct left_row left;

	memcpy(&left, row, sizeof(left));
	o->lost.left(base->arg, &left.id, left.is_lost);
	return sizeof(left);
}

static int work_lose(struct store_op *op, struct sqlite3 *db)
{
	struct run_op *o = container_of(op, struct run_op, base.op);

	return mark_lost(o, db) < 0 ? store_fail(op, db, "storing which runs are lost") : 0;
}

int store_run_lose(struct store *store, const struct store_run_lost *lost, store_done_fn *done,
		   void *arg)
{
	static const struct store_fact_load load = {
		.sql = "SELECT id, has_sandbox FROM run WHERE has_sandbox != 0 UNION ALL "
		       "SELECT id, 1 FROM pool ORDER BY id LIMIT -1 OFFSET ?1",
		.what = "the runs",
		.keep = keep_left,
		.give = give_left,
	};
	struct run_op *mark = new_op(&(struct run_record){.error = lost->error}, lost->marked, arg);
	struct run_op *o = new_op(&(struct run_record){0}, done, arg);
	int r;

	if (!mark || !o) {
		free(mark);
		free(o);
		return -ENOMEM;
	}
	mark->lost = o->lost = *lost;
	r = store_fact_submit(store, &mark->base, work_lose);
	if (r < 0) {
		free(o);
		return r;
	}
	return store_fact_load(store, &o->base, &load);
}

/* --- reading --- */

#define SHORT_COLUMNS                                                                              \
	"number, id, status, language, created_at_ms, started_at_ms, ended_at_ms, timeout_ms, "    \
	"duration_ms, cold_start_ms, cpu_ms, memory_peak_bytes, logs_dropped, trust, sandbox, "    \
	"pooled, truncated, task_id, metadata, error"
#define FIRST_TEXT  17
#define SHORT_TEXTS 3

struct run_row {
	uint64_t number;
	struct run_record record;
};

static int number_of_name(int found)
{
	return found < 0 ? 0 : found;
}

static int keep_row(struct run_op *o, sqlite3_stmt *s, int texts_len)
{
	struct run_row row =
		{
			.number = (uint64_t)sqlite3_column_int64(s, 0),
			.record =
				{
					.status = (enum run_status)number_of_name(run_status_find(
						str_of((const char *)sqlite3_column_text(s, 2)))),
					.language = (enum kernel_language)number_of_name(
						kernel_language_find(str_of(
							(const char *)sqlite3_column_text(s, 3)))),
					.created_at_ms = sqlite3_column_int64(s, 4),
					.started_at_ms = sqlite3_column_int64(s, 5),
					.ended_at_ms = sqlite3_column_int64(s, 6),
					.timeout_ms = (uint64_t)sqlite3_column_int64(s, 7),
					.metrics = {sqlite3_column_int64(s, 8),
						    sqlite3_column_int64(s, 9),
						    sqlite3_column_int64(s, 10),
						    sqlite3_column_int64(s, 11)},
					.logs_dropped = (uint64_t)sqlite3_column_int64(s, 12),
					.is_pooled = sqlite3_column_int(s, 15),
					.is_truncated = sqlite3_column_int(s, 16),
				},
		};
	struct str *texts[TEXTS];
	int r;

	snprintf(row.record.id.text, sizeof(row.record.id.text), "%s",
		 (const char *)sqlite3_column_text(s, 1));
	snprintf(row.record.sandbox.text, sizeof(row.record.sandbox.text), "%s",
		 (const char *)sqlite3_column_text(s, 14));
	trust_parse(str_of((const char *)sqlite3_column_text(s, 13)), &row.record.trust);
	texts_of(&row.record, texts);
	for (int i = 0; i < texts_len; i++)
		texts[i]->len = (size_t)sqlite3_column_bytes(s, FIRST_TEXT + i);
	r = buf_append(&o->base.rows, &row, sizeof(row));
	for (int i = 0; r == 0 && i < texts_len; i++) {
		if (texts[i]->len)
			r = buf_append(&o->base.rows, sqlite3_column_blob(s, FIRST_TEXT + i),
				       texts[i]->len);
	}
	return r;
}

static int prepare_read(struct run_op *o, struct sqlite3 *db, sqlite3_stmt **ret)
{
	const struct store_run_query *q = &o->query;
	const char *status = q->status < 0 ? "" : run_status_name((enum run_status)q->status);
	int r;

	if (q->id.text[0]) {
		r = sqlite3_prepare_v2(db,
				       "SELECT " SHORT_COLUMNS ", result, logs, tests FROM run "
				       "WHERE id = ?1",
				       -1, ret, NULL);
		return r == SQLITE_OK ? sqlite3_bind_text(*ret, 1, q->id.text, -1, SQLITE_STATIC)
				      : r;
	}
	r = sqlite3_prepare_v2(db,
			       "SELECT " SHORT_COLUMNS " FROM run WHERE (?1 = '' OR status = ?1) "
			       "AND (?2 = 0 OR number < ?2) ORDER BY number DESC LIMIT ?3",
			       -1, ret, NULL);
	if (r == SQLITE_OK)
		r = sqlite3_bind_text(*ret, 1, status, -1, SQLITE_STATIC);
	if (r == SQLITE_OK)
		r = sqlite3_bind_int64(*ret, 2, (int64_t)q->before);
	if (r == SQLITE_OK)
		r = sqlite3_bind_int64(*ret, 3, q->limit);
	return r;
}

static int work_read(struct store_op *op, struct sqlite3 *db)
{
	struct run_op *o = container_of(op, struct run_op, base.op);
	cleanup_statement sqlite3_stmt *s = NULL;
	int row;

	if (prepare_read(o, db, &s) != SQLITE_OK)
		return store_fail(op, db, "reading the runs");
	while ((row = sqlite3_step(s)) == SQLITE_ROW) {
		if (keep_row(o, s, o->query.id.text[0] ? TEXTS : SHORT_TEXTS) < 0)
			return err_set(&op->err, -ENOMEM, ERR_INTERNAL,
				       "reading the runs: there is no memory for them");
		if (o->query.bytes && buf_len(&o->base.rows) >= o->query.bytes)
			return 0;
	}
	return row == SQLITE_DONE ? 0 : store_fail(op, db, "reading the runs");
}

static size_t give_row(struct store_fact *base, const char *at)
{
	struct run_op *o = container_of(base, struct run_op, base);
	size_t size = sizeof(struct run_row);
	struct str *texts[TEXTS];
	struct run_row row;

	memcpy(&row, at, sizeof(row));
	texts_of(&row.record, texts);
	for (int i = 0; i < TEXTS; i++) {
		texts[i]->at = at + size;
		size += texts[i]->len;
	}
	o->each(base->arg, &row.record, row.number);
	return size;
}

int store_run_read(struct store *store, const struct store_run_query *query,
		   store_run_each_fn *each, store_done_fn *done, void *arg)
{
	static const struct store_fact_load rows = {.what = "the runs", .give = give_row};
	struct run_op *o = new_op(&(struct run_record){0}, done, arg);

	if (!o)
		return -ENOMEM;
	o->query = *query;
	o->each = each;
	o->base.load = &rows;
	return store_fact_submit(store, &o->base, work_read);
}
