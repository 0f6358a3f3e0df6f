#include "daemon/store_context.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "daemon/store_fact.h"

#define TEXTS 5

struct context_op {
	struct store_fact base;
	struct context_fact fact;
	store_context_each_fn *each;
	char texts[];
};

/* In the order of the columns. */
static void texts_of(struct context_fact *fact, struct str *ret[TEXTS])
{
	ret[0] = &fact->id;
	ret[1] = &fact->language;
	ret[2] = &fact->cwd;
	ret[3] = &fact->user;
	ret[4] = &fact->env;
}

static size_t texts_size(const struct context_fact *fact)
{
	return fact->id.len + fact->cwd.len + fact->user.len + fact->language.len + fact->env.len;
}

/* The texts to `at`, where there is room for them. */
static void copy_fact(struct context_fact *ret, const struct context_fact *fact, char *at)
{
	struct str *texts[TEXTS];

	*ret = *fact;
	texts_of(ret, texts);
	for (int i = 0; i < TEXTS; i++) {
		char *start = at;

		if (texts[i]->len)
			at = mempcpy(at, texts[i]->at, texts[i]->len);
		texts[i]->at = start;
	}
}

char *context_fact_copy(struct context_fact *ret, const struct context_fact *fact)
{
	char *bytes = malloc(texts_size(fact) + 1);

	if (bytes)
		copy_fact(ret, fact, bytes);
	return bytes;
}

static struct store_fact *new_op(const struct context_fact *fact, store_done_fn *done, void *arg)
{
	struct context_op *o = store_fact_new(sizeof(*o) + texts_size(fact) + 1, done, arg);

	if (!o)
		return NULL;
	copy_fact(&o->fact, fact, o->texts);
	return &o->base;
}

static int work_save(struct store_op *op, struct sqlite3 *db)
{
	struct context_op *o = container_of(op, struct context_op, base.op);
	cleanup_statement sqlite3_stmt *s = NULL;
	struct str *texts[TEXTS];
	int r = sqlite3_prepare_v2(
		db,
		"INSERT OR REPLACE INTO context VALUES (?6, ?1, ?2, ?3, ?4, ?5, ?7, ?8, ?9, ?10)",
		-1, &s, NULL);

	texts_of(&o->fact, texts);
	for (int i = 0; r == SQLITE_OK && i < TEXTS; i++)
		r = sqlite3_bind_blob(s, i + 1, texts[i]->at, (int)texts[i]->len, SQLITE_STATIC);
	if (r != SQLITE_OK ||
	    sqlite3_bind_text(s, 6, o->fact.sandbox.text, -1, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_bind_int64(s, 7, o->fact.is_default) != SQLITE_OK ||
	    sqlite3_bind_int64(s, 8, o->fact.created_at_ms) != SQLITE_OK ||
	    sqlite3_bind_int64(s, 9, (int64_t)o->fact.generation) != SQLITE_OK ||
	    sqlite3_bind_int64(s, 10, (int64_t)o->fact.exec) != SQLITE_OK ||
	    sqlite3_step(s) != SQLITE_DONE)
		return store_fail(op, db, "storing a context");
	return 0;
}

int store_context_save(struct store *store, const struct context_fact *fact, store_done_fn *done,
		       void *arg)
{
	return store_fact_submit(store, new_op(fact, done, arg), work_save);
}

static int work_delete(struct store_op *op, struct sqlite3 *db)
{
	const struct context_fact *f = &container_of(op, struct context_op, base.op)->fact;
	cleanup_statement sqlite3_stmt *s = NULL;

	if (sqlite3_prepare_v2(db, "DELETE FROM context WHERE sandbox = ?1 AND id = ?2", -1, &s,
			       NULL) != SQLITE_OK ||
	    sqlite3_bind_text(s, 1, f->sandbox.text, -1, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_bind_blob(s, 2, f->id.at, (int)f->id.len, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_step(s) != SQLITE_DONE)
		return store_fail(op, db, "removing a context");
	return 0;
}

int store_context_delete(struct store *store, const struct context_fact *fact, store_done_fn *done,
			 void *arg)
{
	return store_fact_submit(store, new_op(fact, done, arg), work_delete);
}

static int keep_row(struct buf *rows, sqlite3_stmt *s)
{
	struct context_fact fact = {
		.is_default = sqlite3_column_int64(s, 6) != 0,
		.created_at_ms = sqlite3_column_int64(s, 7),
		.generation = (uint64_t)sqlite3_column_int64(s, 8),
		.exec = (uint64_t)sqlite3_column_int64(s, 9),
	};
	struct str *texts[TEXTS];
	int r;

	snprintf(fact.sandbox.text, sizeof(fact.sandbox.text), "%s",
		 (const char *)sqlite3_column_text(s, 0));
	texts_of(&fact, texts);
	for (int i = 0; i < TEXTS; i++)
		texts[i]->len = (size_t)sqlite3_column_bytes(s, i + 1);
	r = buf_append(rows, &fact, sizeof(fact));
	for (int i = 0; r == 0 && i < TEXTS; i++) {
		if (texts[i]->len)
			r = buf_append(rows, sqlite3_column_blob(s, i + 1), texts[i]->len);
	}
	return r;
}

static size_t give_row(struct store_fact *base, const char *row)
{
	struct context_op *o = container_of(base, struct context_op, base);
	size_t size = sizeof(struct context_fact);
	struct context_fact fact;
	struct str *texts[TEXTS];

	memcpy(&fact, row, sizeof(fact));
	texts_of(&fact, texts);
	for (int i = 0; i < TEXTS; i++) {
		texts[i]->at = row + size;
		size += texts[i]->len;
	}
	o->each(base->arg, &fact);
	return size;
}

int store_context_load(struct store *store, store_context_each_fn *each, store_done_fn *done,
		       void *arg)
{
	static const struct store_fact_load load = {
		.sql = "SELECT sandbox, id, language, cwd, user, env, is_default, created_at_ms, "
		       "generation, exec FROM context ORDER BY created_at_ms, id, sandbox LIMIT -1 "
		       "OFFSET ?1",
		.what = "the contexts",
		.keep = keep_row,
		.give = give_row,
	};
	struct context_op *o = store_fact_new(sizeof(*o), done, arg);

	if (!o)
		return -ENOMEM;
	o->each = each;
	return store_fact_load(store, &o->base, &load);
}
