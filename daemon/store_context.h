/* The durable facts of contexts, as operations of the store. */
#ifndef BERTH_DAEMON_STORE_CONTEXT_H
#define BERTH_DAEMON_STORE_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/store_sandbox.h"

struct context_fact {
	struct sandbox_id sandbox;
	struct str id, language, cwd, user;
	struct str env; /* a frame list */
	bool is_default;
	int64_t created_at_ms;
	uint64_t generation, exec; /* of its kernel, if there is one; else 0 */
};

/* A copy whose texts are the caller's to free, in one piece; NULL without memory. */
char *context_fact_copy(struct context_fact *ret, const struct context_fact *fact);

/* Makes or replaces it; it is copied. -EBUSY or -ENOMEM: `done` will not be called. */
int store_context_save(struct store *store, const struct context_fact *fact, store_done_fn *done,
		       void *arg);
int store_context_delete(struct store *store, const struct context_fact *fact, store_done_fn *done,
			 void *arg);

/* All of them, once: in the order in which they were made. Facts are lent for the call. */
typedef void store_context_each_fn(void *arg, const struct context_fact *fact);
int store_context_load(struct store *store, store_context_each_fn *each, store_done_fn *done,
		       void *arg);

#endif
