#include "daemon/store_port.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <sqlite3.h>

#include "daemon/store_fact.h"

struct port_op {
	struct store_fact base;
	struct port_fact fact;
	store_port_each_fn *each;
};

static struct store_fact *new_op(const struct port_fact *fact, store_done_fn *done, void *arg)
{
	struct port_op *o = store_fact_new(sizeof(*o), done, arg);

	if (!o)
		return NULL;
	o->fact = *fact;
	return &o->base;
}

static int bind_text(sqlite3_stmt *s, int at, const char *text)
{
	return sqlite3_bind_text(s, at, text, -1, SQLITE_STATIC);
}

/* One text is all that the statement wants. */
static int run_with(struct store_op *op, struct sqlite3 *db, const char *sql, const char *text,
		    const char *intent)
{
	cleanup_statement sqlite3_stmt *s = NULL;

	if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK ||
	    bind_text(s, 1, text) != SQLITE_OK || sqlite3_step(s) != SQLITE_DONE)
		return store_fail(op, db, intent);
	return 0;
}

static int save_alias(struct store_op *op, struct sqlite3 *db, const struct port_fact *f)
{
	cleanup_statement sqlite3_stmt *s = NULL;

	if (!f->alias[0])
		return 0;
	if (sqlite3_prepare_v2(db,
			       "INSERT INTO alias (sandbox, alias) VALUES (?1, ?2) "
			       "ON CONFLICT (sandbox) DO UPDATE SET alias = excluded.alias",
			       -1, &s, NULL) != SQLITE_OK ||
	    bind_text(s, 1, f->sandbox.text) != SQLITE_OK ||
	    bind_text(s, 2, f->alias) != SQLITE_OK || sqlite3_step(s) != SQLITE_DONE)
		return store_fail(op, db, "storing an alias");
	return 0;
}

static int save_port(struct store_op *op, struct sqlite3 *db, const struct port_fact *f)
{
	/* Not INSERT OR REPLACE: that would take a label away from whoever has it. */
	static const char sql[] =
		"INSERT INTO port (sandbox, number, name, token, label, created_at_ms) "
		"VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (sandbox, number) DO UPDATE SET "
		"name = excluded.name, token = excluded.token, label = excluded.label";
	cleanup_statement sqlite3_stmt *s = NULL;

	if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK ||
	    bind_text(s, 1, f->sandbox.text) != SQLITE_OK ||
	    sqlite3_bind_int64(s, 2, f->number) != SQLITE_OK ||
	    bind_text(s, 3, f->name) != SQLITE_OK || bind_text(s, 4, f->token) != SQLITE_OK ||
	    bind_text(s, 5, f->label) != SQLITE_OK ||
	    sqlite3_bind_int64(s, 6, f->created_at_ms) != SQLITE_OK ||
	    sqlite3_step(s) != SQLITE_DONE)
		return store_fail(op, db, "storing an exposed port");
	return 0;
}

static int work_save(struct store_op *op, struct sqlite3 *db)
{
	const struct port_fact *f = &container_of(op, struct port_op, base.op)->fact;
	int r = save_alias(op, db, f);

	if (r == 0)
		r = save_port(op, db, f);
	if (r == 0)
		r = run_with(op, db, "DELETE FROM tombstone WHERE label = ?1", f->label,
			     "storing an exposed port");
	return r;
}

int store_port_save(struct store *store, const struct port_fact *fact, store_done_fn *done,
		    void *arg)
{
	return store_fact_submit(store, new_op(fact, done, arg), work_save);
}

static int work_delete(struct store_op *op, struct sqlite3 *db)
{
	const struct port_fact *f = &container_of(op, struct port_op, base.op)->fact;
	cleanup_statement sqlite3_stmt *s = NULL;

	if (sqlite3_prepare_v2(db, "DELETE FROM port WHERE sandbox = ?1 AND number = ?2", -1, &s,
			       NULL) != SQLITE_OK ||
	    bind_text(s, 1, f->sandbox.text) != SQLITE_OK ||
	    sqlite3_bind_int64(s, 2, f->number) != SQLITE_OK || sqlite3_step(s) != SQLITE_DONE)
		return store_fail(op, db, "removing an exposed port");
	return 0;
}

int store_port_delete(struct store *store, const struct sandbox_id *sandbox, uint16_t number,
		      store_done_fn *done, void *arg)
{
	struct port_fact fact = {.sandbox = *sandbox, .number = number};

	return store_fact_submit(store, new_op(&fact, done, arg), work_delete);
}

int store_port_bury(struct store_op *op, struct sqlite3 *db, const struct sandbox_id *sandbox)
{
	static const char prune[] = "DELETE FROM tombstone WHERE id <= (SELECT id FROM tombstone "
				    "ORDER BY id DESC LIMIT 1 OFFSET ?1)";
	cleanup_statement sqlite3_stmt *s = NULL;
	int r = run_with(op, db,
			 "INSERT OR REPLACE INTO tombstone (label) SELECT label FROM port "
			 "WHERE sandbox = ?1 ORDER BY number",
			 sandbox->text, "remembering a sandbox's ports");

	if (r < 0 || sqlite3_changes(db) == 0)
		return r;
	if (sqlite3_prepare_v2(db, prune, -1, &s, NULL) != SQLITE_OK ||
	    sqlite3_bind_int64(s, 1, PORT_TOMBSTONES_MAX) != SQLITE_OK ||
	    sqlite3_step(s) != SQLITE_DONE)
		return store_fail(op, db, "remembering a sandbox's ports");
	return 0;
}

/* --- reading --- */

struct loaded {
	enum port_row row;
	struct port_fact fact;
};

/* What does not fit was never written: then the database is damaged, and it is cut. */
static void read_text(char *ret, size_t size, sqlite3_stmt *s, int column)
{
	snprintf(ret, size, "%s", (const char *)sqlite3_column_text(s, column));
}

static int keep_row(struct buf *rows, sqlite3_stmt *s)
{
	struct loaded l;
	struct port_fact *f = &l.fact;

	memset(&l, 0, sizeof(l)); /* labels are compared to their last byte */
	l.row = (enum port_row)sqlite3_column_int(s, 0);
	read_text(f->sandbox.text, sizeof(f->sandbox.text), s, 1);
	f->number = (uint16_t)sqlite3_column_int(s, 2);
	if (l.row == PORT_ROW_ALIAS)
		read_text(f->alias, sizeof(f->alias), s, 3);
	else
		read_text(f->name, sizeof(f->name), s, 3);
	read_text(f->token, sizeof(f->token), s, 4);
	read_text(f->label, sizeof(f->label), s, 5);
	f->created_at_ms = sqlite3_column_int64(s, 6);
	return buf_append(rows, &l, sizeof(l));
}

static size_t give_row(struct store_fact *base, const char *row)
{
	struct port_op *o = container_of(base, struct port_op, base);
	struct loaded l;

	memcpy(&l, row, sizeof(l));
	o->each(base->arg, l.row, &l.fact);
	return sizeof(l);
}

int store_port_load(struct store *store, store_port_each_fn *each, store_done_fn *done, void *arg)
{
	static const struct store_fact_load load = {
		.sql = "SELECT 0, sandbox, 0, alias, '', '', 0 FROM alias UNION ALL "
		       "SELECT 1, sandbox, number, name, token, label, created_at_ms FROM port "
		       "UNION ALL SELECT 2, '', id, '', '', label, 0 FROM tombstone "
		       "ORDER BY 1, 2, 3 LIMIT -1 OFFSET ?1",
		.what = "the exposed ports",
		.keep = keep_row,
		.give = give_row,
	};
	struct port_op *o = store_fact_new(sizeof(*o), done, arg);

	if (!o)
		return -ENOMEM;
	o->each = each;
	return store_fact_load(store, &o->base, &load);
}
