#include "daemon/store_process.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <sqlite3.h>

#include "daemon/store_fact.h"

struct process_op {
	struct store_fact base;
	struct process_fact fact;
	store_process_each_fn *each;
	char spec[];
};

static struct store_fact *new_op(const struct process_fact *fact, store_done_fn *done, void *arg)
{
	size_t len = fact->spec.len;
	struct process_op *o = store_fact_new(sizeof(*o) + len + 1, done, arg);

	if (!o)
		return NULL;
	o->fact = *fact;
	if (len)
		memcpy(o->spec, fact->spec.at, len);
	o->fact.spec = (struct str){o->spec, len};
	return &o->base;
}

static int bind_numbers(sqlite3_stmt *s, const struct process_fact *f)
{
	const int64_t numbers[] = {
		(int64_t)f->generation,
		(int64_t)f->exec,
		f->pid,
		f->started_at_ms,
		f->ended_at_ms,
		(int64_t)f->log_start,
		(int64_t)f->log_end,
		f->end.reason,
		f->end.exit_code,
		f->end.signal,
		(int64_t)f->end.duration_ms,
		(int64_t)f->end.cpu_ms,
		(int64_t)f->end.max_rss_bytes,
		f->end.oom_suspected,
		f->is_autostart,
		f->end.is_tree_lost,
	};
	int code = SQLITE_OK;

	for (int i = 0; code == SQLITE_OK && i < (int)array_len(numbers); i++)
		code = sqlite3_bind_int64(s, 5 + i, numbers[i]);
	return code;
}

static int work_save(struct store_op *op, struct sqlite3 *db)
{
	const struct process_fact *f = &container_of(op, struct process_op, base.op)->fact;
	static const char insert[] =
		"INSERT OR REPLACE INTO process (sandbox, id, spec, message, generation, exec, "
		"pid, started_at_ms, ended_at_ms, log_start, log_end, reason, exit_code, signal, "
		"duration_ms, cpu_ms, max_rss_bytes, oom_suspected, autostart, tree_lost) VALUES "
		"(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, "
		"?19, ?20)";
	static const char update[] =
		"UPDATE process SET message = ?4, generation = ?5, exec = ?6, pid = ?7, "
		"started_at_ms = ?8, ended_at_ms = ?9, log_start = ?10, log_end = ?11, "
		"reason = ?12, exit_code = ?13, signal = ?14, duration_ms = ?15, cpu_ms = ?16, "
		"max_rss_bytes = ?17, oom_suspected = ?18, autostart = ?19, tree_lost = ?20 "
		"WHERE sandbox = ?1 AND id = ?2 AND ?3 IS NOT NULL";
	cleanup_statement sqlite3_stmt *s = NULL;

	if (sqlite3_prepare_v2(db, f->spec.len ? insert : update, -1, &s, NULL) != SQLITE_OK ||
	    sqlite3_bind_text(s, 1, f->sandbox.text, -1, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_bind_text(s, 2, f->id.text, -1, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_bind_text(s, 3, f->spec.at, (int)f->spec.len, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_bind_blob64(s, 4, f->end.message,
				strnlen(f->end.message, sizeof(f->end.message)),
				SQLITE_STATIC) != SQLITE_OK ||
	    bind_numbers(s, f) != SQLITE_OK || sqlite3_step(s) != SQLITE_DONE)
		return store_fail(op, db, "storing a process");
	return 0;
}

int store_process_save(struct store *store, const struct process_fact *fact, store_done_fn *done,
		       void *arg)
{
	return store_fact_submit(store, new_op(fact, done, arg), work_save);
}

static int work_delete(struct store_op *op, struct sqlite3 *db)
{
	const struct process_fact *f = &container_of(op, struct process_op, base.op)->fact;
	cleanup_statement sqlite3_stmt *s = NULL;

	if (sqlite3_prepare_v2(db, "DELETE FROM process WHERE sandbox = ?1 AND id = ?2", -1, &s,
			       NULL) != SQLITE_OK ||
	    sqlite3_bind_text(s, 1, f->sandbox.text, -1, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_bind_text(s, 2, f->id.text, -1, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_step(s) != SQLITE_DONE)
		return store_fail(op, db, "removing a process");
	return 0;
}

int store_process_delete(struct store *store, const struct sandbox_id *sandbox,
			 const struct sandbox_id *id)
{
	struct process_fact fact = {.sandbox = *sandbox, .id = *id, .spec = {"", 0}};

	return store_fact_submit(store, new_op(&fact, NULL, NULL), work_delete);
}

static void read_end(sqlite3_stmt *s, struct exec_end *ret)
{
	int reason = sqlite3_column_int(s, 9);

	*ret = (struct exec_end){
		.reason = reason >= 0 && reason < EXEC_REASON_COUNT ? (enum exec_reason)reason
								    : EXEC_LOST,
		.exit_code = sqlite3_column_int(s, 10),
		.signal = sqlite3_column_int(s, 11),
		.duration_ms = (uint64_t)sqlite3_column_int64(s, 12),
		.is_measured = sqlite3_column_int64(s, 14) != 0, /* no process holds nothing */
		.cpu_ms = (uint64_t)sqlite3_column_int64(s, 13),
		.max_rss_bytes = (uint64_t)sqlite3_column_int64(s, 14),
		.oom_suspected = sqlite3_column_int(s, 15) != 0,
		.is_tree_lost = sqlite3_column_int(s, 19) != 0,
	};
	snprintf(ret->message, sizeof(ret->message), "%.*s", sqlite3_column_bytes(s, 16),
		 (const char *)sqlite3_column_blob(s, 16));
}

static int keep_row(struct buf *rows, sqlite3_stmt *s)
{
	struct process_fact fact = {
		.generation = (uint64_t)sqlite3_column_int64(s, 2),
		.exec = (uint64_t)sqlite3_column_int64(s, 3),
		.pid = (uint32_t)sqlite3_column_int64(s, 4),
		.started_at_ms = sqlite3_column_int64(s, 5),
		.ended_at_ms = sqlite3_column_int64(s, 6),
		.log_start = (uint64_t)sqlite3_column_int64(s, 7),
		.log_end = (uint64_t)sqlite3_column_int64(s, 8),
		.is_autostart = sqlite3_column_int(s, 18) != 0,
		.spec = {NULL, (size_t)sqlite3_column_bytes(s, 17)},
	};
	int r;

	read_end(s, &fact.end);
	snprintf(fact.sandbox.text, sizeof(fact.sandbox.text), "%s",
		 (const char *)sqlite3_column_text(s, 0));
	snprintf(fact.id.text, sizeof(fact.id.text), "%s", (const char *)sqlite3_column_text(s, 1));
	r = buf_append(rows, &fact, sizeof(fact));
	if (r == 0)
		r = buf_append(rows, sqlite3_column_text(s, 17), fact.spec.len);
	return r;
}

static size_t give_row(struct store_fact *base, const char *row)
{
	struct process_op *o = container_of(base, struct process_op, base);
	struct process_fact fact;

	memcpy(&fact, row, sizeof(fact));
	fact.spec.at = row + sizeof(fact);
	o->each(base->arg, &fact);
	return sizeof(fact) + fact.spec.len;
}

int store_process_load(struct store *store, store_process_each_fn *each, store_done_fn *done,
		       void *arg)
{
	static const struct store_fact_load load = {
		.sql = "SELECT sandbox, id, generation, exec, pid, started_at_ms, ended_at_ms, "
		       "log_start, log_end, reason, exit_code, signal, duration_ms, cpu_ms, "
		       "max_rss_bytes, oom_suspected, message, spec, autostart, tree_lost "
		       "FROM process ORDER BY sandbox, started_at_ms, id LIMIT -1 OFFSET ?1",
		.what = "the processes",
		.keep = keep_row,
		.give = give_row,
	};
	struct process_op *o = store_fact_new(sizeof(*o), done, arg);

	if (!o)
		return -ENOMEM;
	o->each = each;
	return store_fact_load(store, &o->base, &load);
}
