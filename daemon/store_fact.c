#include "daemon/store_fact.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <sqlite3.h>

#define PART    (16 * 1024 * 1024) /* of rows in memory at a time, and one more */
#define ROW_MAX (64 * 1024 * 1024)

void *store_fact_new(size_t size, store_done_fn *done, void *arg)
{
	struct store_fact *o = calloc(1, size);

	if (!o)
		return NULL;
	o->done = done;
	o->arg = arg;
	buf_init(&o->rows, PART + ROW_MAX);
	return o;
}

static void store_fact_free(struct store_fact *o)
{
	buf_close(&o->rows);
	free(o);
}

static void on_done(struct store_op *op)
{
	struct store_fact *o = container_of(op, struct store_fact, op);

	for (; op->result == 0 && buf_len(&o->rows); o->told++)
		buf_consume(&o->rows, o->load->give(o, buf_at(&o->rows)));
	if (op->result == 0 && o->has_more) {
		if (store_submit(o->store, op) == 0)
			return;
		op->result = err_set(&op->err, -EBUSY, ERR_UNAVAILABLE,
				     "reading %s: too much is being stored", o->load->what);
	}
	if (o->done)
		o->done(o->arg, op->result, &op->err);
	store_fact_free(o);
}

int store_fact_submit(struct store *store, struct store_fact *o,
		      int (*work)(struct store_op *op, struct sqlite3 *db))
{
	int r;

	if (!o)
		return -ENOMEM;
	o->op.work = work;
	o->op.done = on_done;
	r = store_submit(store, &o->op);
	if (r < 0)
		store_fact_free(o);
	return r;
}

static int work_nothing(struct store_op *op, struct sqlite3 *db)
{
	return 0;
}

int store_fact_await(struct store *store, store_done_fn *done, void *arg)
{
	return store_fact_submit(store, store_fact_new(sizeof(struct store_fact), done, arg),
				 work_nothing);
}

void store_finalize_p(struct sqlite3_stmt **statement)
{
	sqlite3_finalize(*statement);
}

static int work_load(struct store_op *op, struct sqlite3 *db)
{
	struct store_fact *o = container_of(op, struct store_fact, op);
	cleanup_statement sqlite3_stmt *s = NULL;
	char intent[64];
	int row;

	snprintf(intent, sizeof(intent), "reading %s", o->load->what);
	if (sqlite3_prepare_v2(db, o->load->sql, -1, &s, NULL) != SQLITE_OK ||
	    sqlite3_bind_int64(s, 1, o->told) != SQLITE_OK)
		return store_fail(op, db, intent);
	o->has_more = false;
	while ((row = sqlite3_step(s)) == SQLITE_ROW) {
		o->has_more = buf_len(&o->rows) >= PART;
		if (o->has_more)
			return 0;
		if (o->load->keep(&o->rows, s) < 0)
			return err_set(&op->err, -ENOMEM, ERR_INTERNAL,
				       "%s: there is no memory for one of them", intent);
	}
	return row == SQLITE_DONE ? 0 : store_fail(op, db, intent);
}

int store_fact_load(struct store *store, struct store_fact *o, const struct store_fact_load *load)
{
	if (o) {
		o->load = load;
		o->store = store;
	}
	return store_fact_submit(store, o, work_load);
}
