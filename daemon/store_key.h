/* What Idempotency-Keys have made, as operations of the store: see idempotency.h. */
#ifndef BERTH_DAEMON_STORE_KEY_H
#define BERTH_DAEMON_STORE_KEY_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/store.h"
#include "proto/sandbox_id.h"

#define STORE_KEY_MAX 128

struct key_fact {
	int64_t number; /* newer ones have greater ones */
	uint64_t body;  /* its sum */
	struct sandbox_id place, id;
	size_t len;
	char key[STORE_KEY_MAX];
};

/* In place of what that key has made there before; of all only the newest `kept` stay. */
int store_key_add(struct store *store, const struct key_fact *fact, int64_t kept);
/* All that have made this, there. */
int store_key_forget(struct store *store, const struct sandbox_id *place,
		     const struct sandbox_id *id);

typedef void store_key_each_fn(void *arg, const struct key_fact *fact);
/* The oldest first. `arg` is for both. -ENOMEM, -EBUSY: `done` is not called. */
int store_key_load(struct store *store, store_key_each_fn *each, store_done_fn *done, void *arg);

#endif
