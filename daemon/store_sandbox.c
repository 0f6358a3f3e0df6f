#include "daemon/store_sandbox.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <sqlite3.h>

#include "daemon/store_fact.h"
#include "daemon/store_port.h"

struct sandbox_op {
	struct store_fact base;
	struct sandbox_fact fact;
	enum store_part part;
	store_sandbox_each_fn *each;
	char settings[];
};

static struct sandbox_op *new_op(const struct sandbox_fact *fact, store_done_fn *done, void *arg)
{
	size_t len = fact->settings.len;
	struct sandbox_op *o = store_fact_new(sizeof(*o) + len + 1, done, arg);

	if (!o)
		return NULL;
	o->fact = *fact;
	if (len)
		memcpy(o->settings, fact->settings.at, len);
	o->fact.settings = (struct str){o->settings, len};
	return o;
}

#define INSERT                                                                                     \
	"INSERT INTO sandbox (id, created_at_ms, generation, settings) VALUES (?1, ?2, ?3, ?4) "   \
	"ON CONFLICT (id) DO UPDATE SET "

static int work_save(struct store_op *op, struct sqlite3 *db)
{
	static const char *const statements[] = {
		[STORE_GENERATION] = INSERT "generation = excluded.generation, asleep_since_ms = 0",
		[STORE_SETTINGS] = INSERT "settings = excluded.settings",
	};
	const struct sandbox_op *o = container_of(op, struct sandbox_op, base.op);
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
		       store_done_fn *done, void *arg)
{
	struct sandbox_op *o = new_op(fact, done, arg);

	if (!o)
		return -ENOMEM;
	o->part = part;
	/* One that has lived may be what fills the disk. */
	o->base.op.is_vital = part == STORE_GENERATION && fact->generation > 1;
	return store_fact_submit(store, &o->base, work_save);
}

static int work_save_sleep(struct store_op *op, struct sqlite3 *db)
{
	const struct sandbox_fact *f = &container_of(op, struct sandbox_op, base.op)->fact;
	cleanup_statement sqlite3_stmt *s = NULL;

	if (sqlite3_prepare_v2(db,
			       "UPDATE sandbox SET asleep_since_ms = ?2, slept_at_ms = ?3, "
			       "slept_generation = ?4, slept_mode = ?5, slept_why = ?6 "
			       "WHERE id = ?1",
			       -1, &s, NULL) != SQLITE_OK ||
	    sqlite3_bind_text(s, 1, f->id.text, -1, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_bind_int64(s, 2, f->sleep.since_ms) != SQLITE_OK ||
	    sqlite3_bind_int64(s, 3, f->sleep.at_ms) != SQLITE_OK ||
	    sqlite3_bind_int64(s, 4, (int64_t)f->sleep.generation) != SQLITE_OK ||
	    sqlite3_bind_text(s, 5, f->sleep.mode, -1, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_bind_text(s, 6, f->sleep.why, -1, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_step(s) != SQLITE_DONE)
		return store_fail(op, db, "storing a sandbox's sleep");
	return 0;
}

int store_sandbox_save_sleep(struct store *store, const struct sandbox_id *id,
			     const struct sleep_fact *sleep, store_done_fn *done, void *arg)
{
	struct sandbox_fact fact = {.id = *id, .sleep = *sleep, .settings = {"", 0}};
	struct sandbox_op *o = new_op(&fact, done, arg);

	return store_fact_submit(store, o ? &o->base : NULL, work_save_sleep);
}

static int work_save_failure(struct store_op *op, struct sqlite3 *db)
{
	const struct sandbox_fact *f = &container_of(op, struct sandbox_op, base.op)->fact;
	const struct err *why = &f->failure.err;
	bool has_failed = why->code != ERR_NONE;
	cleanup_statement sqlite3_stmt *s = NULL;

	if (sqlite3_prepare_v2(db,
			       "UPDATE sandbox SET failed_at_ms = ?2, failed_code = ?3, "
			       "failed_message = ?4 WHERE id = ?1",
			       -1, &s, NULL) != SQLITE_OK ||
	    sqlite3_bind_text(s, 1, f->id.text, -1, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_bind_int64(s, 2, has_failed ? f->failure.at_ms : 0) != SQLITE_OK ||
	    sqlite3_bind_text(s, 3, has_failed ? err_code_name(why->code) : "", -1,
			      SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_bind_blob64(s, 4, why->sentence, has_failed ? strlen(why->sentence) : 0,
				SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_step(s) != SQLITE_DONE)
		return store_fail(op, db, "storing a sandbox's failure");
	return 0;
}

int store_sandbox_save_failure(struct store *store, const struct sandbox_id *id,
			       const struct sandbox_failure *failure, store_done_fn *done,
			       void *arg)
{
	struct sandbox_fact fact = {.id = *id, .failure = *failure, .settings = {"", 0}};
	struct sandbox_op *o = new_op(&fact, done, arg);

	return store_fact_submit(store, o ? &o->base : NULL, work_save_failure);
}

static int work_save_oom(struct store_op *op, struct sqlite3 *db)
{
	const struct sandbox_fact *f = &container_of(op, struct sandbox_op, base.op)->fact;
	cleanup_statement sqlite3_stmt *s = NULL;

	if (sqlite3_prepare_v2(db,
			       "UPDATE sandbox SET oom_at_ms = ?2, oom_kills = ?3, "
			       "oom_generation = ?4 WHERE id = ?1",
			       -1, &s, NULL) != SQLITE_OK ||
	    sqlite3_bind_text(s, 1, f->id.text, -1, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_bind_int64(s, 2, f->oom.at_ms) != SQLITE_OK ||
	    sqlite3_bind_int64(s, 3, (int64_t)f->oom.kills) != SQLITE_OK ||
	    sqlite3_bind_int64(s, 4, (int64_t)f->oom.generation) != SQLITE_OK ||
	    sqlite3_step(s) != SQLITE_DONE)
		return store_fail(op, db, "storing that a sandbox was out of memory");
	return 0;
}

int store_sandbox_save_oom(struct store *store, const struct sandbox_id *id,
			   const struct sandbox_oom *oom, store_done_fn *done, void *arg)
{
	struct sandbox_fact fact = {.id = *id, .oom = *oom, .settings = {"", 0}};
	struct sandbox_op *o = new_op(&fact, done, arg);

	return store_fact_submit(store, o ? &o->base : NULL, work_save_oom);
}

static int work_save_disk(struct store_op *op, struct sqlite3 *db)
{
	const struct sandbox_fact *f = &container_of(op, struct sandbox_op, base.op)->fact;
	cleanup_statement sqlite3_stmt *s = NULL;

	if (sqlite3_prepare_v2(db, "UPDATE sandbox SET has_disk = 1 WHERE id = ?1", -1, &s, NULL) !=
		    SQLITE_OK ||
	    sqlite3_bind_text(s, 1, f->id.text, -1, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_step(s) != SQLITE_DONE)
		return store_fail(op, db, "storing that a sandbox has a disk");
	return 0;
}

int store_sandbox_save_disk(struct store *store, const struct sandbox_id *id, store_done_fn *done,
			    void *arg)
{
	struct sandbox_fact fact = {.id = *id, .settings = {"", 0}};
	struct sandbox_op *o = new_op(&fact, done, arg);

	return store_fact_submit(store, o ? &o->base : NULL, work_save_disk);
}

static int work_delete(struct store_op *op, struct sqlite3 *db)
{
	static const char *const statements[] = {
		"DELETE FROM sandbox WHERE id = ?1",
		"DELETE FROM session WHERE sandbox = ?1",
		"DELETE FROM context WHERE sandbox = ?1",
	};
	const struct sandbox_fact *f = &container_of(op, struct sandbox_op, base.op)->fact;
	int r = store_port_bury(op, db, &f->id);

	if (r < 0)
		return r;
	for (size_t i = 0; i < array_len(statements); i++) {
		cleanup_statement sqlite3_stmt *s = NULL;

		if (sqlite3_prepare_v2(db, statements[i], -1, &s, NULL) != SQLITE_OK ||
		    sqlite3_bind_text(s, 1, f->id.text, -1, SQLITE_STATIC) != SQLITE_OK ||
		    sqlite3_step(s) != SQLITE_DONE)
			return store_fail(op, db, "removing a sandbox");
	}
	return 0;
}

int store_sandbox_delete(struct store *store, const struct sandbox_id *id, store_done_fn *done,
			 void *arg)
{
	struct sandbox_fact fact = {.id = *id, .settings = {"", 0}};
	struct sandbox_op *o = new_op(&fact, done, arg);

	return store_fact_submit(store, o ? &o->base : NULL, work_delete);
}

/* By its name: that stays the same from one version to the next. */
static void read_failure(sqlite3_stmt *s, struct sandbox_failure *ret)
{
	const char *name = (const char *)sqlite3_column_text(s, 10);

	ret->at_ms = sqlite3_column_int64(s, 9);
	if (!ret->at_ms)
		return;
	ret->err.code = ERR_INTERNAL;
	for (int i = ERR_NONE + 1; i < ERR_CODE_COUNT; i++) {
		if (strcmp(err_code_name((enum err_code)i), name) == 0)
			ret->err.code = (enum err_code)i;
	}
	snprintf(ret->err.sentence, sizeof(ret->err.sentence), "%.*s", sqlite3_column_bytes(s, 11),
		 (const char *)sqlite3_column_blob(s, 11));
}

static int keep_row(struct buf *rows, sqlite3_stmt *s)
{
	struct sandbox_fact fact = {
		.created_at_ms = sqlite3_column_int64(s, 1),
		.generation = (uint64_t)sqlite3_column_int64(s, 2),
		.settings = {NULL, (size_t)sqlite3_column_bytes(s, 3)},
		.sleep = {.since_ms = sqlite3_column_int64(s, 4),
			  .at_ms = sqlite3_column_int64(s, 5),
			  .generation = (uint64_t)sqlite3_column_int64(s, 6)},
		.has_disk = sqlite3_column_int64(s, 12),
		.oom = {.at_ms = sqlite3_column_int64(s, 13),
			.kills = (uint64_t)sqlite3_column_int64(s, 14),
			.generation = (uint64_t)sqlite3_column_int64(s, 15)},
	};
	int r;

	read_failure(s, &fact.failure);
	snprintf(fact.sleep.mode, sizeof(fact.sleep.mode), "%s",
		 (const char *)sqlite3_column_text(s, 7));
	snprintf(fact.sleep.why, sizeof(fact.sleep.why), "%s",
		 (const char *)sqlite3_column_text(s, 8));

	snprintf(fact.id.text, sizeof(fact.id.text), "%s", (const char *)sqlite3_column_text(s, 0));
	r = buf_append(rows, &fact, sizeof(fact));
	if (r == 0)
		r = buf_append(rows, sqlite3_column_text(s, 3), fact.settings.len);
	return r;
}

static size_t give_row(struct store_fact *base, const char *row)
{
	struct sandbox_op *o = container_of(base, struct sandbox_op, base);
	struct sandbox_fact fact;

	memcpy(&fact, row, sizeof(fact));
	fact.settings.at = row + sizeof(fact);
	o->each(base->arg, &fact);
	return sizeof(fact) + fact.settings.len;
}

int store_sandbox_load(struct store *store, store_sandbox_each_fn *each, store_done_fn *done,
		       void *arg)
{
	static const struct store_fact_load load = {
		.sql = "SELECT id, created_at_ms, generation, settings, asleep_since_ms, "
		       "slept_at_ms, slept_generation, slept_mode, slept_why, failed_at_ms, "
		       "failed_code, failed_message, has_disk, oom_at_ms, oom_kills, "
		       "oom_generation FROM sandbox ORDER BY id "
		       "LIMIT -1 OFFSET ?1",
		.what = "the sandboxes",
		.keep = keep_row,
		.give = give_row,
	};
	struct sandbox_op *o = store_fact_new(sizeof(*o), done, arg);

	if (!o)
		return -ENOMEM;
	o->each = each;
	return store_fact_load(store, &o->base, &load);
}
