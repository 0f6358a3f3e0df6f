/*
 * The tables of the database, as a list of migrations: a database at version N has had the first N.
 * They are only ever added to; each runs in a transaction of its own together with the new version.
 */
#ifndef BERTH_DAEMON_STORE_SCHEMA_H
#define BERTH_DAEMON_STORE_SCHEMA_H

#include "base/err.h"

struct sqlite3;

#define STORE_INSTANCE_LEN 26

/* Refuses, before anything is written, a database of a newer Berth and one that is not Berth's. */
int store_schema_check(struct sqlite3 *db, struct err *err);
int store_schema_migrate(struct sqlite3 *db, struct err *err);

int store_schema_read_instance(struct sqlite3 *db, char ret[STORE_INSTANCE_LEN + 1],
			       struct err *err);

#endif
