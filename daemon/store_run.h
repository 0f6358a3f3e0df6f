/*
 * The records of runs, as operations of the store. One is stored before its sandbox is made, and
 * says until that is gone that there may be one: so whoever comes after a crash knows what is left
 * to be removed. Of those that are over the RUNS_KEPT_MAX that ended last are kept, within
 * RUNS_KEPT_BYTES.
 */
#ifndef BERTH_DAEMON_STORE_RUN_H
#define BERTH_DAEMON_STORE_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "daemon/store.h"
#include "proto/run_record.h"

#define RUNS_KEPT_MAX   1000
#define RUNS_KEPT_BYTES (64 * 1024 * 1024)
#define RUNS_LIST_MAX   200

/* Each: the record is copied; -EBUSY or -ENOMEM: `done`, which may be NULL, will not be called. */
int store_run_add(struct store *store, const struct run_record *record, store_done_fn *done,
		  void *arg);
/* All but what never changes. Its sandbox may still be there. */
int store_run_save(struct store *store, const struct run_record *record, store_done_fn *done,
		   void *arg);
/* The same without what is long, and saying so: an end that could not be stored as a whole. It may
 * use what is kept for when the disk is full. */
int store_run_save_end(struct store *store, const struct run_record *record, store_done_fn *done,
		       void *arg);
/* Its sandbox is gone, or was never made; what is too much goes, what ended first before others. */
int store_run_clean(struct store *store, const struct sandbox_id *id, store_done_fn *done,
		    void *arg);

/* A sandbox of the warm pool is about to be made; store_run_clean() says that it is gone. */
int store_run_pool(struct store *store, const struct sandbox_id *id, store_done_fn *done,
		   void *arg);

/*
 * Of an earlier berthd: all that were not over are lost, with this error (JSON text) and end. Then
 * `left` for each whose sandbox may be left, and for those of the pool.
 */
struct store_run_lost {
	int64_t ended_at_ms;
	struct str error;
	store_done_fn *marked; /* whether it is stored that they are */
	void (*left)(void *arg, const struct sandbox_id *id, bool is_lost);
};
int store_run_lose(struct store *store, const struct store_run_lost *lost, store_done_fn *done,
		   void *arg);

/* Lent for the call. */
typedef void store_run_each_fn(void *arg, const struct run_record *record, uint64_t number);

struct store_run_query {
	struct sandbox_id id; /* "": all, newest first, without their long parts */
	int status;           /* of a list: negative: any */
	uint64_t before;      /* of a list: only those with a smaller number; 0: all */
	unsigned limit;       /* of a list */
	size_t bytes;         /* of a list: none more when so many were read; 0: all the same */
};
int store_run_read(struct store *store, const struct store_run_query *query,
		   store_run_each_fn *each, store_done_fn *done, void *arg);

#endif
