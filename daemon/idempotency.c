#include "daemon/idempotency.h"

#include <assert.h>
#include <stdlib.h>

struct made {
	char key[IDEMPOTENCY_KEY_MAX];
	size_t len; /* 0: empty */
	struct sandbox_id id;
};

struct idempotency {
	size_t next;
	struct made made[IDEMPOTENCY_MAX];
};

struct idempotency *idempotency_new(void)
{
	return calloc(1, sizeof(struct idempotency));
}

void idempotency_free(struct idempotency *keys)
{
	free(keys);
}

bool idempotency_find(const struct idempotency *keys, struct str key, struct sandbox_id *ret)
{
	for (size_t i = 0; i < IDEMPOTENCY_MAX; i++) {
		const struct made *m = &keys->made[i];

		if (m->len && str_eq((struct str){m->key, m->len}, key)) {
			*ret = m->id;
			return true;
		}
	}
	return false;
}

void idempotency_add(struct idempotency *keys, struct str key, const struct sandbox_id *id)
{
	struct made *m = &keys->made[keys->next++ % IDEMPOTENCY_MAX];

	assert(key.len <= IDEMPOTENCY_KEY_MAX);
	memcpy(m->key, key.at, key.len);
	m->len = key.len;
	m->id = *id;
}

void idempotency_forget(struct idempotency *keys, const struct sandbox_id *id)
{
	for (size_t i = 0; i < IDEMPOTENCY_MAX; i++) {
		if (strcmp(keys->made[i].id.text, id->text) == 0)
			keys->made[i].len = 0;
	}
}
