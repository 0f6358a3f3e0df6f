/* The durable facts of sandboxes, as operations of the store. */
#ifndef BERTH_DAEMON_STORE_SANDBOX_H
#define BERTH_DAEMON_STORE_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "daemon/store.h"
#include "proto/sandbox_id.h"

#define SLEPT_WORD_MAX     16
#define SANDBOX_ALIAS_SIZE 27 /* with its NUL */

/* Since when it sleeps, and of its last sleep what its receipt says. */
struct sleep_fact {
	int64_t since_ms; /* 0: it is awake, or nobody knows */
	int64_t at_ms;    /* 0: it never slept */
	uint64_t generation;
	char mode[SLEPT_WORD_MAX], why[SLEPT_WORD_MAX];
};

/* Why it could not be started, or died; code ERR_NONE: it has not since it last ran. */
struct sandbox_failure {
	struct err err;
	int64_t at_ms;
};

/* The last time that the kernel was seen to have killed in it for want of memory. */
struct sandbox_oom {
	int64_t at_ms;
	uint64_t kills; /* in that generation, up to then; 0: it was never seen */
	uint64_t generation;
};

struct sandbox_fact {
	struct sandbox_id id;
	int64_t created_at_ms;
	uint64_t generation;
	struct sleep_fact sleep;
	struct sandbox_failure failure;
	struct sandbox_oom oom;
	bool has_disk;       /* it has run, and what it wrote is kept */
	struct str settings; /* JSON */
};

/*
 * Makes the fact, or changes what is said of one that is there and leaves the rest; with a new
 * generation it does not sleep any more. The settings are copied. -EBUSY or -ENOMEM: `done` will
 * not be called.
 */
enum store_part { STORE_GENERATION, STORE_SETTINGS };
int store_sandbox_save(struct store *store, const struct sandbox_fact *fact, enum store_part part,
		       store_done_fn *done, void *arg);
/* Of one that is there; `done` may be NULL. */
int store_sandbox_save_sleep(struct store *store, const struct sandbox_id *id,
			     const struct sleep_fact *sleep, store_done_fn *done, void *arg);
int store_sandbox_save_failure(struct store *store, const struct sandbox_id *id,
			       const struct sandbox_failure *failure, store_done_fn *done,
			       void *arg);
int store_sandbox_save_oom(struct store *store, const struct sandbox_id *id,
			   const struct sandbox_oom *oom, store_done_fn *done, void *arg);
int store_sandbox_save_disk(struct store *store, const struct sandbox_id *id, store_done_fn *done,
			    void *arg);
int store_sandbox_delete(struct store *store, const struct sandbox_id *id, store_done_fn *done,
			 void *arg);

/*
 * All of them, once, at start: `each` is called on the loop for every fact, then `done`. Facts are
 * lent for the call.
 */
typedef void store_sandbox_each_fn(void *arg, const struct sandbox_fact *fact);
int store_sandbox_load(struct store *store, store_sandbox_each_fn *each, store_done_fn *done,
		       void *arg);

#endif
