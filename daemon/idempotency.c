#include "daemon/idempotency.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct made {
	char key[IDEMPOTENCY_KEY_MAX];
	size_t len; /* 0: empty */
	uint64_t
		body; /* its sum: a client that errs is told so, one that means harm harms itself */
	struct sandbox_id place, id; /* no place: `id` is a sandbox */
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

/* FNV-1a. */
static uint64_t sum_of(struct str body)
{
	uint64_t sum = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < body.len; i++)
		sum = (sum ^ (unsigned char)body.at[i]) * UINT64_C(0x100000001b3);
	return sum;
}

static bool is_of(const struct made *m, const struct sandbox_id *place)
{
	return m->len && strcmp(m->place.text, place ? place->text : "") == 0;
}

int idempotency_find(const struct idempotency *keys, const struct sandbox_id *place, struct str key,
		     struct str body, struct sandbox_id *ret)
{
	for (size_t i = 0; i < IDEMPOTENCY_MAX; i++) {
		const struct made *m = &keys->made[i];

		if (is_of(m, place) && str_eq((struct str){m->key, m->len}, key)) {
			*ret = m->id;
			return m->body == sum_of(body) ? 1 : -EEXIST;
		}
	}
	return 0;
}

int idempotency_refuse(struct err *err)
{
	return err_set(err, -EEXIST, ERR_CONFLICT,
		       "the Idempotency-Key came with another body before: take a new one");
}

void idempotency_add(struct idempotency *keys, const struct sandbox_id *place, struct str key,
		     struct str body, const struct sandbox_id *id)
{
	struct made *m = &keys->made[keys->next++ % IDEMPOTENCY_MAX];

	assert(key.len <= IDEMPOTENCY_KEY_MAX);
	memcpy(m->key, key.at, key.len);
	m->len = key.len;
	m->body = sum_of(body);
	m->place = place ? *place : (struct sandbox_id){{0}};
	m->id = *id;
}

void idempotency_forget(struct idempotency *keys, const struct sandbox_id *place,
			const struct sandbox_id *id)
{
	for (size_t i = 0; i < IDEMPOTENCY_MAX; i++) {
		if (is_of(&keys->made[i], place) && strcmp(keys->made[i].id.text, id->text) == 0)
			keys->made[i].len = 0;
	}
}
