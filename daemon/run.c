#include "daemon/run.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/allowance.h"
#include "daemon/counts.h"
#include "daemon/config.h"
#include "daemon/pool.h"
#include "daemon/registry.h"
#include "daemon/run_state.h"
#include "daemon/store_run.h"

#define REQUEST_ARENA_MAX (4 * RUN_BODY_MAX)
#define MAX_LEAST         4

/* clang-format off */
static const bool allowed[RUN_PHASE_COUNT][RUN_PHASE_COUNT] = {
	[RUN_PHASE_STORING][RUN_PHASE_WAITING]     = true,
	[RUN_PHASE_STORING][RUN_PHASE_REMOVING]    = true,
	[RUN_PHASE_WAITING][RUN_PHASE_STARTING]    = true,
	[RUN_PHASE_WAITING][RUN_PHASE_REMOVING]    = true,
	[RUN_PHASE_STARTING][RUN_PHASE_CALLING]    = true,
	[RUN_PHASE_STARTING][RUN_PHASE_REMOVING]   = true,
	[RUN_PHASE_CALLING][RUN_PHASE_STARTING]    = true,
	[RUN_PHASE_CALLING][RUN_PHASE_MEASURING]   = true,
	[RUN_PHASE_MEASURING][RUN_PHASE_REMOVING]  = true,
	[RUN_PHASE_REMOVING][RUN_PHASE_OVER]       = true,
};
/* clang-format on */

static void start_next(struct runs *runs);
static void finish(struct run *run);

static void enter(struct run *run, enum run_phase phase)
{
	assert(allowed[run->phase][phase]);
	run->phase = phase;
}

static struct store *store_of(const struct run *run)
{
	return registry_store(run->runs->registry);
}

/* --- its life --- */

static void on_timer_closed(uv_handle_t *handle)
{
	struct run *run = handle->data;

	run_call_close(run);
	arena_close(&run->arena);
	free(run);
}

static void free_run(struct run *run)
{
	list_remove(&run->link);
	uv_close((uv_handle_t *)&run->timeout, on_timer_closed);
}

static void on_timeout(uv_timer_t *timer)
{
	struct run *run = timer->data;
	char sentence[128];
	int n = snprintf(sentence, sizeof(sentence),
			 "the code was still running after %llu ms, its timeout_ms",
			 (unsigned long long)run->request.timeout_ms);

	run_end_error(
		run, RUN_TIMED_OUT,
		&(struct run_error){.code = RUN_SANDBOX_TIMEOUT, .message = {sentence, (size_t)n}});
}

void run_began(struct run *run)
{
	run->has_begun = true;
	run->began_ns = uv_hrtime();
	run->record.started_at_ms = registry_now_ms();
	run->record.metrics.cold_start_ms = (int64_t)((run->began_ns - run->taken_ns) / 1000000);
	run->record.status = RUN_RUNNING;
	if (run->request.timeout_ms)
		uv_timer_start(&run->timeout, on_timeout, run->request.timeout_ms, 0);
	/* For lists. Should it not be stored, its end is. */
	store_run_save(store_of(run), &run->record, NULL, NULL);
}

/* --- the end --- */

static void tell(struct run *run)
{
	log_info("run=%s status=%s duration_ms=%lld cold_start_ms=%lld", run->record.id.text,
		 run_status_name(run->record.status), (long long)run->record.metrics.duration_ms,
		 (long long)run->record.metrics.cold_start_ms);
	while (!list_is_empty(&run->waits)) {
		struct run_wait *wait = list_entry(run->waits.next, struct run_wait, link);

		list_remove(&wait->link);
		wait->run = NULL;
		wait->ended(wait, &run->record);
	}
}

/* Nobody waits for the removal: what the code came to is stored, and what is left of its sandbox
 * is known to the store. */
static void told(struct run *run)
{
	run->is_told = true;
	registry_counts(run->runs->registry)->runs[run->record.status]++;
	tell(run);
}

void run_settle(struct run *run)
{
	struct runs *runs = run->runs;

	if (run->phase != RUN_PHASE_REMOVING || run->is_storing || runs->is_stopping)
		return;
	if (!run->is_told)
		told(run);
	if (run->is_removing || run->is_calling || run->is_settling)
		return;
	enter(run, RUN_PHASE_OVER);
	if (run->is_left)
		run_recover_left(runs, &run->record.sandbox);
	else if (run->record.is_pooled)
		store_run_clean(store_of(run), &run->record.sandbox, NULL, NULL);
	if (!run->is_left || run->record.is_pooled)
		store_run_clean(store_of(run), &run->record.id, NULL, NULL);
	if (run->record.is_pooled)
		pool_gone(runs->pool);
	if (run->is_active)
		runs->active_len--;
	free_run(run);
	start_next(runs);
}

static struct run_record short_record(struct run *run)
{
	struct run_record end = run->record;

	end.error = run_cut_error(run, RUN_END_ERROR_MAX, "more of it could not be stored");
	end.result = end.logs = end.tests = STR("");
	return end;
}

static void on_short_saved(void *arg, int result, const struct err *err)
{
	struct run *run = arg;
	struct run_record end = short_record(run);

	run->is_storing = false;
	if (result < 0 && !run->runs->is_stopping) {
		log_error("run=%s its end is not stored, that is tried again: %s",
			  run->record.id.text, err->sentence);
		run_unsaved_keep(run->runs, &end);
	}
	run_settle(run);
}

static void on_saved(void *arg, int result, const struct err *err)
{
	struct run *run = arg;
	struct run_record end;
	struct err why;
	int r;

	if (result == 0 || run->runs->is_stopping) {
		run->is_storing = false;
		run_settle(run);
		return;
	}
	log_error("run=%s its end is stored without its result, its logs and its tests: %s",
		  run->record.id.text, err->sentence);
	end = short_record(run);
	r = store_run_save_end(store_of(run), &end, on_short_saved, run);
	if (r < 0) {
		store_refuse(&why, r);
		on_short_saved(run, r, &why);
	}
}

static void save(struct run *run)
{
	struct err err;
	int r = store_run_save(store_of(run), &run->record, on_saved, run);

	run->is_storing = true;
	if (r < 0) {
		store_refuse(&err, r);
		on_saved(run, r, &err);
	}
}

static void note_left(struct run *run, const struct err *err)
{
	log_warn("run=%s its sandbox could not be removed, that is tried again: %s",
		 run->record.id.text, err->sentence);
	run->is_left = true;
	if (run->is_calling) /* the code may go on for long */
		context_abandon(&run->call);
	run->is_calling = false;
}

static void on_removed(struct sandbox_wait *wait, struct sandbox *sb, const struct err *err)
{
	struct run *run = container_of(wait, struct run, gone);

	if (err && !run->runs->is_stopping)
		note_left(run, err);
	run->is_removing = run->has_sandbox = false;
	run_settle(run);
}

/* The long parts of the record are made once, here. */
static void complete_record(struct run *run)
{
	struct run_record *r = &run->record;

	run_call_end_log(run);
	r->logs_dropped = run->log->dropped;
	if (run_log_write(run->log, &run->logs_text) == 0)
		r->logs = (struct str){buf_at(&run->logs_text), buf_len(&run->logs_text)};
	run_call_end_tests(run);
	r->tests = STR("");
	if (run_call_write_tests(run, &run->judged_text) == 0)
		r->tests = (struct str){buf_at(&run->judged_text), buf_len(&run->judged_text)};
}

static void remove_it(struct run *run)
{
	struct err err;
	int r;

	enter(run, RUN_PHASE_REMOVING);
	complete_record(run);
	run->is_removing = true; /* whoever is told of it meanwhile */
	save(run);
	r = run_sandbox_give_back(run, &err);
	run->is_removing = r == 0;
	if (r < 0)
		note_left(run, &err);
	run_settle(run);
}

static void measured(struct run *run)
{
	struct sandbox *sb = run_sandbox(run);
	const struct usage_figures *f = sb ? usage_figures(sb) : NULL;

	if (f && f->cpu_us >= 0)
		run->record.metrics.cpu_ms = f->cpu_us / 1000;
	else if (sb && sb->watch.used_us)
		run->record.metrics.cpu_ms = (int64_t)(sb->watch.used_us / 1000);
	if (f)
		run->record.metrics.memory_peak_bytes = f->memory_peak_bytes;
	remove_it(run);
}

static void on_measured(struct usage_wait *wait, const struct err *err)
{
	struct run *run = container_of(wait, struct run, measure);

	if (!run->runs->is_stopping)
		measured(run);
}

/* It counts from when it is asked for, or a burst of them would find room. */
static void stop_waiting(struct run *run)
{
	run->runs->waiting_len--;
	run->runs->waiting_bytes -= run->arena.used;
	list_move(&run->runs->others, &run->link);
}

/* From whatever phase it is in. */
static void finish(struct run *run)
{
	struct sandbox *sb;

	switch (run->phase) {
	case RUN_PHASE_STORING:
		break; /* when that is over */
	case RUN_PHASE_WAITING:
		stop_waiting(run);
		remove_it(run);
		break;
	case RUN_PHASE_STARTING:
		sandbox_cancel(&run->use);
		remove_it(run);
		break;
	case RUN_PHASE_CALLING:
		enter(run, RUN_PHASE_MEASURING);
		usage_cancel(&run->count);
		sb = run_sandbox(run);
		if (!sb || usage_measure(sb, &run->measure) != 0)
			measured(run);
		break;
	default:
		break;
	}
}

void run_end(struct run *run, enum run_status status, struct str error)
{
	if (run->is_ending)
		return;
	run->is_ending = true;
	uv_timer_stop(&run->timeout);
	run->record.status = status;
	run->record.error = error;
	run->record.ended_at_ms = registry_now_ms();
	if (run->has_begun)
		run->record.metrics.duration_ms =
			(int64_t)((uv_hrtime() - run->began_ns) / 1000000);
	finish(run);
}

void run_end_error(struct run *run, enum run_status status, const struct run_error *error)
{
	if (!run->is_ending)
		run_end(run, status, run_keep_error(run, error));
}

void run_cancel(struct run *run)
{
	run_end_error(
		run, RUN_CANCELLED,
		&(struct run_error){.code = "cancelled", .message = STR("the run was cancelled")});
}

/* --- the start --- */

static void fail_start(struct run *run, const struct err *err)
{
	run_end_error(run, RUN_FAILED,
		      &(struct run_error){
			      .code = err_code_name(err->code),
			      .message = {err->sentence, utf8_valid_len(str_of(err->sentence))}});
}

static void call(struct run *run)
{
	enter(run, RUN_PHASE_CALLING);
	run_call_begin(run);
}

void run_started(struct run *run, const struct err *err)
{
	if (run->runs->is_stopping)
		return;
	if (err)
		fail_start(run, err);
	else
		call(run);
}

static void on_running(struct sandbox_wait *wait, struct sandbox *sb, const struct err *err)
{
	run_started(container_of(wait, struct run, use), err);
}

static void start(struct run *run)
{
	struct runs *runs = run->runs;
	struct err err;
	int r;

	enter(run, RUN_PHASE_STARTING);
	stop_waiting(run);
	runs->active_len++;
	run->is_active = true;
	run->taken_ns = uv_hrtime();
	r = run_sandbox_take(run, &err);
	if (r < 0)
		fail_start(run, &err);
	else if (r == 1)
		call(run);
}

void run_again(struct run *run)
{
	struct err err;
	int r;

	enter(run, RUN_PHASE_STARTING);
	uv_timer_stop(&run->timeout);
	run->has_begun = false;
	run->record.status = RUN_QUEUED;
	run->record.started_at_ms = 0;
	r = run_sandbox_replace(run, &err);
	if (r != 0)
		run_started(run, r < 0 ? &err : NULL);
}

static void start_next(struct runs *runs)
{
	if (runs->is_starting) /* one that ended at once: whoever started it goes on */
		return;
	runs->is_starting = true;
	while (!runs->is_stopping && runs->active_len < runs->max && !list_is_empty(&runs->waiting))
		start(list_entry(runs->waiting.next, struct run, link));
	runs->is_starting = false;
}

static void on_added(void *arg, int result, const struct err *err)
{
	struct run *run = arg;
	struct runs *runs = run->runs;

	if (runs->is_stopping)
		return;
	list_for_each_safe (node, &run->waits) {
		struct run_wait *wait = list_entry(node, struct run_wait, link);

		if (result < 0) {
			list_remove(&wait->link);
			wait->run = NULL;
		}
		wait->stored(wait, result < 0 ? err : NULL);
	}
	if (result < 0) {
		stop_waiting(run);
		free_run(run);
	} else if (run->is_ending) {
		stop_waiting(run);
		remove_it(run);
	} else {
		enter(run, RUN_PHASE_WAITING);
		list_move(&runs->waiting, &run->link);
		start_next(runs);
	}
}

static struct run *run_new(struct runs *runs)
{
	struct run *run = calloc(1, sizeof(*run));

	if (!run || run_call_init(run) < 0) {
		free(run);
		return NULL;
	}
	run->runs = runs;
	list_init(&run->link);
	list_init(&run->waits);
	list_init(&run->use.link);
	list_init(&run->gone.link);
	list_init(&run->measure.link);
	list_init(&run->count.link);
	run->use.done = on_running;
	run->gone.done = on_removed;
	run->measure.done = on_measured;
	run->record.metrics = (struct run_metrics){-1, -1, -1, -1};
	arena_init(&run->arena, REQUEST_ARENA_MAX);
	uv_timer_init(registry_loop(runs->registry), &run->timeout);
	run->timeout.data = run;
	return run;
}

static int check_room(const struct runs *runs, struct err *err)
{
	if (runs->waiting_len < RUNS_WAITING_MAX && runs->waiting_bytes < RUNS_WAITING_BYTES)
		return 0;
	return err_set(err, -EBUSY, ERR_CAPACITY_EXCEEDED,
		       "%u runs are at work (max_runs) and %u wait: try again later",
		       runs->active_len, runs->waiting_len);
}

static int begin(struct run *run, struct str body, struct err *err)
{
	struct run_record *record = &run->record;
	struct run_request *q = &run->request;
	int r = run_request_parse(&run->arena, body, q, err);

	if (q->trust == TRUST_UNSAID)
		q->trust = registry_daemon(run->runs->registry)->run_trust;
	if (r == 0)
		r = run_settle_limits(run->runs, q->trust, &q->limits, err);
	if (r == 0)
		r = allowance_check(run->runs->registry, &q->limits, err);
	if (r < 0)
		return r;
	if (run_make_id(&record->id) < 0 || run_call_write_tests(run, &run->tests_text) < 0)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	record->sandbox = record->id;
	record->language = q->language;
	record->trust = q->trust;
	record->created_at_ms = registry_now_ms();
	record->timeout_ms = q->timeout_ms;
	record->task_id = q->task_id;
	record->metadata = q->metadata;
	record->tests = (struct str){buf_at(&run->tests_text), buf_len(&run->tests_text)};
	if (store_run_add(store_of(run), record, on_added, run) < 0)
		return err_set(err, -EBUSY, ERR_UNAVAILABLE, "too much is being stored: try again");
	return 0;
}

int run_submit(struct runs *runs, struct str body, struct run_wait *wait, bool *ret_is_async,
	       struct err *err)
{
	int r = check_room(runs, err);
	struct run *run = r == 0 ? run_new(runs) : NULL;

	if (r == 0 && !run)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	if (r == 0)
		r = begin(run, body, err);
	if (r < 0) {
		if (run)
			free_run(run);
		return r;
	}
	*ret_is_async = run->request.is_async;
	runs->waiting_len++;
	runs->waiting_bytes += run->arena.used;
	list_append(&runs->others, &run->link);
	run_join(run, wait);
	return 0;
}

/* --- all of them --- */

unsigned runs_max_of(unsigned wanted, unsigned cpus)
{
	if (wanted)
		return wanted;
	return 2 * cpus > MAX_LEAST ? 2 * cpus : MAX_LEAST;
}

struct runs *runs_new(struct registry *registry, unsigned max)
{
	struct runs *runs = calloc(1, sizeof(*runs));

	if (!runs)
		return NULL;
	runs->registry = registry;
	runs->max = max;
	list_init(&runs->waiting);
	list_init(&runs->others);
	list_init(&runs->leftovers);
	list_init(&runs->unsaved);
	runs->pool = pool_new(runs);
	if (runs->pool && run_recover(runs) == 0)
		return runs;
	if (runs->pool)
		pool_free(runs->pool);
	free(runs);
	return NULL;
}

void runs_set_max(struct runs *runs, unsigned max)
{
	runs->max = max;
	start_next(runs);
}

struct pool *runs_pool(const struct runs *runs)
{
	return runs->pool;
}

void runs_stop(struct runs *runs)
{
	runs->is_stopping = true;
}

void runs_free(struct runs *runs)
{
	list_for_each_safe (node, &runs->waiting)
		free_run(list_entry(node, struct run, link));
	list_for_each_safe (node, &runs->others)
		free_run(list_entry(node, struct run, link));
	run_recover_close(runs);
	run_unsaved_close(runs);
	pool_free(runs->pool);
	free(runs);
}

void runs_count(const struct runs *runs, unsigned *ret_waiting, unsigned *ret_active)
{
	*ret_waiting = runs->waiting_len;
	*ret_active = runs->active_len;
}
