/*
 * One operation of the store about facts: what store_sandbox.c, store_process.c and store_session.c
 * share. Theirs begin with a struct store_fact and hold copies of all that their work needs.
 *
 *	store_fact_new ── store_fact_submit ──> `work` on the store's thread ──> `done`, and freed
 */
#ifndef BERTH_DAEMON_STORE_FACT_H
#define BERTH_DAEMON_STORE_FACT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "daemon/store.h"

struct sqlite3_stmt;
struct store_fact;

/* How facts are read, all of them, once; some at a time, however many there are. */
struct store_fact_load {
	const char *sql;  /* ?1: how many were read before; their order is always the same */
	const char *what; /* "the sandboxes" */
	/* On the store's thread: appends the row to `rows`. */
	int (*keep)(struct buf *rows, struct sqlite3_stmt *row);
	/* On the loop: hands out the first of them, which may lie at any address; its size. */
	size_t (*give)(struct store_fact *o, const char *row);
};

struct store_fact {
	struct store_op op;
	store_done_fn *done; /* NULL: nobody waits for it */
	void *arg;
	const struct store_fact_load *load;
	struct store *store; /* of a load, as what follows */
	struct buf rows;
	int64_t told;
	bool has_more;
};

/* `size` bytes, the operation with what is behind it: zeroed. NULL without memory. */
void *store_fact_new(size_t size, store_done_fn *done, void *arg);
/* It belongs to the store from here on. -ENOMEM if it is NULL, -EBUSY: `done` is not called. */
int store_fact_submit(struct store *store, struct store_fact *o,
		      int (*work)(struct store_op *op, struct sqlite3 *db));
/* `done` when all that was submitted before is on disk, or has failed; -ENOMEM, -EBUSY: never. */
int store_fact_await(struct store *store, store_done_fn *done, void *arg);
int store_fact_load(struct store *store, struct store_fact *o, const struct store_fact_load *load);

void store_finalize_p(struct sqlite3_stmt **statement);
#define cleanup_statement cleanup(store_finalize_p)

#endif
