#include "daemon/store_session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "daemon/store_fact.h"

#define TEXTS 5

struct session_op {
	struct store_fact base;
	struct session_fact fact;
	store_session_each_fn *each;
	char texts[];
};

/* In the order of the columns. */
static void texts_of(struct session_fact *fact, struct str *ret[TEXTS])
{
	ret[0] = &fact->id;
	ret[1] = &fact->cwd;
	ret[2] = &fact->user;
	ret[3] = &fact->shell;
	ret[4] = &fact->env;
}

static size_t texts_size(const struct session_fact *fact)
{
	return fact->id.len + fact->cwd.len + fact->user.len + fact->shell.len + fact->env.len;
}

/* The texts to `at`, where there is room for them. */
static void copy_fact(struct session_fact *ret, const struct session_fact *fact, char *at)
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

char *session_fact_copy(struct session_fact *ret, const struct session_fact *fact)
{
	char *bytes = malloc(texts_size(fact) + 1);

	if (bytes)
		copy_fact(ret, fact, bytes);
	return bytes;
}

static struct store_fact *new_op(const struct session_fact *fact, store_done_fn *done, void *arg)
{
	struct session_op *o = store_fact_new(sizeof(*o) + texts_size(fact) + 1, done, arg);

	if (!o)
		return NULL;
	copy_fact(&o->fact, fact, o->texts);
	return &o->base;
}

static int work_save(struct store_op *op, struct sqlite3 *db)
{
	struct session_op *o = container_of(op, struct session_op, base.op);
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

int store_session_save(struct store *store, const struct session_fact *fact, store_done_fn *done,
		       void *arg)
{
	return store_fact_submit(store, new_op(fact, done, arg), work_save);
}

static int work_delete(struct store_op *op, struct sqlite3 *db)
{
	const struct session_fact *f = &container_of(op, struct session_op, base.op)->fact;
	cleanup_statement sqlite3_stmt *s = NULL;

	if (sqlite3_prepare_v2(db, "DELETE FROM session WHERE sandbox = ?1 AND id = ?2", -1, &s,
			       NULL) != SQLITE_OK ||
	    sqlite3_bind_text(s, 1, f->sandbox.text, -1, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_bind_blob(s, 2, f->id.at, (int)f->id.len, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_step(s) != SQLITE_DONE)
		return store_fail(op, db, "removing a session");
	return 0;
}

int store_session_delete(struct store *store, const struct session_fact *fact, store_done_fn *done,
			 void *arg)
{
	return store_fact_submit(store, new_op(fact, done, arg), work_delete);
}

static int keep_row(struct buf *rows, sqlite3_stmt *s)
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
	r = buf_append(rows, &fact, sizeof(fact));
	for (int i = 0; r == 0 && i < TEXTS; i++) {
		if (texts[i]->len)
			r = buf_append(rows, sqlite3_column_blob(s, i + 1), texts[i]->len);
	}
	return r;
}

static size_t give_row(struct store_fact *base, const char *row)
{
	struct session_op *o = container_of(base, struct session_op, base);
	size_t size = sizeof(struct session_fact);
	struct session_fact fact;
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

int store_session_load(struct store *store, store_session_each_fn *each, store_done_fn *done,
		       void *arg)
{
	static const struct store_fact_load load = {
		.sql = "SELECT sandbox, id, cwd, user, shell, env, created_at_ms, generation, exec "
		       "FROM session ORDER BY created_at_ms, id, sandbox LIMIT -1 OFFSET ?1",
		.what = "the sessions",
		.keep = keep_row,
		.give = give_row,
	};
	struct session_op *o = store_fact_new(sizeof(*o), done, arg);

	if (!o)
		return -ENOMEM;
	o->each = each;
	return store_fact_load(store, &o->base, &load);
}
