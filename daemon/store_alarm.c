#include "daemon/store_alarm.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <sqlite3.h>

#include "daemon/store_fact.h"

struct alarm_op {
	struct store_fact base;
	struct alarm_fact fact;
	store_alarm_each_fn *each;
	char argv[];
};

static struct store_fact *new_op(const struct alarm_fact *fact, store_done_fn *done, void *arg)
{
	size_t len = fact->asked.argv.len;
	struct alarm_op *o = store_fact_new(sizeof(*o) + len + 1, done, arg);

	if (!o)
		return NULL;
	o->fact = *fact;
	if (len)
		memcpy(o->argv, fact->asked.argv.at, len);
	o->fact.asked.argv = (struct str){o->argv, len};
	return &o->base;
}

static int bind_names(sqlite3_stmt *s, const struct alarm_fact *f)
{
	int r = sqlite3_bind_text(s, 1, f->sandbox.text, -1, SQLITE_STATIC);

	return r == SQLITE_OK ? sqlite3_bind_text(s, 2, f->name.text, -1, SQLITE_STATIC) : r;
}

/* Its numbers to ?3 and what follows, the error behind them. */
static int bind_state(sqlite3_stmt *s, const struct alarm_state *state)
{
	const struct alarm_run *run = &state->run;
	const int64_t numbers[] = {
		state->next_at_ms, run->due_at_ms, run->started_at_ms,     run->ended_at_ms,
		run->reason,       run->exit_code, (int64_t)run->attempts, (int64_t)run->skipped,
	};
	int r = SQLITE_OK, at = 3;

	for (size_t i = 0; r == SQLITE_OK && i < array_len(numbers); i++)
		r = sqlite3_bind_int64(s, at++, numbers[i]);
	return r == SQLITE_OK ? sqlite3_bind_blob(s, at, run->error, (int)strlen(run->error),
						  SQLITE_STATIC)
			      : r;
}

static int work_save(struct store_op *op, struct sqlite3 *db)
{
	static const char sql[] =
		"INSERT OR REPLACE INTO alarm (sandbox, name, next_at_ms, due_at_ms, "
		"started_at_ms, ended_at_ms, reason, exit_code, attempts, skipped, error, argv, "
		"at_ms, every_ms, timeout_ms) "
		"VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)";
	const struct alarm_fact *f = &container_of(op, struct alarm_op, base.op)->fact;
	const struct alarm_request *q = &f->asked;
	cleanup_statement sqlite3_stmt *s = NULL;

	if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK ||
	    bind_names(s, f) != SQLITE_OK || bind_state(s, &f->state) != SQLITE_OK ||
	    sqlite3_bind_blob(s, 12, q->argv.at, (int)q->argv.len, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_bind_int64(s, 13, q->at_ms) != SQLITE_OK ||
	    sqlite3_bind_int64(s, 14, (int64_t)q->every_ms) != SQLITE_OK ||
	    sqlite3_bind_int64(s, 15, (int64_t)q->timeout_ms) != SQLITE_OK ||
	    sqlite3_step(s) != SQLITE_DONE)
		return store_fail(op, db, "storing an alarm");
	return 0;
}

int store_alarm_save(struct store *store, const struct alarm_fact *fact, store_done_fn *done,
		     void *arg)
{
	return store_fact_submit(store, new_op(fact, done, arg), work_save);
}

static int work_save_state(struct store_op *op, struct sqlite3 *db)
{
	static const char sql[] =
		"UPDATE alarm SET next_at_ms = ?3, due_at_ms = ?4, started_at_ms = ?5, "
		"ended_at_ms = ?6, reason = ?7, exit_code = ?8, attempts = ?9, skipped = ?10, "
		"error = ?11 WHERE sandbox = ?1 AND name = ?2";
	const struct alarm_fact *f = &container_of(op, struct alarm_op, base.op)->fact;
	cleanup_statement sqlite3_stmt *s = NULL;

	if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK ||
	    bind_names(s, f) != SQLITE_OK || bind_state(s, &f->state) != SQLITE_OK ||
	    sqlite3_step(s) != SQLITE_DONE)
		return store_fail(op, db, "storing an alarm's run");
	return 0;
}

int store_alarm_save_state(struct store *store, const struct alarm_fact *fact, store_done_fn *done,
			   void *arg)
{
	return store_fact_submit(store, new_op(fact, done, arg), work_save_state);
}

static int work_delete(struct store_op *op, struct sqlite3 *db)
{
	const struct alarm_fact *f = &container_of(op, struct alarm_op, base.op)->fact;
	cleanup_statement sqlite3_stmt *s = NULL;

	if (sqlite3_prepare_v2(db, "DELETE FROM alarm WHERE sandbox = ?1 AND name = ?2", -1, &s,
			       NULL) != SQLITE_OK ||
	    bind_names(s, f) != SQLITE_OK || sqlite3_step(s) != SQLITE_DONE)
		return store_fail(op, db, "removing an alarm");
	return 0;
}

int store_alarm_delete(struct store *store, const struct sandbox_id *sandbox,
		       const struct sandbox_id *name, store_done_fn *done, void *arg)
{
	struct alarm_fact fact = {.sandbox = *sandbox, .name = *name};

	return store_fact_submit(store, new_op(&fact, done, arg), work_delete);
}

/* --- reading --- */

static void read_state(sqlite3_stmt *s, struct alarm_state *ret)
{
	size_t len = (size_t)sqlite3_column_bytes(s, 10);

	*ret = (struct alarm_state){
		.next_at_ms = sqlite3_column_int64(s, 2),
		.run =
			{
				.due_at_ms = sqlite3_column_int64(s, 3),
				.started_at_ms = sqlite3_column_int64(s, 4),
				.ended_at_ms = sqlite3_column_int64(s, 5),
				.reason = sqlite3_column_int(s, 6),
				.exit_code = sqlite3_column_int(s, 7),
				.attempts = (uint64_t)sqlite3_column_int64(s, 8),
				.skipped = (uint64_t)sqlite3_column_int64(s, 9),
			},
	};
	if (ret->run.reason >= EXEC_REASON_COUNT)
		ret->run.reason = EXEC_LOST; /* of a damaged database */
	if (len && len < sizeof(ret->run.error))
		memcpy(ret->run.error, sqlite3_column_blob(s, 10), len);
}

static int keep_row(struct buf *rows, sqlite3_stmt *s)
{
	struct alarm_fact fact = {
		.asked =
			{
				.argv = {NULL, (size_t)sqlite3_column_bytes(s, 11)},
				.at_ms = sqlite3_column_int64(s, 12),
				.every_ms = (uint64_t)sqlite3_column_int64(s, 13),
				.timeout_ms = (uint64_t)sqlite3_column_int64(s, 14),
			},
	};
	int r;

	snprintf(fact.sandbox.text, sizeof(fact.sandbox.text), "%s",
		 (const char *)sqlite3_column_text(s, 0));
	snprintf(fact.name.text, sizeof(fact.name.text), "%s",
		 (const char *)sqlite3_column_text(s, 1));
	read_state(s, &fact.state);
	r = buf_append(rows, &fact, sizeof(fact));
	if (r == 0 && fact.asked.argv.len)
		r = buf_append(rows, sqlite3_column_blob(s, 11), fact.asked.argv.len);
	return r;
}

static size_t give_row(struct store_fact *base, const char *row)
{
	struct alarm_op *o = container_of(base, struct alarm_op, base);
	struct alarm_fact fact;

	memcpy(&fact, row, sizeof(fact));
	fact.asked.argv.at = row + sizeof(fact);
	o->each(base->arg, &fact);
	return sizeof(fact) + fact.asked.argv.len;
}

int store_alarm_load(struct store *store, store_alarm_each_fn *each, store_done_fn *done, void *arg)
{
	static const struct store_fact_load load = {
		.sql = "SELECT sandbox, name, next_at_ms, due_at_ms, started_at_ms, ended_at_ms, "
		       "reason, exit_code, attempts, skipped, error, argv, at_ms, every_ms, "
		       "timeout_ms FROM alarm ORDER BY sandbox, name LIMIT -1 OFFSET ?1",
		.what = "the alarms",
		.keep = keep_row,
		.give = give_row,
	};
	struct alarm_op *o = store_fact_new(sizeof(*o), done, arg);

	if (!o)
		return -ENOMEM;
	o->each = each;
	return store_fact_load(store, &o->base, &load);
}
