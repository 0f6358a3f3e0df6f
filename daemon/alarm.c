#include "daemon/alarm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/alarm_state.h"
#include "daemon/events.h"
#include "daemon/exec.h"
#include "daemon/handle_sandbox.h"
#include "daemon/registry.h"
#include "daemon/sandbox_expiry.h"
#include "daemon/sandbox_sleep.h"
#include "proto/time_text.h"

/* --- memory --- */

static void on_retry_closed(uv_handle_t *handle)
{
	struct alarm *a = container_of((uv_timer_t *)handle, struct alarm, retry);

	free((char *)a->asked.argv.at);
	free(a);
}

static void release(struct alarm *a)
{
	if (--a->holders == 0)
		uv_close((uv_handle_t *)&a->retry, on_retry_closed);
}

int alarm_copy_request(struct alarm_request *ret, const struct alarm_request *request)
{
	char *argv = malloc(request->argv.len + 1);

	if (!argv)
		return -ENOMEM;
	memcpy(argv, request->argv.at, request->argv.len);
	*ret = *request;
	ret->argv.at = argv;
	return 0;
}

static struct wallclock *clock_of(const struct alarm *a)
{
	return registry_clock(a->sb->registry);
}

void alarm_leave(struct alarm *a)
{
	wallclock_clear(clock_of(a), &a->timer);
	uv_timer_stop(&a->retry);
	list_remove(&a->link);
	a->sb->alarms_len--;
	a->sb = NULL;
	if (a->is_busy && !a->exec) {
		a->is_busy = false;
		sandbox_cancel(&a->wait);
		release(a);
	}
	release(a);
}

/* --- finding --- */

struct alarm *alarm_next(const struct sandbox *sb, const struct alarm *alarm)
{
	struct list *next = alarm ? alarm->link.next : sb->alarms.next;

	return next == &sb->alarms ? NULL : list_entry(next, struct alarm, link);
}

struct alarm *alarm_find(const struct sandbox *sb, const struct sandbox_id *name)
{
	for (struct alarm *a = NULL; (a = alarm_next(sb, a));) {
		if (strcmp(a->name.text, name->text) == 0)
			return a;
	}
	return NULL;
}

bool alarm_is_pending(const struct sandbox *sb)
{
	for (struct alarm *a = NULL; (a = alarm_next(sb, a));) {
		if (a->state.next_at_ms || a->is_busy)
			return true;
	}
	return false;
}

int64_t alarm_first_ms(const struct sandbox *sb)
{
	int64_t first = 0;

	for (struct alarm *a = NULL; (a = alarm_next(sb, a));) {
		int64_t at = a->stored.next_at_ms;

		if (at && (!first || at < first))
			first = at;
	}
	return first;
}

/* --- storing --- */

struct save {
	struct alarm *a;
	unsigned changes;
	struct alarm_state state;
};

static void on_saved(void *arg, int result, const struct err *err)
{
	struct save *save = arg;
	struct alarm *a = save->a;

	if (result < 0)
		log_error("alarm=%s its run is not stored: %s", a->name.text, err->sentence);
	else if (save->changes == a->changes)
		a->stored = save->state;
	free(save);
	release(a);
}

/* If that cannot be, the next berthd runs it again: that is what "at least once" means. */
static void save_state(struct alarm *a)
{
	struct alarm_fact fact = {
		.sandbox = a->sb->id, .name = a->name, .asked = a->asked, .state = a->state};
	struct save *save = calloc(1, sizeof(*save));

	fact.asked.argv = (struct str){"", 0};
	if (save) {
		*save = (struct save){a, a->changes, a->state};
		a->holders++;
	}
	if (!save ||
	    store_alarm_save_state(registry_store(a->sb->registry), &fact, on_saved, save) < 0) {
		log_error("sandbox=%s alarm=%s its run is not stored: too much is being stored",
			  a->sb->id.text, a->name.text);
		if (save)
			release(a);
		free(save);
	}
}

/* --- running --- */

static void begin(struct alarm *a);

/* What is next? */
static void step(struct alarm *a)
{
	if (!a->sb || a->is_busy || a->sb->alarms_changing || !a->state.next_at_ms ||
	    uv_is_active((uv_handle_t *)&a->retry) || !registry_is_ready(a->sb->registry) ||
	    registry_is_stopping(a->sb->registry))
		return;
	if (a->state.next_at_ms > registry_now_ms())
		wallclock_set(clock_of(a), &a->timer, a->state.next_at_ms);
	else
		begin(a);
}

/* How often it was due until `now` besides the first time. */
static uint64_t times_since(const struct alarm *a, int64_t now)
{
	int64_t past = now - a->state.next_at_ms;

	return a->asked.every_ms && past > 0 ? (uint64_t)past / a->asked.every_ms : 0;
}

static int64_t time_after(const struct alarm *a, int64_t now)
{
	return a->state.next_at_ms + (int64_t)((times_since(a, now) + 1) * a->asked.every_ms);
}

/* Its command is due again while it runs: it goes on, also if it was frozen meanwhile. */
static void watch_run(struct alarm *a)
{
	if (a->asked.every_ms)
		wallclock_set(clock_of(a), &a->timer, time_after(a, registry_now_ms()));
}

static void on_due(struct wall_timer *timer)
{
	struct alarm *a = container_of(timer, struct alarm, timer);

	if (!a->is_busy) {
		step(a);
		return;
	}
	if (registry_is_stopping(a->sb->registry))
		return;
	sandbox_wake(a->sb);
	watch_run(a);
}

static void on_retry(uv_timer_t *timer)
{
	step(container_of(timer, struct alarm, retry));
}

/* It is nobody's, or another's: true. The caller still holds it. */
static bool is_over(struct alarm *a)
{
	a->is_busy = false;
	if (!a->sb || registry_is_stopping(a->sb->registry))
		return true;
	wallclock_clear(clock_of(a), &a->timer);
	if (a->begun == a->changes)
		return false;
	step(a);
	return true;
}

static uint64_t retry_ms(uint64_t attempts)
{
	uint64_t ms = ALARM_RETRY_MS;

	while (--attempts > 0 && ms < ALARM_RETRY_MAX_MS)
		ms *= 2;
	return ms < ALARM_RETRY_MAX_MS ? ms : ALARM_RETRY_MAX_MS;
}

/* How it went, for those who follow what happens to its sandbox. */
static void write_outcome(struct json_writer *w, const void *arg)
{
	const struct alarm *a = arg;
	const struct alarm_run *run = &a->state.run;

	json_key(w, "alarm");
	json_text(w, a->name.text);
	time_text_write(w, "due_at", run->due_at_ms);
	json_key(w, "attempts");
	json_int(w, (int64_t)run->attempts);
	if (run->ended_at_ms) {
		json_key(w, "reason");
		json_text(w, exec_reason_name((enum exec_reason)run->reason));
		json_key(w, "exit_code");
		json_int(w, run->exit_code);
	} else {
		json_key(w, "message");
		json_str(w, (struct str){run->error, utf8_valid_len(str_of(run->error))});
	}
}

static void fail(struct alarm *a, const char *why)
{
	struct alarm_run *run = &a->state.run;

	if (!is_over(a)) {
		log_warn("sandbox=%s alarm=%s attempt=%llu failed: %s", a->sb->id.text,
			 a->name.text, (unsigned long long)run->attempts, why);
		snprintf(run->error, sizeof(run->error), "%s", why);
		run->skipped = times_since(a, registry_now_ms());
		save_state(a);
		event_add(a->sb, "alarm_failed", write_outcome, a);
		uv_timer_start(&a->retry, on_retry, retry_ms(run->attempts), 0);
	}
	release(a);
}

static void on_output(void *arg, bool is_stderr, struct str bytes)
{
}

static void on_ended(void *arg, const struct exec_end *end)
{
	struct alarm *a = arg;
	struct alarm_run *run = &a->state.run;

	a->exec = NULL;
	if (end->reason == EXEC_LOST) {
		fail(a, end->message[0] ? end->message : "nobody knows how it ended");
		return;
	}
	if (!is_over(a)) {
		log_info("sandbox=%s alarm=%s ended reason=%s exit_code=%d", a->sb->id.text,
			 a->name.text, exec_reason_name(end->reason), end->exit_code);
		run->ended_at_ms = registry_now_ms();
		run->reason = (int)end->reason;
		run->exit_code = end->exit_code;
		snprintf(run->error, sizeof(run->error), "%s", end->message);
		run->skipped = times_since(a, run->ended_at_ms);
		a->state.next_at_ms = a->asked.every_ms ? time_after(a, run->ended_at_ms) : 0;
		save_state(a);
		event_add(a->sb, "alarm", write_outcome, a);
		sandbox_expiry_arm(a->sb);
		step(a);
	}
	release(a);
}

static const struct exec_ops exec_ops = {.output = on_output, .ended = on_ended};

/* Its name and the time at which it was due go to the command. */
static int describe(struct alarm *a, struct arena *arena, struct exec_request *ret, struct err *err)
{
	char due[TIME_TEXT_SIZE] = "";
	char *env;

	time_text_format(a->state.run.due_at_ms, due);
	env = arena_printf(arena, "BERTH_ALARM=%s%cBERTH_ALARM_DUE=%s", a->name.text, '\0', due);
	if (!env)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	*ret = (struct exec_request){
		.argv = a->asked.argv,
		.env = {env, sizeof("BERTH_ALARM=") + strlen(a->name.text) +
				     sizeof("BERTH_ALARM_DUE=") + strlen(due)},
		.cwd = STR("/workspace"),
		.user = STR(""),
		.stdin_bytes = STR(""),
		.timeout_ms = a->asked.timeout_ms,
	};
	return handle_env(arena, a->sb, ret, err);
}

static void launch(struct alarm *a)
{
	struct exec_request request;
	struct arena arena;
	struct err err;

	arena_init(&arena, 4 * AGENT_ARGS_MAX);
	if (describe(a, &arena, &request, &err) == 0)
		a->exec = exec_new(a->sb, &request, &exec_ops, a, &err);
	arena_close(&arena);
	if (a->exec) {
		a->state.run.started_at_ms = registry_now_ms();
		a->state.run.error[0] = '\0';
		save_state(a);
		watch_run(a);
	} else if (!sandbox_use_again(a->sb, &a->wait)) {
		fail(a, err.sentence);
	}
}

static void on_running(struct sandbox_wait *wait, struct sandbox *sb, const struct err *err)
{
	struct alarm *a = container_of(wait, struct alarm, wait);

	if (err) {
		fail(a, err->sentence);
	} else if (a->begun != a->changes) {
		is_over(a);
		release(a);
	} else {
		launch(a);
	}
}

static void begin(struct alarm *a)
{
	struct alarm_run *run = &a->state.run;
	struct err err;
	int r;

	a->is_busy = true;
	a->holders++;
	a->begun = a->changes;
	if (run->due_at_ms != a->state.next_at_ms)
		*run = (struct alarm_run){.due_at_ms = a->state.next_at_ms};
	run->started_at_ms = run->ended_at_ms = 0;
	run->reason = run->exit_code = -1;
	run->attempts++;
	a->wait = (struct sandbox_wait){.done = on_running};
	list_init(&a->wait.link);
	r = sandbox_use(a->sb, &a->wait, &err);
	if (r < 0)
		fail(a, err.sentence);
	else if (r > 0)
		launch(a);
}

/* --- life --- */

struct alarm *alarm_new(struct sandbox *sb, const struct sandbox_id *name)
{
	struct alarm *a = calloc(1, sizeof(*a)), *behind = NULL;

	if (!a)
		return NULL;
	a->sb = sb;
	a->holders = 1; /* the sandbox */
	a->name = *name;
	a->timer.due = on_due;
	uv_timer_init(registry_loop(sb->registry), &a->retry);
	while ((behind = alarm_next(sb, behind)) && strcmp(behind->name.text, name->text) < 0)
		;
	list_append(behind ? &behind->link : &sb->alarms, &a->link);
	sb->alarms_len++;
	return a;
}

void alarm_become(struct alarm *a, struct alarm_request *request, const struct alarm_state *state)
{
	free((char *)a->asked.argv.at);
	a->asked = *request;
	request->argv = (struct str){NULL, 0};
	a->state = a->stored = *state;
	uv_timer_stop(&a->retry);
	wallclock_clear(clock_of(a), &a->timer);
}

void alarm_load(struct sandbox *sb, const struct alarm_fact *fact)
{
	struct alarm_request asked;
	struct alarm *a;

	if (alarm_copy_request(&asked, &fact->asked) < 0)
		return;
	a = alarm_new(sb, &fact->name);
	if (a)
		alarm_become(a, &asked, &fact->state);
	else
		free((char *)asked.argv.at);
}

void alarm_begin_all(struct sandbox *sb)
{
	for (struct alarm *a = NULL; (a = alarm_next(sb, a));)
		step(a);
}

void alarm_free_all(struct sandbox *sb)
{
	while (!list_is_empty(&sb->alarms))
		alarm_leave(list_entry(sb->alarms.next, struct alarm, link));
}
