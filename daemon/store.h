/*
 * Durable facts in one SQLite database, on a thread of its own. The loop hands over operations;
 * each runs `work` on the store's thread, inside a transaction, and then `done` on the loop. A fact
 * is announced only from `done`, when it is on disk.
 *
 *	loop ── store_submit ──> queue ──> store thread: BEGIN work COMMIT ──> loop: done
 *
 * Operations run in the order in which they were submitted. A failed one is rolled back and leaves
 * the others alone. `work` touches only its own operation and the database.
 */
#ifndef BERTH_DAEMON_STORE_H
#define BERTH_DAEMON_STORE_H

#include <stdbool.h>

#include <uv.h>

#include "base/err.h"
#include "base/list.h"

struct sqlite3;
struct store;

/* How an operation went: 0, or a negative errno with its sentence. */
typedef void store_done_fn(void *arg, int result, const struct err *err);

#define STORE_QUEUE_MAX 65536 /* operations waiting; more are refused with -EBUSY */

struct store_op {
	struct list link;
	/* Returns 0, or a negative errno with `err` filled in (store_fail() does both). */
	int (*work)(struct store_op *op, struct sqlite3 *db);
	void (*done)(struct store_op *op); /* op->result and op->err say how it went */
	bool is_vital; /* it may use what is kept for when the disk is full; see reserve.h */
	int result;
	struct err err;
};

enum store_sync { STORE_SYNC_NORMAL, STORE_SYNC_FULL };

/*
 * Opens or makes the database and brings its schema up to date (blocking: call it at start). A
 * database of a newer Berth, a damaged one, a locked one and a full disk are each said in `err`.
 */
int store_open(struct store **ret, uv_loop_t *loop, const char *path, enum store_sync sync,
	       struct err *err);

/*
 * Waits for what was submitted (their `done` are called), then closes and frees; the loop must turn
 * once more, as after any uv_close().
 */
void store_close(struct store *store);

/* 0, or -EBUSY when the queue is full: then `done` is not called. */
int store_submit(struct store *store, struct store_op *op);

/* Why something could not be submitted, in a sentence: -EBUSY, -ENOMEM, or -ESHUTDOWN. */
const char *store_refusal(int error);
/* The same as an error of a client's request; returns `error`. */
int store_refuse(struct err *err, int error);

/*
 * For `work`: turns SQLite's last error on `db` into op->err and the errno to return: -ENOSPC and
 * ERR_DISK_LIMIT (full), -EBUSY and ERR_UNAVAILABLE (locked by another program), -EIO.
 */
int store_fail(struct store_op *op, struct sqlite3 *db, const char *intent);

/* Operations that were submitted and are not done. */
unsigned store_queue_len(const struct store *store);

/* This installation's name, made with the database: 26 characters of base32. */
const char *store_instance(const struct store *store);

#endif
