#include "daemon/store_sandbox.h"

#include <stdlib.h>

#include "tests/unit/scratch.h"
#include "tests/unit/tap.h"

#define FACTS 40
#define SIZE  (1024 * 1024)

struct bed {
	uv_loop_t loop;
	struct store *store;
	unsigned stored, told, done;
};

static struct sandbox_id id_of(unsigned number)
{
	struct sandbox_id id = {{0}};

	snprintf(id.text, sizeof(id.text), "s%02u", number);
	return id;
}

static void on_stored(void *arg, int result, const struct err *err)
{
	struct bed *bed = arg;

	check(result == 0);
	bed->stored++;
}

static void save_all(struct bed *bed)
{
	char *text = malloc(SIZE);

	check(text != NULL);
	for (unsigned i = 0; text && i < FACTS; i++) {
		struct sandbox_fact fact = {.id = id_of(i),
					    .created_at_ms = i,
					    .generation = 1,
					    .settings = {text, SIZE}};

		memset(text, 'a' + (int)i % 26, SIZE);
		check(store_sandbox_save(bed->store, &fact, STORE_SETTINGS, on_stored, bed) == 0);
	}
	free(text);
	while (bed->stored < FACTS)
		uv_run(&bed->loop, UV_RUN_ONCE);
}

static void on_fact(void *arg, const struct sandbox_fact *fact)
{
	struct bed *bed = arg;
	struct sandbox_id expected = id_of(bed->told), last = id_of(FACTS - 1);

	check_str(fact->id.text, expected.text);
	check(fact->settings.len == SIZE && fact->created_at_ms == bed->told &&
	      fact->settings.at[0] == 'a' + (int)bed->told % 26 &&
	      fact->settings.at[SIZE - 1] == fact->settings.at[0]);
	/* If not all was read before the first was told, this one will never be. */
	if (bed->told++ == 0)
		check(store_sandbox_delete(bed->store, &last, on_stored, bed) == 0);
}

static void on_loaded(void *arg, int result, const struct err *err)
{
	struct bed *bed = arg;

	check(result == 0);
	bed->done++;
}

int main(void)
{
	struct bed bed = {.stored = 0};
	struct err err;

	scratch_make();
	check(uv_loop_init(&bed.loop) == 0);
	check(store_open(&bed.store, &bed.loop, scratch_path("state.db"), STORE_SYNC_NORMAL,
			 &err) == 0);
	save_all(&bed);
	check(store_sandbox_load(bed.store, on_fact, on_loaded, &bed) == 0);
	while (!bed.done)
		uv_run(&bed.loop, UV_RUN_ONCE);
	check(bed.told == FACTS - 1 && bed.done == 1);
	store_close(bed.store);
	uv_run(&bed.loop, UV_RUN_DEFAULT);
	check(uv_loop_close(&bed.loop) == 0);
	tap_ok("facts are read a part at a time, each once and in order");
	return tap_done();
}
