#include "daemon/store_sandbox.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "base/buf.h"
#include "base/cleanup.h"

#define LOAD_MAX (512 * 1024 * 1024) /* all facts in memory, once */

struct fact_op {
	struct store_op op;
	struct sandbox_fact fact;
	enum store_part part;
	struct buf rows; /* of a load: fact and settings, one behind the other */
	store_sandbox_each_fn *each;
	store_sandbox_done_fn *done;
	void *arg;
	char settings[];
};

static void finalize_p(sqlite3_stmt **statement)
{
	sqlite3_finalize(*statement);
}

#define cleanup_statement cleanup(finalize_p)

static struct fact_op *new_op(const struct sandbox_fact *fact, store_sandbox_done_fn *done,
			      void *arg)
{
	size_t len = fact ? fact->settings.len : 0;
	struct fact_op *o = calloc(1, sizeof(*o) + len + 1);

	if (!o)
		return NULL;
	o->done = done;
	o->arg = arg;
	buf_init(&o->rows, LOAD_MAX);
	if (fact) {
		o->fact = *fact;
		if (len)
			memcpy(o->settings, fact->settings.at, len);
		o->fact.settings = (struct str){o->settings, len};
	}
	return o;
}

static void free_op(struct fact_op *o)
{
	buf_close(&o->rows);
	free(o);
}

static void on_done(struct store_op *op)
{
	struct fact_op *o = container_of(op, struct fact_op, op);

	o->done(o->arg, op->result, &op->err);
	free_op(o);
}

static int submit(struct store *store, struct fact_op *o,
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
	static const char *const statements[] = {
		[STORE_GENERATION] = "INSERT INTO sandbox VALUES (?1, ?2, ?3, ?4) ON CONFLICT (id) "
				     "DO UPDATE SET generation = excluded.generation",
		[STORE_SETTINGS] = "INSERT INTO sandbox VALUES (?1, ?2, ?3, ?4) ON CONFLICT (id) "
				   "DO UPDATE SET settings = excluded.settings",
	};
	const struct fact_op *o = container_of(op, struct fact_op, op);
	const struct sandbox_fact *f = &o->fact;
	cleanup_statement sqlite3_stmt *s = NULL;

	if (sqlite3_prepare_v2(db, statements[o->part], -1, &s, NULL) != SQLITE_OK ||
	    sqlite3_bind_text(s, 1, f->id.text, -1, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_bind_int64(s, 2, f->created_at_ms) != SQLITE_OK ||
	    sqlite3_bind_int64(s, 3, (int64_t)f->generation) != SQLITE_OK ||
	    sqlite3_bind_text(s, 4, f->settings.at, (int)f->settings.len, SQLITE_STATIC) !=
		    SQLITE_OK ||
	    sqlite3_step(s) != SQLITE_DONE)
		return store_fail(op, db, "storing a sandbox");
	return 0;
}

int store_sandbox_save(struct store *store, const struct sandbox_fact *fact, enum store_part part,
		       store_sandbox_done_fn *done, void *arg)
{
	struct fact_op *o = new_op(fact, done, arg);

	if (o)
		o->part = part;
	return submit(store, o, work_save, on_done);
}

static int work_delete(struct store_op *op, struct sqlite3 *db)
{
	static const char *const statements[] = {
		"DELETE FROM sandbox WHERE id = ?1",
		"DELETE FROM session WHERE sandbox = ?1",
	};
	const struct sandbox_fact *f = &container_of(op, struct fact_op, op)->fact;

	for (size_t i = 0; i < array_len(statements); i++) {
		cleanup_statement sqlite3_stmt *s = NULL;

		if (sqlite3_prepare_v2(db, statements[i], -1, &s, NULL) != SQLITE_OK ||
		    sqlite3_bind_text(s, 1, f->id.text, -1, SQLITE_STATIC) != SQLITE_OK ||
		    sqlite3_step(s) != SQLITE_DONE)
			return store_fail(op, db, "removing a sandbox");
	}
	return 0;
}

int store_sandbox_delete(struct store *store, const struct sandbox_id *id,
			 store_sandbox_done_fn *done, void *arg)
{
	struct sandbox_fact fact = {.id = *id, .settings = {"", 0}};

	return submit(store, new_op(&fact, done, arg), work_delete, on_done);
}

static int keep_row(struct fact_op *o, sqlite3_stmt *s)
{
	struct sandbox_fact fact = {
		.created_at_ms = sqlite3_column_int64(s, 1),
		.generation = (uint64_t)sqlite3_column_int64(s, 2),
		.settings = {NULL, (size_t)sqlite3_column_bytes(s, 3)},
	};
	int r;

	snprintf(fact.id.text, sizeof(fact.id.text), "%s", (const char *)sqlite3_column_text(s, 0));
	r = buf_append(&o->rows, &fact, sizeof(fact));
	if (r == 0)
		r = buf_append(&o->rows, sqlite3_column_text(s, 3), fact.settings.len);
	return r;
}

static int work_load(struct store_op *op, struct sqlite3 *db)
{
	struct fact_op *o = container_of(op, struct fact_op, op);
	cleanup_statement sqlite3_stmt *s = NULL;
	int row;

	if (sqlite3_prepare_v2(db,
			       "SELECT id, created_at_ms, generation, settings FROM sandbox "
			       "ORDER BY id",
			       -1, &s, NULL) != SQLITE_OK)
		return store_fail(op, db, "reading the sandboxes");
	while ((row = sqlite3_step(s)) == SQLITE_ROW) {
		if (keep_row(o, s) < 0)
			return err_set(&op->err, -ENOMEM, ERR_INTERNAL,
				       "there are too many sandboxes to be read");
	}
	return row == SQLITE_DONE ? 0 : store_fail(op, db, "reading the sandboxes");
}

static void on_loaded(struct store_op *op)
{
	struct fact_op *o = container_of(op, struct fact_op, op);

	while (op->result == 0 && buf_len(&o->rows)) {
		struct sandbox_fact fact;

		memcpy(&fact, buf_at(&o->rows), sizeof(fact));
		buf_consume(&o->rows, sizeof(fact));
		fact.settings.at = buf_at(&o->rows);
		o->each(o->arg, &fact);
		buf_consume(&o->rows, fact.settings.len);
	}
	on_done(op);
}

int store_sandbox_load(struct store *store, store_sandbox_each_fn *each,
		       store_sandbox_done_fn *done, void *arg)
{
	struct fact_op *o = new_op(NULL, done, arg);

	if (o)
		o->each = each;
	return submit(store, o, work_load, on_loaded);
}
