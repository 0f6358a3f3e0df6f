/*
 * What a client's Idempotency-Key made, a sandbox, a process or a run: the same key gets the same
 * answer. The last IDEMPOTENCY_MAX keys are remembered, as long as berthd runs. A sandbox's keys
 * are its own: `place` names it; NULL for those that made sandboxes.
 */
#ifndef BERTH_DAEMON_IDEMPOTENCY_H
#define BERTH_DAEMON_IDEMPOTENCY_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "proto/sandbox_id.h"

#define IDEMPOTENCY_MAX     1024
#define IDEMPOTENCY_KEY_MAX 128

struct idempotency;

struct idempotency *idempotency_new(void);
void idempotency_free(struct idempotency *keys);

/* -EEXIST: it came with another body then, and is no repetition; 0: it is new; 1: `ret`. */
int idempotency_find(const struct idempotency *keys, const struct sandbox_id *place, struct str key,
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
