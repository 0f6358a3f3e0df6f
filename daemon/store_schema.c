#include "daemon/store_schema.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include <sqlite3.h>

#include "base/cleanup.h"
#include "daemon/store_error.h"
#include "daemon/store_fact.h"

static const char base32[] = "abcdefghijklmnopqrstuvwxyz234567";

static int make_instance(struct sqlite3 *db, struct err *err)
{
	cleanup_statement sqlite3_stmt *insert = NULL;
	unsigned char bytes[STORE_INSTANCE_LEN];
	char name[STORE_INSTANCE_LEN + 1] = {0};

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return err_set(err, -EIO, ERR_INTERNAL, "the kernel gives no random bytes");
	for (size_t i = 0; i < sizeof(bytes); i++)
		name[i] = base32[bytes[i] & 31];
	if (sqlite3_prepare_v2(db,
			       "INSERT INTO meta VALUES ('instance', ?1), "
			       "('created_at', strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))",
			       -1, &insert, NULL) != SQLITE_OK ||
	    sqlite3_bind_text(insert, 1, name, -1, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_step(insert) != SQLITE_DONE)
		return store_error(err, db, "naming the installation");
	return 0;
}

static const struct migration {
	const char *sql;
	int (*fill)(struct sqlite3 *db, struct err *err); /* what SQL cannot say; may be NULL */
} migrations[] = {
	{
		"CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT",
		make_instance,
	},
	{
		"CREATE TABLE sandbox (id TEXT PRIMARY KEY, created_at_ms INTEGER NOT NULL, "
		"generation INTEGER NOT NULL, settings TEXT NOT NULL) STRICT, WITHOUT ROWID",
		NULL,
	},
	{
		"CREATE TABLE process (sandbox TEXT NOT NULL REFERENCES sandbox (id) ON DELETE "
		"CASCADE, id TEXT NOT NULL, spec TEXT NOT NULL, generation INTEGER NOT NULL, "
		"exec INTEGER NOT NULL, pid INTEGER NOT NULL, started_at_ms INTEGER NOT NULL, "
		"ended_at_ms INTEGER NOT NULL, log_start INTEGER NOT NULL, "
		"log_end INTEGER NOT NULL, reason INTEGER NOT NULL, exit_code INTEGER NOT NULL, "
		"signal INTEGER NOT NULL, duration_ms INTEGER NOT NULL, cpu_ms INTEGER NOT NULL, "
		"max_rss_bytes INTEGER NOT NULL, oom_suspected INTEGER NOT NULL, "
		"message BLOB NOT NULL, autostart INTEGER NOT NULL, PRIMARY KEY (sandbox, id)) "
		"STRICT, WITHOUT ROWID",
		NULL,
	},
	{
		"CREATE TABLE session (sandbox TEXT NOT NULL, id BLOB NOT NULL, cwd BLOB NOT NULL, "
		"user BLOB NOT NULL, shell BLOB NOT NULL, env BLOB NOT NULL, created_at_ms INTEGER "
		"NOT NULL, generation INTEGER NOT NULL, exec INTEGER NOT NULL, "
		"PRIMARY KEY (sandbox, id)) STRICT, WITHOUT ROWID",
		NULL,
	},
	{
		/* Without a reference to the sandbox: what is told of it outlives it. */
		"CREATE TABLE event (id INTEGER PRIMARY KEY AUTOINCREMENT, sandbox TEXT NOT NULL, "
		"type TEXT NOT NULL, data TEXT NOT NULL) STRICT; "
		"CREATE INDEX event_of_sandbox ON event (sandbox, id); "
		"CREATE TABLE event_pruned (sandbox TEXT PRIMARY KEY, id INTEGER NOT NULL) "
		"STRICT, WITHOUT ROWID",
		NULL,
	},
	{
		"CREATE TABLE alarm (sandbox TEXT NOT NULL REFERENCES sandbox (id) ON DELETE "
		"CASCADE, name TEXT NOT NULL, argv BLOB NOT NULL, at_ms INTEGER NOT NULL, "
		"every_ms INTEGER NOT NULL, timeout_ms INTEGER NOT NULL, "
		"next_at_ms INTEGER NOT NULL, due_at_ms INTEGER NOT NULL, "
		"started_at_ms INTEGER NOT NULL, ended_at_ms INTEGER NOT NULL, "
		"reason INTEGER NOT NULL, exit_code INTEGER NOT NULL, attempts INTEGER NOT NULL, "
		"skipped INTEGER NOT NULL, error BLOB NOT NULL, PRIMARY KEY (sandbox, name)) "
		"STRICT, WITHOUT ROWID;"
		"ALTER TABLE sandbox ADD COLUMN asleep_since_ms INTEGER NOT NULL DEFAULT 0;"
		"ALTER TABLE sandbox ADD COLUMN slept_at_ms INTEGER NOT NULL DEFAULT 0;"
		"ALTER TABLE sandbox ADD COLUMN slept_generation INTEGER NOT NULL DEFAULT 0;"
		"ALTER TABLE sandbox ADD COLUMN slept_mode TEXT NOT NULL DEFAULT '';"
		"ALTER TABLE sandbox ADD COLUMN slept_why TEXT NOT NULL DEFAULT ''",
		NULL,
	},
	{
		"ALTER TABLE process ADD COLUMN tree_lost INTEGER NOT NULL DEFAULT 0",
		NULL,
	},
	{
		"ALTER TABLE sandbox ADD COLUMN failed_at_ms INTEGER NOT NULL DEFAULT 0;"
		"ALTER TABLE sandbox ADD COLUMN failed_code TEXT NOT NULL DEFAULT '';"
		"ALTER TABLE sandbox ADD COLUMN failed_message BLOB NOT NULL DEFAULT x''",
		NULL,
	},
	{
		/* A port without a token is public. Tombstones outlive what they are of. */
		"CREATE TABLE port (sandbox TEXT NOT NULL REFERENCES sandbox (id) ON DELETE "
		"CASCADE, number INTEGER NOT NULL, name TEXT NOT NULL, token TEXT NOT NULL, "
		"label TEXT NOT NULL UNIQUE, created_at_ms INTEGER NOT NULL, "
		"PRIMARY KEY (sandbox, number)) STRICT, WITHOUT ROWID;"
		"CREATE TABLE alias (sandbox TEXT PRIMARY KEY REFERENCES sandbox (id) ON DELETE "
		"CASCADE, alias TEXT NOT NULL UNIQUE) STRICT, WITHOUT ROWID;"
		"CREATE TABLE tombstone (id INTEGER PRIMARY KEY AUTOINCREMENT, "
		"label TEXT NOT NULL UNIQUE) STRICT",
		NULL,
	},
	{
		/* Only one that has run has slept since. */
		"ALTER TABLE sandbox ADD COLUMN has_disk INTEGER NOT NULL DEFAULT 0;"
		"UPDATE sandbox SET has_disk = 1 WHERE slept_generation > 0",
		NULL,
	},
	{
		"ALTER TABLE sandbox ADD COLUMN oom_at_ms INTEGER NOT NULL DEFAULT 0;"
		"ALTER TABLE sandbox ADD COLUMN oom_kills INTEGER NOT NULL DEFAULT 0;"
		"ALTER TABLE sandbox ADD COLUMN oom_generation INTEGER NOT NULL DEFAULT 0",
		NULL,
	},
	{
		"CREATE TABLE context (sandbox TEXT NOT NULL, id BLOB NOT NULL, "
		"language BLOB NOT NULL, cwd BLOB NOT NULL, user BLOB NOT NULL, env BLOB NOT NULL, "
		"is_default INTEGER NOT NULL, created_at_ms INTEGER NOT NULL, "
		"generation INTEGER NOT NULL, exec INTEGER NOT NULL, "
		"PRIMARY KEY (sandbox, id)) STRICT, WITHOUT ROWID",
		NULL,
	},
	{
		/* Without a reference to the sandbox, which is gone when it is over. What is short
		 * stands first: lists do not read the rest. has_sandbox: 0 it is gone, 1 it may be
		 * there, 2 the same of one that is lost. */
		"CREATE TABLE run (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL "
		"UNIQUE, status TEXT NOT NULL, language TEXT NOT NULL, has_sandbox INTEGER NOT "
		"NULL DEFAULT 1, bytes INTEGER NOT NULL, created_at_ms INTEGER NOT NULL, "
		"started_at_ms INTEGER NOT NULL, ended_at_ms INTEGER NOT NULL, timeout_ms INTEGER "
		"NOT NULL, duration_ms INTEGER NOT NULL, cold_start_ms INTEGER NOT NULL, cpu_ms "
		"INTEGER NOT NULL, memory_peak_bytes INTEGER NOT NULL, logs_dropped INTEGER NOT "
		"NULL, task_id BLOB NOT NULL, metadata BLOB NOT NULL, error BLOB NOT NULL, result "
		"BLOB NOT NULL, logs BLOB NOT NULL, tests BLOB NOT NULL) STRICT",
		NULL,
	},
	{
		/* Sandboxes of the warm pool, from before they are made until they are gone. */
		"ALTER TABLE run ADD COLUMN trust TEXT NOT NULL DEFAULT '';"
		"ALTER TABLE run ADD COLUMN sandbox TEXT NOT NULL DEFAULT '';"
		"ALTER TABLE run ADD COLUMN pooled INTEGER NOT NULL DEFAULT 0;"
		"UPDATE run SET sandbox = id;"
		"CREATE TABLE pool (id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID",
		NULL,
	},
	{
		"ALTER TABLE run ADD COLUMN truncated INTEGER NOT NULL DEFAULT 0",
		NULL,
	},
	{
		/* Those that may be removed, in that order, and all that is asked of them. */
		"CREATE INDEX run_over ON run (has_sandbox, ended_at_ms, number, bytes)",
		NULL,
	},
	{
		/* As struct key_fact has them. */
		"CREATE TABLE made_by_key (place TEXT NOT NULL, key BLOB NOT NULL, number INTEGER "
		"NOT NULL, body INTEGER NOT NULL, id TEXT NOT NULL, PRIMARY KEY (place, key)) "
		"STRICT, WITHOUT ROWID;"
		"CREATE INDEX made_by_key_number ON made_by_key (number)",
		NULL,
	},
};

static int read_number(struct sqlite3 *db, const char *sql, int64_t *ret, struct err *err)
{
	cleanup_statement sqlite3_stmt *query = NULL;

	if (sqlite3_prepare_v2(db, sql, -1, &query, NULL) != SQLITE_OK ||
	    sqlite3_step(query) != SQLITE_ROW)
		return store_error(err, db, "reading the schema");
	*ret = sqlite3_column_int64(query, 0);
	return 0;
}

int store_schema_check(struct sqlite3 *db, struct err *err)
{
	int64_t version = 0, objects = 0;
	int r;

	r = read_number(db, "SELECT count(*) FROM sqlite_schema", &objects, err);
	if (r == 0)
		r = read_number(db, "PRAGMA user_version", &version, err);
	if (r < 0)
		return r;
	if (version > (int64_t)array_len(migrations))
		return err_set(err, -EPROTO, ERR_CONFLICT,
			       "it was written by a newer Berth (schema %lld, this one knows %zu): "
			       "install that version again",
			       (long long)version, array_len(migrations));
	if (version < 0 || (version == 0 && objects > 0))
		return err_set(err, -EPROTO, ERR_CONFLICT,
			       "it is an SQLite database, but not one of Berth's");
	return 0;
}

static int migrate_one(struct sqlite3 *db, const struct migration *m, size_t version,
		       struct err *err)
{
	char set_version[64];

	if (sqlite3_exec(db, m->sql, NULL, NULL, NULL) != SQLITE_OK)
		return store_error(err, db, "changing the schema");
	if (m->fill) {
		int r = m->fill(db, err);

		if (r < 0)
			return r;
	}
	snprintf(set_version, sizeof(set_version), "PRAGMA user_version = %zu", version);
	if (sqlite3_exec(db, set_version, NULL, NULL, NULL) != SQLITE_OK ||
	    sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
		return store_error(err, db, "changing the schema");
	return 0;
}

int store_schema_migrate(struct sqlite3 *db, struct err *err)
{
	int64_t version = 0;
	int r;

	r = read_number(db, "PRAGMA user_version", &version, err);
	for (size_t i = (size_t)version; r == 0 && i < array_len(migrations); i++) {
		if (sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
			return store_error(err, db, "changing the schema");
		r = migrate_one(db, &migrations[i], i + 1, err);
		if (!sqlite3_get_autocommit(db))
			sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
		if (r < 0)
			return err_wrap(err, r, "to version %zu", i + 1);
	}
	return r;
}

int store_schema_read_instance(struct sqlite3 *db, char ret[STORE_INSTANCE_LEN + 1],
			       struct err *err)
{
	cleanup_statement sqlite3_stmt *query = NULL;
	const char *name = NULL;

	if (sqlite3_prepare_v2(db, "SELECT value FROM meta WHERE key = 'instance'", -1, &query,
			       NULL) != SQLITE_OK)
		return store_error(err, db, "reading the installation's name");
	if (sqlite3_step(query) == SQLITE_ROW)
		name = (const char *)sqlite3_column_text(query, 0);
	if (!name || strlen(name) != STORE_INSTANCE_LEN || strspn(name, base32) != strlen(name))
		return err_set(err, -EIO, ERR_INTERNAL,
			       "it is damaged (the installation's name is "
			       "missing): " STORE_DAMAGED_ADVICE);
	memcpy(ret, name, STORE_INSTANCE_LEN + 1);
	return 0;
}
