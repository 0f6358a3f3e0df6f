#include "daemon/store_error.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include <sqlite3.h>

/* The errno of the last failed write to the database or to its log. */
static int write_errno(struct sqlite3 *db, int which)
{
	sqlite3_file *file = NULL;
	int error = 0;

	if (sqlite3_file_control(db, "main", which, &file) == SQLITE_OK && file && file->pMethods)
		file->pMethods->xFileControl(file, SQLITE_FCNTL_LAST_ERRNO, &error);
	return error;
}

static bool is_no_room(int error)
{
	return error == ENOSPC || error == EDQUOT || error == EFBIG;
}

/*
 * SQLite says "full" for ENOSPC only; a quota or a file size limit is the same to a person. Its
 * sqlite3_system_errno() may tell of a later, harmless call: the files remember better.
 */
static bool is_full(struct sqlite3 *db)
{
	int code = sqlite3_extended_errcode(db);

	if (code == SQLITE_IOERR_WRITE)
		return is_no_room(write_errno(db, SQLITE_FCNTL_JOURNAL_POINTER)) ||
		       is_no_room(write_errno(db, SQLITE_FCNTL_FILE_POINTER));
	return (code & 0xff) == SQLITE_FULL || code == SQLITE_IOERR_SHMSIZE ||
	       ((code & 0xff) == SQLITE_IOERR && is_no_room(sqlite3_system_errno(db)));
}

int store_error(struct err *err, struct sqlite3 *db, const char *intent)
{
	int code = sqlite3_extended_errcode(db) & 0xff;

	if (is_full(db))
		return err_set(err, -ENOSPC, ERR_DISK_LIMIT,
			       "%s: there is no room left for the database", intent);
	if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
		return err_set(err, -EBUSY, ERR_UNAVAILABLE,
			       "%s: another program holds a lock on the database", intent);
	if (code == SQLITE_NOMEM)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "%s: out of memory", intent);
	if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
		return err_set(err, -EIO, ERR_INTERNAL,
			       "%s: the database is damaged (%s): " STORE_DAMAGED_ADVICE, intent,
			       sqlite3_errmsg(db));
	return err_set(err, -EIO, ERR_INTERNAL, "%s: %s", intent, sqlite3_errmsg(db));
}
