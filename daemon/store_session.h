/* The durable facts of sessions, as operations of the store. */
#ifndef BERTH_DAEMON_STORE_SESSION_H
#define BERTH_DAEMON_STORE_SESSION_H

#include <stdint.h>

#include "daemon/store_sandbox.h"

struct session_fact {
	struct sandbox_id sandbox;
	struct str id, cwd, user, shell;
	struct str env; /* a frame list */
	int64_t created_at_ms;
	uint64_t generation, exec; /* of its shell, if there is one; else 0 */
};

/* A copy whose texts are the caller's to free, in one piece; NULL without memory. */
char *session_fact_copy(struct session_fact *ret, const struct session_fact *fact);

/* Makes or replaces it; it is copied. -EBUSY or -ENOMEM: `done` will not be called. */
int store_session_save(struct store *store, const struct session_fact *fact, store_done_fn *done,
		       void *arg);
int store_session_delete(struct store *store, const struct session_fact *fact, store_done_fn *done,
			 void *arg);

/* All of them, once: in the order in which they were made. Facts are lent for the call. */
typedef void store_session_each_fn(void *arg, const struct session_fact *fact);
int store_session_load(struct store *store, store_session_each_fn *each, store_done_fn *done,
		       void *arg);

#endif
