#include "daemon/idempotency.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* `body` is its sum: a client that errs is told so, one that means harm harms itself. */
struct idempotency {
	struct store *store;
	int64_t last;
	struct key_fact made[IDEMPOTENCY_MAX]; /* by number; one of length 0 is empty */
	store_done_fn *loaded;
	void *loaded_arg;
};

struct idempotency *idempotency_new(struct store *store)
{
	struct idempotency *keys = calloc(1, sizeof(*keys));

	if (keys)
		keys->store = store;
	return keys;
}

void idempotency_free(struct idempotency *keys)
{
	free(keys);
}

static struct key_fact *place_of(struct idempotency *keys, int64_t number)
{
	return &keys->made[(uint64_t)number % IDEMPOTENCY_MAX];
}

static void on_fact(void *arg, const struct key_fact *fact)
{
	struct idempotency *keys = arg;

	keys->last = fact->number;
	*place_of(keys, fact->number) = *fact;
}

static void on_loaded(void *arg, int result, const struct err *err)
{
	struct idempotency *keys = arg;

	keys->loaded(keys->loaded_arg, result, err);
}

int idempotency_load(struct idempotency *keys, store_done_fn *done, void *arg)
{
	keys->loaded = done;
	keys->loaded_arg = arg;
	return store_key_load(keys->store, on_fact, on_loaded, keys);
}

/* FNV-1a. */
static uint64_t sum_of(struct str body)
{
	uint64_t sum = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < body.len; i++)
		sum = (sum ^ (unsigned char)body.at[i]) * UINT64_C(0x100000001b3);
	return sum;
}

static struct sandbox_id place_named(const struct sandbox_id *place)
{
	return place ? *place : (struct sandbox_id){{0}};
}

static bool is_of(const struct key_fact *m, const struct sandbox_id *place)
{
	return m->len && strcmp(m->place.text, place ? place->text : "") == 0;
}

static struct key_fact *find(struct idempotency *keys, const struct sandbox_id *place,
			     struct str key)
{
	for (size_t i = 0; i < IDEMPOTENCY_MAX; i++) {
		struct key_fact *m = &keys->made[i];

		if (is_of(m, place) && str_eq((struct str){m->key, m->len}, key))
			return m;
	}
	return NULL;
}

int idempotency_find(struct idempotency *keys, const struct sandbox_id *place, struct str key,
		     struct str body, struct sandbox_id *ret)
{
	const struct key_fact *m = find(keys, place, key);

	if (!m)
		return 0;
	*ret = m->id;
	return m->body == sum_of(body) ? 1 : -EEXIST;
}

int idempotency_refuse(struct err *err)
{
	return err_set(err, -EEXIST, ERR_CONFLICT,
		       "the Idempotency-Key came with another body before: take a new one");
}

/* If it cannot be stored, it is remembered as long as we run. */
void idempotency_add(struct idempotency *keys, const struct sandbox_id *place, struct str key,
		     struct str body, const struct sandbox_id *id)
{
	struct key_fact *m = find(keys, place, key);

	assert(key.len <= IDEMPOTENCY_KEY_MAX);
	if (m)
		m->len = 0;
	m = place_of(keys, ++keys->last);
	*m = (struct key_fact){.number = keys->last,
			       .body = sum_of(body),
			       .place = place_named(place),
			       .id = *id,
			       .len = key.len};
	memcpy(m->key, key.at, key.len);
	store_key_add(keys->store, m, IDEMPOTENCY_MAX);
}

void idempotency_forget(struct idempotency *keys, const struct sandbox_id *place,
			const struct sandbox_id *id)
{
	struct sandbox_id named = place_named(place);
	bool is_found = false;

	for (size_t i = 0; i < IDEMPOTENCY_MAX; i++) {
		if (!is_of(&keys->made[i], place) || strcmp(keys->made[i].id.text, id->text) != 0)
			continue;
		keys->made[i].len = 0;
		is_found = true;
	}
	if (is_found)
		store_key_forget(keys->store, &named, id);
}
