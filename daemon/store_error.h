/* SQLite's errors in our terms; for the files of the store. */
#ifndef BERTH_DAEMON_STORE_ERROR_H
#define BERTH_DAEMON_STORE_ERROR_H

#include "base/err.h"

struct sqlite3;

/* The last error on `db`, as "<intent>: <sentence>", and the errno to return; see store_fail(). */
int store_error(struct err *err, struct sqlite3 *db, const char *intent);

#endif
