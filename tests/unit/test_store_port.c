#include "daemon/store_port.h"

#include "tests/unit/scratch.h"
#include "tests/unit/tap.h"

struct bed {
	uv_loop_t loop;
	struct store *store;
	unsigned done, aliases, ports, tombstones;
	int result;
	char first_grave[LABEL_SIZE], last_grave[LABEL_SIZE];
	struct port_fact last;
};

static void on_done(void *arg, int result, const struct err *err)
{
	struct bed *bed = arg;

	bed->result = result;
	bed->done++;
}

static void await(struct bed *bed, int r)
{
	unsigned before = bed->done;

	check(r == 0);
	while (r == 0 && bed->done == before)
		uv_run(&bed->loop, UV_RUN_ONCE);
}

static void on_row(void *arg, enum port_row row, const struct port_fact *fact)
{
	struct bed *bed = arg;

	if (row == PORT_ROW_ALIAS) {
		check(!bed->ports && !bed->tombstones);
		check_str(fact->alias, "abcdefghijklmnopqrstuvwxyz");
		bed->aliases++;
	} else if (row == PORT_ROW_PORT) {
		check(!bed->tombstones);
		bed->last = *fact;
		bed->ports++;
	} else {
		if (!bed->tombstones++)
			memcpy(bed->first_grave, fact->label, sizeof(bed->first_grave));
		memcpy(bed->last_grave, fact->label, sizeof(bed->last_grave));
	}
}

static void load(struct bed *bed)
{
	bed->aliases = bed->ports = bed->tombstones = 0;
	await(bed, store_port_load(bed->store, on_row, on_done, bed));
	check(bed->result == 0);
}

static struct sandbox_id id_of(const char *text)
{
	struct sandbox_id id = {{0}};

	snprintf(id.text, sizeof(id.text), "%s", text);
	return id;
}

static void make_sandbox(struct bed *bed, const char *id)
{
	struct sandbox_fact fact = {.id = id_of(id), .settings = STR("{}")};

	await(bed, store_sandbox_save(bed->store, &fact, STORE_SETTINGS, on_done, bed));
	check(bed->result == 0);
}

static int save(struct bed *bed, const char *id, uint16_t number, const char *label)
{
	struct port_fact fact = {.sandbox = id_of(id), .number = number, .created_at_ms = 5};

	snprintf(fact.label, sizeof(fact.label), "%s", label);
	snprintf(fact.name, sizeof(fact.name), "n");
	snprintf(fact.token, sizeof(fact.token), "t");
	if (id[0] == 'l')
		memcpy(fact.alias, "abcdefghijklmnopqrstuvwxyz", sizeof(fact.alias));
	await(bed, store_port_save(bed->store, &fact, on_done, bed));
	return bed->result;
}

static void test_facts(struct bed *bed)
{
	struct sandbox_id a = id_of("a");

	make_sandbox(bed, "a");
	make_sandbox(bed, "long");
	check(save(bed, "a", 80, "80-a-t") == 0);
	check(save(bed, "a", 9, "9-a-t") == 0);
	check(save(bed, "long", 1, "1-l-t") == 0);
	check(save(bed, "long", 2, "2-l-t") == 0);
	load(bed);
	check(bed->aliases == 1 && bed->ports == 4 && !bed->tombstones);
	check(bed->last.number == 2 && bed->last.created_at_ms == 5);
	check_str(bed->last.sandbox.text, "long");
	check_str(bed->last.label, "2-l-t");
	check_str(bed->last.name, "n");
	check_str(bed->last.token, "t");
	tap_ok("what is stored is read again");

	check(save(bed, "a", 80, "80-a") == 0);
	check(save(bed, "a", 81, "80-a") < 0);
	check(save(bed, "long", 3, "9-a-t") < 0);
	check(save(bed, "nobody", 3, "3-n") < 0);
	load(bed);
	check(bed->ports == 4);
	tap_ok("nobody gets a label that another has");

	await(bed, store_port_delete(bed->store, &a, 9, on_done, bed));
	load(bed);
	check(bed->result == 0 && bed->ports == 3 && !bed->tombstones);
	tap_ok("what is removed is not remembered");
}

static void test_graves(struct bed *bed)
{
	struct sandbox_id a = id_of("a"), l = id_of("long");

	await(bed, store_sandbox_delete(bed->store, &a, on_done, bed));
	await(bed, store_sandbox_delete(bed->store, &l, on_done, bed));
	load(bed);
	check(!bed->aliases && !bed->ports && bed->tombstones == 3);
	check_str(bed->first_grave, "80-a");
	check_str(bed->last_grave, "2-l-t");
	tap_ok("ports that go with their sandbox are");

	make_sandbox(bed, "a");
	check(save(bed, "a", 80, "80-a") == 0);
	load(bed);
	check(bed->ports == 1 && bed->tombstones == 2);
	check_str(bed->first_grave, "1-l-t");
	tap_ok("until another has their label");
}

int main(void)
{
	struct bed bed = {.done = 0};
	struct err err;

	scratch_make();
	check(uv_loop_init(&bed.loop) == 0);
	check(store_open(&bed.store, &bed.loop, scratch_path("state.db"), STORE_SYNC_NORMAL,
			 &err) == 0);
	test_facts(&bed);
	test_graves(&bed);
	store_close(bed.store);
	uv_run(&bed.loop, UV_RUN_DEFAULT);
	check(uv_loop_close(&bed.loop) == 0);
	tap_ok("all of it ends");
	return tap_done();
}
