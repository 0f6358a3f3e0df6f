#include "daemon/store_key.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <sqlite3.h>

#include "daemon/store_fact.h"

struct key_op {
	struct store_fact base;
	struct key_fact fact;
	int64_t kept;
	store_key_each_fn *each;
};

static int submit(struct store *store, const struct key_fact *fact, int64_t kept,
		  int (*work)(struct store_op *op, struct sqlite3 *db))
{
	struct key_op *o = store_fact_new(sizeof(*o), NULL, NULL);

	if (o) {
		o->fact = *fact;
		o->kept = kept;
	}
	return store_fact_submit(store, o ? &o->base : NULL, work);
}

static int insert(struct sqlite3 *db, const struct key_fact *f)
{
	cleanup_statement sqlite3_stmt *s = NULL;

	if (sqlite3_prepare_v2(db, "INSERT OR REPLACE INTO made_by_key VALUES (?1, ?2, ?3, ?4, ?5)",
			       -1, &s, NULL) != SQLITE_OK ||
	    sqlite3_bind_text(s, 1, f->place.text, -1, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_bind_blob(s, 2, f->key, (int)f->len, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_bind_int64(s, 3, f->number) != SQLITE_OK ||
	    sqlite3_bind_int64(s, 4, (int64_t)f->body) != SQLITE_OK ||
	    sqlite3_bind_text(s, 5, f->id.text, -1, SQLITE_STATIC) != SQLITE_OK)
		return SQLITE_ERROR;
	return sqlite3_step(s);
}

static int prune(struct sqlite3 *db, int64_t last)
{
	cleanup_statement sqlite3_stmt *s = NULL;

	if (sqlite3_prepare_v2(db, "DELETE FROM made_by_key WHERE number <= ?1", -1, &s, NULL) !=
		    SQLITE_OK ||
	    sqlite3_bind_int64(s, 1, last) != SQLITE_OK)
		return SQLITE_ERROR;
	return sqlite3_step(s);
}

static int work_add(struct store_op *op, struct sqlite3 *db)
{
	const struct key_op *o = container_of(op, struct key_op, base.op);

	if (insert(db, &o->fact) != SQLITE_DONE ||
	    prune(db, o->fact.number - o->kept) != SQLITE_DONE)
		return store_fail(op, db, "storing what an Idempotency-Key has made");
	return 0;
}

int store_key_add(struct store *store, const struct key_fact *fact, int64_t kept)
{
	return submit(store, fact, kept, work_add);
}

static int work_forget(struct store_op *op, struct sqlite3 *db)
{
	const struct key_fact *f = &container_of(op, struct key_op, base.op)->fact;
	cleanup_statement sqlite3_stmt *s = NULL;

	if (sqlite3_prepare_v2(db, "DELETE FROM made_by_key WHERE place = ?1 AND id = ?2", -1, &s,
			       NULL) != SQLITE_OK ||
	    sqlite3_bind_text(s, 1, f->place.text, -1, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_bind_text(s, 2, f->id.text, -1, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_step(s) != SQLITE_DONE)
		return store_fail(op, db, "forgetting what an Idempotency-Key has made");
	return 0;
}

int store_key_forget(struct store *store, const struct sandbox_id *place,
		     const struct sandbox_id *id)
{
	return submit(store, &(struct key_fact){.place = *place, .id = *id}, 0, work_forget);
}

static int keep_row(struct buf *rows, sqlite3_stmt *s)
{
	struct key_fact fact = {
		.number = sqlite3_column_int64(s, 0),
		.body = (uint64_t)sqlite3_column_int64(s, 1),
		.len = (size_t)sqlite3_column_bytes(s, 4),
	};

	if (fact.len > sizeof(fact.key))
		return 0; /* nobody of ours has stored that */
	snprintf(fact.place.text, sizeof(fact.place.text), "%s",
		 (const char *)sqlite3_column_text(s, 2));
	snprintf(fact.id.text, sizeof(fact.id.text), "%s", (const char *)sqlite3_column_text(s, 3));
	if (fact.len)
		memcpy(fact.key, sqlite3_column_blob(s, 4), fact.len);
	return buf_append(rows, &fact, sizeof(fact));
}

static size_t give_row(struct store_fact *base, const char *row)
{
	struct key_op *o = container_of(base, struct key_op, base);
	struct key_fact fact;

	memcpy(&fact, row, sizeof(fact));
	o->each(base->arg, &fact);
	return sizeof(fact);
}

int store_key_load(struct store *store, store_key_each_fn *each, store_done_fn *done, void *arg)
{
	static const struct store_fact_load load = {
		.sql = "SELECT number, body, place, id, key FROM made_by_key ORDER BY number "
		       "LIMIT -1 OFFSET ?1",
		.what = "what Idempotency-Keys have made",
		.keep = keep_row,
		.give = give_row,
	};
	struct key_op *o = store_fact_new(sizeof(*o), done, arg);

	if (!o)
		return -ENOMEM;
	o->each = each;
	return store_fact_load(store, &o->base, &load);
}
