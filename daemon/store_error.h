/* SQLite's errors in our terms; for the files of the store. */
#ifndef BERTH_DAEMON_STORE_ERROR_H
#define BERTH_DAEMON_STORE_ERROR_H

#include "base/err.h"

struct sqlite3;

/* The advice behind "it is damaged", for a sentence that names the file. */
#define STORE_DAMAGED_ADVICE                                                                       \
	"while berthd is stopped, move it and its -wal away, then start again; the sandboxes' "    \
	"settings are lost with it, their disks stay"

/* The last error on `db`, as "<intent>: <sentence>", and the errno to return; see store_fail(). */
int store_error(struct err *err, struct sqlite3 *db, const char *intent);

#endif
