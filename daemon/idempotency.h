/*
 * What a client's Idempotency-Key made, a sandbox, a process or a run: the same key gets the same
 * answer. The last IDEMPOTENCY_MAX keys are remembered, and stored. A sandbox's keys are its own:
 * `place` names it; NULL for those that made sandboxes.
 */
#ifndef BERTH_DAEMON_IDEMPOTENCY_H
#define BERTH_DAEMON_IDEMPOTENCY_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "daemon/store_key.h"
#include "proto/sandbox_id.h"

#define IDEMPOTENCY_MAX     1024
#define IDEMPOTENCY_KEY_MAX STORE_KEY_MAX

struct idempotency;

struct idempotency *idempotency_new(struct store *store);
void idempotency_free(struct idempotency *keys);
/* Those that are stored. -ENOMEM, -EBUSY: `done` is not called. */
int idempotency_load(struct idempotency *keys, store_done_fn *done, void *arg);

/* -EEXIST: it came with another body then, and is no repetition; 0: it is new; 1: `ret`. */
int idempotency_find(struct idempotency *keys, const struct sandbox_id *place, struct str key,
		     struct str body, struct sandbox_id *ret);
/* What is said to that. */
int idempotency_refuse(struct err *err);
/* Keys longer than IDEMPOTENCY_KEY_MAX are the caller's to refuse. The oldest gives way. */
void idempotency_add(struct idempotency *keys, const struct sandbox_id *place, struct str key,
		     struct str body, const struct sandbox_id *id);
/* That was not made after all, or is no more. */
void idempotency_forget(struct idempotency *keys, const struct sandbox_id *place,
			const struct sandbox_id *id);

#endif
