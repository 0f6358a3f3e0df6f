#include "daemon/store_event.h"

#include "tests/unit/scratch.h"
#include "tests/unit/tap.h"

struct bed {
	uv_loop_t loop;
	struct store *store;
	bool is_done;
};

static struct bed bed;

static void open_store(void)
{
	struct err err;

	check(store_open(&bed.store, &bed.loop, scratch_path("state.db"), STORE_SYNC_NORMAL,
			 &err) == 0);
}

static void close_store(void)
{
	store_close(bed.store);
	uv_run(&bed.loop, UV_RUN_DEFAULT);
}

static void on_done(struct store_op *op)
{
	check(op->result == 0);
	bed.is_done = true;
}

static void wait_done(void)
{
	for (bed.is_done = false; !bed.is_done;)
		uv_run(&bed.loop, UV_RUN_ONCE);
}

static struct sandbox_id id_of(const char *text)
{
	struct sandbox_id id = {{0}};

	snprintf(id.text, sizeof(id.text), "%s", text);
	return id;
}

/* The number of the last one. */
static uint64_t save(const char *sandbox, unsigned count, bool is_prune_due)
{
	struct store_event_batch batch = {.op.done = on_done, .is_prune_due = is_prune_due};
	struct sandbox_id id = id_of(sandbox);
	uint64_t last = 0;

	list_init(&batch.events);
	for (unsigned i = 0; i < count; i++) {
		struct event *e = event_new(&id, "slept", STR("{\"type\":\"slept\"}"));

		check(e != NULL);
		list_append(&batch.events, &e->link);
	}
	check(store_event_save(bed.store, &batch) == 0);
	wait_done();
	list_for_each (node, &batch.events) {
		struct event *e = list_entry(node, struct event, link);

		check(e->id > last);
		last = e->id;
	}
	event_free_list(&batch.events);
	return last;
}

static unsigned read_after(struct store_event_read *read, const char *sandbox, uint64_t after)
{
	unsigned n = 0;

	*read = (struct store_event_read){
		.op.done = on_done, .sandbox = id_of(sandbox), .after = after};
	check(store_event_read(bed.store, read) == 0);
	wait_done();
	list_for_each (node, &read->events)
		n++;
	return n;
}

/* How many there are behind `after`, all of them. */
static unsigned count_after(const char *sandbox, uint64_t after)
{
	struct store_event_read read;
	unsigned all = 0;

	do {
		all += read_after(&read, sandbox, after);
		list_for_each (node, &read.events)
			after = list_entry(node, struct event, link)->id;
		event_free_list(&read.events);
	} while (read.has_more);
	return all;
}

static uint64_t pruned_after(const char *sandbox, uint64_t after)
{
	struct store_event_read read;

	read_after(&read, sandbox, after);
	event_free_list(&read.events);
	return read.pruned;
}

static void test_order(void)
{
	struct store_event_read read;

	check(read_after(&read, "", 0) == 0);
	check(read.last == 0 && read.pruned == 0 && !read.is_known);
	check(save("a", 3, true) == 3);
	check(save("b", 2, false) == 5);
	check(read_after(&read, "a", 1) == 2);
	check(read.last == 5 && read.is_known && !read.has_more);
	check(list_entry(read.events.next, struct event, link)->id == 2);
	check_str(list_entry(read.events.next, struct event, link)->type, "slept");
	event_free_list(&read.events);
	check(read_after(&read, "nobody", 0) == 0);
	check(!read.is_known && read.last == 5);
	tap_ok("events are numbered in order, and read by number and sandbox");
}

/* One that is noisy pushes out only its own. */
static void test_share(void)
{
	save("noisy", EVENTS_OF_ONE_MAX + 10, false);
	check(count_after("noisy", 0) == EVENTS_OF_ONE_MAX + 10);
	check(pruned_after("noisy", 0) == 0);
	save("noisy", 1, true);
	check(count_after("noisy", 0) == EVENTS_OF_ONE_MAX);
	check(count_after("a", 0) == 3 && count_after("b", 0) == 2);
	/* 6 to 16 are gone: whoever has seen 16 misses nothing, nor does who asks for another. */
	check(pruned_after("noisy", 0) == 16 && pruned_after("noisy", 15) == 16);
	check(pruned_after("noisy", 16) == 0 && pruned_after("a", 0) == 0);
	check(pruned_after("", 15) == 16 && pruned_after("", 16) == 0);
	tap_ok("a noisy sandbox pushes out only its own, and that is told");
}

static void test_all(void)
{
	char name[16];
	uint64_t last = 0;

	for (unsigned i = 0; i <= EVENTS_MAX / 100; i++) {
		snprintf(name, sizeof(name), "s%u", i);
		last = save(name, 100, i == EVENTS_MAX / 100);
	}
	check(count_after("", 0) == EVENTS_MAX);
	check(pruned_after("", 0) == last - EVENTS_MAX);
	check(pruned_after("a", 0) == last - EVENTS_MAX);
	check(pruned_after("", last - EVENTS_MAX) == 0);
	check(count_after("a", 0) == 0);
	tap_ok("the newest of all are kept");
}

static void test_numbers_go_on(void)
{
	struct store_event_read read;

	check(read_after(&read, "", INT64_MAX) == 0);
	close_store();
	open_store();
	check(save("a", 1, false) == read.last + 1);
	tap_ok("numbers go on when the database is opened again");
}

int main(void)
{
	scratch_make();
	check(uv_loop_init(&bed.loop) == 0);
	open_store();
	test_order();
	test_share();
	test_all();
	test_numbers_go_on();
	close_store();
	check(uv_loop_close(&bed.loop) == 0);
	return tap_done();
}
