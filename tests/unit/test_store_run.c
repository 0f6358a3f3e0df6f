#include "daemon/store_run.h"

#include <errno.h>
#include <stdio.h>

#include <sqlite3.h>

#include "base/cleanup.h"
#include "daemon/store_fact.h"
#include "tests/unit/scratch.h"
#include "tests/unit/tap.h"

struct bed {
	uv_loop_t loop;
	struct store *store;
	bool is_done;
	int result;
	unsigned rows, left, lost;
	uint64_t number;
	struct run_record last;
	char result_text[64], error_text[64], metadata_text[64];
};

static void on_done(void *arg, int result, const struct err *err)
{
	struct bed *bed = arg;

	bed->is_done = true;
	bed->result = result;
}

static int await(struct bed *bed, int r)
{
	bed->is_done = false;
	while (r == 0 && !bed->is_done)
		uv_run(&bed->loop, UV_RUN_ONCE);
	return r < 0 ? r : bed->result;
}

static void copy(char *ret, struct str s)
{
	snprintf(ret, 64, "%.*s", STR_ARGS(s));
}

static void on_row(void *arg, const struct run_record *record, uint64_t number)
{
	struct bed *bed = arg;

	bed->rows++;
	bed->number = number;
	bed->last = *record;
	copy(bed->result_text, record->result);
	copy(bed->error_text, record->error);
	copy(bed->metadata_text, record->metadata);
}

static void on_left(void *arg, const struct sandbox_id *id, bool is_lost)
{
	struct bed *bed = arg;

	bed->left++;
	bed->lost += is_lost;
}

static void read_rows(struct bed *bed, const struct store_run_query *query)
{
	bed->rows = 0;
	check(await(bed, store_run_read(bed->store, query, on_row, on_done, bed)) == 0);
}

static struct run_record record_of(unsigned number)
{
	struct run_record r = {.language = KERNEL_JAVASCRIPT,
			       .created_at_ms = 1000 + number,
			       .timeout_ms = 5,
			       .metrics = {-1, -1, -1, -1},
			       .task_id = STR("task"),
			       .metadata = STR("{\"a\":1}")};

	snprintf(r.id.text, sizeof(r.id.text), "run-%u", number);
	return r;
}

static void test_one(struct bed *bed)
{
	struct run_record r = record_of(1);
	struct store_run_query one = {.id = r.id};

	check(await(bed, store_run_add(bed->store, &r, on_done, bed)) == 0);
	check(await(bed, store_run_add(bed->store, &r, on_done, bed)) < 0);
	read_rows(bed, &one);
	check(bed->rows == 1 && bed->last.status == RUN_QUEUED && !bed->last.result.len);
	check_str(bed->metadata_text, "{\"a\":1}");
	r.status = RUN_COMPLETED;
	r.result = STR("42");
	r.metrics = (struct run_metrics){1, 2, 3, 4};
	r.ended_at_ms = 2000;
	check(await(bed, store_run_save(bed->store, &r, on_done, bed)) == 0);
	read_rows(bed, &one);
	check(bed->last.status == RUN_COMPLETED && bed->last.ended_at_ms == 2000);
	check(bed->last.metrics.cpu_ms == 3 && bed->last.language == KERNEL_JAVASCRIPT);
	check_str(bed->result_text, "42");
	check(!bed->last.is_truncated);
	r.error = STR("{}");
	check(await(bed, store_run_save_end(bed->store, &r, on_done, bed)) == 0);
	read_rows(bed, &one);
	check(bed->last.is_truncated && bed->last.status == RUN_COMPLETED);
	check(!bed->result_text[0] && bed->last.metrics.cpu_ms == 3);
	check_str(bed->error_text, "{}");
	check_str(bed->metadata_text, "{\"a\":1}");
	read_rows(bed, &(struct store_run_query){.id = {"run-none"}});
	check(!bed->rows);
	tap_ok("a record is read as it was stored");
}

static void test_lost(struct bed *bed)
{
	const struct store_run_lost lost = {9000, STR("{\"code\":\"lost\"}"), NULL, on_left};
	struct run_record r = record_of(2);

	check(await(bed, store_run_add(bed->store, &r, on_done, bed)) == 0);
	check(await(bed, store_run_lose(bed->store, &lost, on_done, bed)) == 0);
	check(bed->left == 2 && bed->lost == 1);
	bed->left = bed->lost = 0; /* once more before it is cleaned */
	check(await(bed, store_run_lose(bed->store, &lost, on_done, bed)) == 0);
	check(bed->left == 2 && bed->lost == 0);
	read_rows(bed, &(struct store_run_query){.id = r.id});
	check(bed->last.status == RUN_LOST && bed->last.ended_at_ms == 9000);
	check_str(bed->error_text, "{\"code\":\"lost\"}");
	check(await(bed, store_run_clean(bed->store, &r.id, on_done, bed)) == 0);
	bed->left = bed->lost = 0;
	check(await(bed, store_run_lose(bed->store, &lost, on_done, bed)) == 0);
	check(bed->left == 1 && bed->lost == 0);
	tap_ok("what was not over is lost, and its sandbox remembered until it is gone");
}

static void test_bounds(struct bed *bed)
{
	for (unsigned i = 3; i < RUNS_KEPT_MAX + 10; i++) {
		struct run_record r = record_of(i);

		r.status = i & 1 ? RUN_FAILED : RUN_COMPLETED;
		r.ended_at_ms = 10000 + i;
		store_run_add(bed->store, &r, NULL, NULL);
		check(await(bed, store_run_clean(bed->store, &r.id, on_done, bed)) == 0);
	}
	read_rows(bed, &(struct store_run_query){.id = {"run-9"}});
	check(bed->rows == 0);
	read_rows(bed, &(struct store_run_query){.id = {"run-10"}});
	check(bed->rows == 1);
	read_rows(bed, &(struct store_run_query){.id = {"run-1"}}); /* its sandbox may be there */
	check(bed->rows == 1);
	read_rows(bed, &(struct store_run_query){.status = -1, .limit = 5});
	check(bed->rows == 5 && bed->last.created_at_ms == 1000 + RUNS_KEPT_MAX + 5);
	read_rows(bed, &(struct store_run_query){.status = -1, .limit = 5, .before = bed->number});
	check(bed->rows == 5 && bed->last.created_at_ms == 1000 + RUNS_KEPT_MAX);
	read_rows(bed, &(struct store_run_query){.status = RUN_FAILED, .limit = 3});
	check(bed->rows == 3 && bed->last.status == RUN_FAILED);
	read_rows(bed, &(struct store_run_query){.status = -1, .limit = 5, .bytes = 1});
	check(bed->rows == 1);
	tap_ok("the oldest go, and lists have an order");
}

static bool is_kept(struct bed *bed, unsigned number)
{
	struct run_record r = record_of(number);

	read_rows(bed, &(struct store_run_query){.id = r.id});
	return bed->rows == 1;
}

/* One that was asked for before all others, and has just ended; and one whose end is not stored. */
static void test_late(struct bed *bed)
{
	struct run_record late = record_of(RUNS_KEPT_MAX + 10),
			  open = record_of(RUNS_KEPT_MAX + 11);

	check(await(bed, store_run_add(bed->store, &late, on_done, bed)) == 0);
	check(await(bed, store_run_add(bed->store, &open, on_done, bed)) == 0);
	check(await(bed, store_run_clean(bed->store, &open.id, on_done, bed)) == 0);
	for (unsigned i = RUNS_KEPT_MAX + 12; i < 2 * RUNS_KEPT_MAX + 100; i++) {
		struct run_record r = record_of(i);

		r.ended_at_ms = 10000 + i;
		store_run_add(bed->store, &r, NULL, NULL);
		store_run_clean(bed->store, &r.id, NULL, NULL);
	}
	late.ended_at_ms = 1000000;
	check(await(bed, store_run_save(bed->store, &late, on_done, bed)) == 0);
	check(await(bed, store_run_clean(bed->store, &late.id, on_done, bed)) == 0);
	check(is_kept(bed, RUNS_KEPT_MAX + 10) && is_kept(bed, RUNS_KEPT_MAX + 11));
	check(is_kept(bed, 2 * RUNS_KEPT_MAX + 99) && is_kept(bed, RUNS_KEPT_MAX + 101));
	check(!is_kept(bed, RUNS_KEPT_MAX + 100) && !is_kept(bed, RUNS_KEPT_MAX + 99));
	tap_ok("those that ended first go first");
}

static int work_grow(struct store_op *op, struct sqlite3 *db)
{
	char sql[128];

	snprintf(sql, sizeof(sql), "UPDATE run SET bytes = %d WHERE ended_at_ms > 999999",
		 RUNS_KEPT_BYTES / 8);
	return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : -EIO;
}

/* As if some were long: as many go as must. */
static void test_bytes(struct bed *bed)
{
	struct store_fact *grow;

	for (unsigned i = 3000; i < 3010; i++) {
		struct run_record r = record_of(i);

		r.ended_at_ms = 1000000 + i;
		store_run_add(bed->store, &r, NULL, NULL);
		store_run_clean(bed->store, &r.id, NULL, NULL);
	}
	grow = store_fact_new(sizeof(*grow), on_done, bed);
	check(await(bed, store_fact_submit(bed->store, grow, work_grow)) == 0);
	check(await(bed, store_run_clean(bed->store, &(struct sandbox_id){"run-3009"}, on_done,
					 bed)) == 0);
	for (unsigned i = 3000; i < 3010; i++)
		check(is_kept(bed, i) == (i >= 3002));
	check(!is_kept(bed, RUNS_KEPT_MAX + 10) && is_kept(bed, RUNS_KEPT_MAX + 11));
	tap_ok("so many bytes are kept");
}

int main(void)
{
	struct bed bed = {.rows = 0};
	struct err err;

	scratch_make();
	check(uv_loop_init(&bed.loop) == 0);
	check(store_open(&bed.store, &bed.loop, scratch_path("state.db"), STORE_SYNC_NORMAL,
			 &err) == 0);
	test_one(&bed);
	test_lost(&bed);
	test_bounds(&bed);
	test_late(&bed);
	test_bytes(&bed);
	store_close(bed.store);
	uv_run(&bed.loop, UV_RUN_DEFAULT);
	check(uv_loop_close(&bed.loop) == 0);
	tap_ok("all of it ends");
	return tap_done();
}
