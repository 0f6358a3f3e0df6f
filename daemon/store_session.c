#include "daemon/store_session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "base/buf.h"
#include "base/cleanup.h"

#define LOAD_MAX (512 * 1024 * 1024)
#define TEXTS    5

struct session_op {
	struct store_op op;
	struct session_fact fact;
	struct buf rows; /* of a load: fact and texts, one behind the other */
	store_session_each_fn *each;
	store_sandbox_done_fn *done;
	void *arg;
	char *texts;
};

static void finalize_p(sqlite3_stmt **statement)
{
	sqlite3_finalize(*statement);
}

#define cleanup_statement cleanup(finalize_p)

/* In the order of the columns. */
static void texts_of(struct session_fact *fact, struct str *ret[TEXTS])
{
	ret[0] = &fact->id;
	ret[1] = &fact->cwd;
	ret[2] = &fact->user;
	ret[3] = &fact->shell;
	ret[4] = &fact->env;
}

char *session_fact_copy(struct session_fact *ret, const struct session_fact *fact)
{
	size_t size =
		fact->id.len + fact->cwd.len + fact->user.len + fact->shell.len + fact->env.len;
	char *bytes = malloc(size + 1), *at = bytes;
	struct str *texts[TEXTS];

	*ret = *fact;
	texts_of(ret, texts);
	for (int i = 0; at && i < TEXTS; i++) {
		char *start = at;

		if (texts[i]->len)
			at = mempcpy(at, texts[i]->at, texts[i]->len);
		texts[i]->at = start;
	}
	return bytes;
}

static struct session_op *new_op(const struct session_fact *fact, store_sandbox_done_fn *done,
				 void *arg)
{
	struct session_op *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->done = done;
	o->arg = arg;
	buf_init(&o->rows, LOAD_MAX);
	o->texts = session_fact_copy(&o->fact, fact);
	if (o->texts)
		return o;
	free(o);
	return NULL;
}

static void free_op(struct session_op *o)
{
	buf_close(&o->rows);
	free(o->texts);
	free(o);
}

static void on_done(struct store_op *op)
{
	struct session_op *o = container_of(op, struct session_op, op);

	o->done(o->arg, op->result, &op->err);
	free_op(o);
}

static int submit(struct store *store, struct session_op *o,
		  int (*work)(struct store_op *op, struct sqlite3 *db),
		  void (*done)(struct store_op *op))
{
	int r;

	if (!o)
		return -ENOMEM;
	o->op.work = work;
	o->op.done = done;
	r = store_submit(store, &o->op);
	if (r < 0)
		free_op(o);
	return r;
}

static int work_save(struct store_op *op, struct sqlite3 *db)
{
	struct session_op *o = container_of(op, struct session_op, op);
	cleanup_statement sqlite3_stmt *s = NULL;
	struct str *texts[TEXTS];
	int r = sqlite3_prepare_v2(
		db, "INSERT OR REPLACE INTO session VALUES (?6, ?1, ?2, ?3, ?4, ?5, ?7, ?8, ?9)",
		-1, &s, NULL);

	texts_of(&o->fact, texts);
	for (int i = 0; r == SQLITE_OK && i < TEXTS; i++)
		r = sqlite3_bind_blob(s, i + 1, texts[i]->at, (int)texts[i]->len, SQLITE_STATIC);
	if (r != SQLITE_OK ||
	    sqlite3_bind_text(s, 6, o->fact.sandbox.text, -1, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_bind_int64(s, 7, o->fact.created_at_ms) != SQLITE_OK ||
	    sqlite3_bind_int64(s, 8, (int64_t)o->fact.generation) != SQLITE_OK ||
	    sqlite3_bind_int64(s, 9, (int64_t)o->fact.exec) != SQLITE_OK ||
	    sqlite3_step(s) != SQLITE_DONE)
		return store_fail(op, db, "storing a session");
	return 0;
}

int store_session_save(struct store *store, const struct session_fact *fact,
		       store_sandbox_done_fn *done, void *arg)
{
	return submit(store, new_op(fact, done, arg), work_save, on_done);
}

static int work_delete(struct store_op *op, struct sqlite3 *db)
{
	const struct session_fact *f = &container_of(op, struct session_op, op)->fact;
	cleanup_statement sqlite3_stmt *s = NULL;

	if (sqlite3_prepare_v2(db, "DELETE FROM session WHERE sandbox = ?1 AND id = ?2", -1, &s,
			       NULL) != SQLITE_OK ||
	    sqlite3_bind_text(s, 1, f->sandbox.text, -1, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_bind_blob(s, 2, f->id.at, (int)f->id.len, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_step(s) != SQLITE_DONE)
		return store_fail(op, db, "removing a session");
	return 0;
}

int store_session_delete(struct store *store, const struct session_fact *fact,
			 store_sandbox_done_fn *done, void *arg)
{
	return submit(store, new_op(fact, done, arg), work_delete, on_done);
}

static int keep_row(struct session_op *o, sqlite3_stmt *s)
{
	struct session_fact fact = {
		.created_at_ms = sqlite3_column_int64(s, 6),
		.generation = (uint64_t)sqlite3_column_int64(s, 7),
		.exec = (uint64_t)sqlite3_column_int64(s, 8),
	};
	struct str *texts[TEXTS];
	int r;

	snprintf(fact.sandbox.text, sizeof(fact.sandbox.text), "%s",
		 (const char *)sqlite3_column_text(s, 0));
	texts_of(&fact, texts);
	for (int i = 0; i < TEXTS; i++)
		texts[i]->len = (size_t)sqlite3_column_bytes(s, i + 1);
	r = buf_append(&o->rows, &fact, sizeof(fact));
	for (int i = 0; r == 0 && i < TEXTS; i++) {
		if (texts[i]->len)
			r = buf_append(&o->rows, sqlite3_column_blob(s, i + 1), texts[i]->len);
	}
	return r;
}

static int work_load(struct store_op *op, struct sqlite3 *db)
{
	struct session_op *o = container_of(op, struct session_op, op);
	cleanup_statement sqlite3_stmt *s = NULL;
	int row;

	if (sqlite3_prepare_v2(db,
			       "SELECT sandbox, id, cwd, user, shell, env, created_at_ms, "
			       "generation, exec FROM session ORDER BY created_at_ms, id",
			       -1, &s, NULL) != SQLITE_OK)
		return store_fail(op, db, "reading the sessions");
	while ((row = sqlite3_step(s)) == SQLITE_ROW) {
		if (keep_row(o, s) < 0)
			return err_set(&op->err, -ENOMEM, ERR_INTERNAL,
				       "there are too many sessions to be read");
	}
	return row == SQLITE_DONE ? 0 : store_fail(op, db, "reading the sessions");
}

static void on_loaded(struct store_op *op)
{
	struct session_op *o = container_of(op, struct session_op, op);

	while (op->result == 0 && buf_len(&o->rows)) {
		struct session_fact fact;
		struct str *texts[TEXTS];
		size_t size = 0;

		memcpy(&fact, buf_at(&o->rows), sizeof(fact));
		buf_consume(&o->rows, sizeof(fact));
		texts_of(&fact, texts);
		for (int i = 0; i < TEXTS; i++) {
			texts[i]->at = buf_at(&o->rows) + size;
			size += texts[i]->len;
		}
		o->each(o->arg, &fact);
		buf_consume(&o->rows, size);
	}
	on_done(op);
}

int store_session_load(struct store *store, store_session_each_fn *each,
		       store_sandbox_done_fn *done, void *arg)
{
	struct session_op *o = new_op(&(struct session_fact){.exec = 0}, done, arg);

	if (o)
		o->each = each;
	return submit(store, o, work_load, on_loaded);
}
