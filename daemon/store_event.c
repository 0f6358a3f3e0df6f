#include "daemon/store_event.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "daemon/store_fact.h"

#define TEXT_(n) #n
#define TEXT(n)  TEXT_(n)

struct event *event_new(const struct sandbox_id *sandbox, const char *type, struct str data)
{
	struct event *e = data.len > EVENT_DATA_MAX || strlen(type) > EVENT_TYPE_MAX
				  ? NULL
				  : calloc(1, sizeof(*e) + data.len + 1);

	if (!e)
		return NULL;
	list_init(&e->link);
	e->sandbox = *sandbox;
	memcpy(e->type, type, strlen(type) + 1);
	memcpy(e->data, data.at, data.len);
	e->len = data.len;
	return e;
}

void event_free_list(struct list *events)
{
	while (!list_is_empty(events)) {
		struct event *e = list_entry(events->next, struct event, link);

		list_remove(&e->link);
		free(e);
	}
}

/* --- storing --- */

static int insert(struct store_op *op, struct sqlite3 *db, struct event *e, sqlite3_stmt *s)
{
	/* One that is tried again may be there, if only its way to the disk failed. */
	if ((e->id ? sqlite3_bind_int64(s, 1, (int64_t)e->id) : sqlite3_bind_null(s, 1)) !=
		    SQLITE_OK ||
	    sqlite3_bind_text(s, 2, e->sandbox.text, -1, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_bind_text(s, 3, e->type, -1, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_bind_text(s, 4, e->data, (int)e->len, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_step(s) != SQLITE_DONE || sqlite3_reset(s) != SQLITE_OK)
		return store_fail(op, db, "storing an event");
	e->id = (uint64_t)sqlite3_last_insert_rowid(db);
	return 0;
}

/* event_pruned: how far something of a sandbox is gone; under "" how far everything is. */
static int prune(struct store_op *op, struct sqlite3 *db)
{
	/* clang-format off */
	static const char sql[] =
		"CREATE TEMP TABLE old AS SELECT id, sandbox FROM ("
		"  SELECT id, sandbox, row_number() OVER (PARTITION BY sandbox ORDER BY id DESC) AS age"
		"  FROM event"
		") WHERE age > " TEXT(EVENTS_OF_ONE_MAX) ";"
		"INSERT OR REPLACE INTO event_pruned SELECT sandbox, max(id) FROM old GROUP BY sandbox;"
		"DELETE FROM event WHERE id IN (SELECT id FROM old);"
		"DROP TABLE old;"
		"INSERT OR REPLACE INTO event_pruned"
		"  SELECT '', id FROM event ORDER BY id DESC LIMIT 1 OFFSET " TEXT(EVENTS_MAX) ";"
		"DELETE FROM event WHERE id <= (SELECT id FROM event_pruned WHERE sandbox = '');"
		"DELETE FROM event_pruned"
		"  WHERE sandbox <> '' AND id <= (SELECT id FROM event_pruned WHERE sandbox = '')";
	/* clang-format on */

	if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
		return store_fail(op, db, "pruning events");
	return 0;
}

static int work_save(struct store_op *op, struct sqlite3 *db)
{
	struct store_event_batch *batch = container_of(op, struct store_event_batch, op);
	cleanup_statement sqlite3_stmt *s = NULL;
	int r = 0;

	if (sqlite3_prepare_v2(db,
			       "INSERT OR REPLACE INTO event (id, sandbox, type, data) VALUES (?1, "
			       "?2, ?3, ?4)",
			       -1, &s, NULL) != SQLITE_OK)
		return store_fail(op, db, "storing an event");
	list_for_each (node, &batch->events) {
		r = insert(op, db, list_entry(node, struct event, link), s);
		if (r < 0)
			return r;
	}
	return batch->is_prune_due ? prune(op, db) : 0;
}

int store_event_save(struct store *store, struct store_event_batch *batch)
{
	batch->op.work = work_save;
	return store_submit(store, &batch->op);
}

/* --- reading --- */

static int read_number(struct store_event_read *read, struct sqlite3 *db, const char *sql,
		       uint64_t *ret)
{
	cleanup_statement sqlite3_stmt *s = NULL;

	if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK)
		return store_fail(&read->op, db, "reading events");
	if (sqlite3_bind_parameter_count(s) &&
	    sqlite3_bind_text(s, 1, read->sandbox.text, -1, SQLITE_STATIC) != SQLITE_OK)
		return store_fail(&read->op, db, "reading events");
	if (sqlite3_step(s) != SQLITE_ROW)
		return store_fail(&read->op, db, "reading events");
	*ret = (uint64_t)sqlite3_column_int64(s, 0);
	return 0;
}

/* All that stands around the events; an aggregate always has a row. */
static int read_ends(struct store_event_read *read, struct sqlite3 *db)
{
	bool is_one = read->sandbox.text[0];
	uint64_t known = 0;
	int r;

	r = read_number(read, db, "SELECT max(seq) FROM sqlite_sequence WHERE name = 'event'",
			&read->last);
	if (r == 0)
		r = read_number(read, db,
				is_one ? "SELECT max(id) FROM event_pruned WHERE sandbox IN ('', "
					 "?1)"
				       : "SELECT max(id) FROM event_pruned",
				&read->pruned);
	if (r == 0)
		r = read_number(read, db, "SELECT EXISTS (SELECT 1 FROM event WHERE sandbox = ?1)",
				&known);
	read->is_known = known;
	if (read->pruned <= read->after)
		read->pruned = 0;
	return r;
}

static struct event *take_row(sqlite3_stmt *s)
{
	struct sandbox_id sandbox;
	struct event *e;

	snprintf(sandbox.text, sizeof(sandbox.text), "%s", (const char *)sqlite3_column_text(s, 1));
	e = event_new(&sandbox, (const char *)sqlite3_column_text(s, 2),
		      (struct str){(const char *)sqlite3_column_text(s, 3),
				   (size_t)sqlite3_column_bytes(s, 3)});
	if (e)
		e->id = (uint64_t)sqlite3_column_int64(s, 0);
	return e;
}

static int read_rows(struct store_event_read *read, sqlite3_stmt *s)
{
	int row;

	for (int n = 0; (row = sqlite3_step(s)) == SQLITE_ROW; n++) {
		struct event *e;

		read->has_more = n == EVENTS_READ_MAX;
		if (read->has_more)
			return SQLITE_DONE;
		e = take_row(s);
		if (!e)
			return SQLITE_NOMEM;
		list_append(&read->events, &e->link);
	}
	return row;
}

static int work_read(struct store_op *op, struct sqlite3 *db)
{
	struct store_event_read *read = container_of(op, struct store_event_read, op);
	bool is_one = read->sandbox.text[0];
	cleanup_statement sqlite3_stmt *s = NULL;
	int r = read_ends(read, db);

	if (r < 0)
		return r;
	if (sqlite3_prepare_v2(
		    db,
		    is_one ? "SELECT id, sandbox, type, data FROM event WHERE id > ?1 AND "
			     "sandbox = ?2 ORDER BY id LIMIT ?3"
			   : "SELECT id, sandbox, type, data FROM event WHERE id > ?1 ORDER BY id "
			     "LIMIT ?3",
		    -1, &s, NULL) != SQLITE_OK ||
	    sqlite3_bind_int64(s, 1, (int64_t)read->after) != SQLITE_OK ||
	    (is_one &&
	     sqlite3_bind_text(s, 2, read->sandbox.text, -1, SQLITE_STATIC) != SQLITE_OK) ||
	    sqlite3_bind_int(s, 3, EVENTS_READ_MAX + 1) != SQLITE_OK ||
	    read_rows(read, s) != SQLITE_DONE)
		return store_fail(op, db, "reading events");
	return 0;
}

int store_event_read(struct store *store, struct store_event_read *read)
{
	read->op.work = work_read;
	list_init(&read->events);
	read->has_more = read->is_known = false;
	return store_submit(store, &read->op);
}
