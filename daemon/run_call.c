/*
 * What is done with a run's kernel: its code is loaded, and then called once, or once for each of
 * its tests. What the kernel says is the word of the code: it can only harm its own run. Verdicts
 * are made by run_judge.c, of what came back; what was expected never leaves berthd.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "daemon/registry.h"
#include "daemon/run_state.h"

#define REPORT_SIZE 32 /* what each counts for, however small it is */
/* What is kept is counted by said_bytes; the arena's blocks are never quite full. */
#define SAID_MAX (2 * RUN_VALUES_MAX)

static void on_began(struct context_call *call);
static void on_output(struct context_call *call, bool is_stderr, struct str bytes);
/* Of its own streams it tells what belongs between its messages. */
static void take_log(struct run *run, const struct kernel_log *log)
{
	bool is_stderr = str_eq(log->level, STR("stderr"));

	if (is_stderr || str_eq(log->level, STR("stdout")))
		run_log_output(run->log, is_stderr, log->message, registry_now_ms());
	else
		run_log_add(run->log, log->level, log->message, registry_now_ms());
}

static void on_report(struct context_call *call, const struct kernel_report *report);
static void on_ended(struct context_call *call, const struct context_end *end);

static const struct context_call_ops call_ops = {
	.began = on_began,
	.output = on_output,
	.report = on_report,
	.ended = on_ended,
};

int run_call_init(struct run *run)
{
	run->log = run_log_new();
	arena_init(&run->said, SAID_MAX);
	buf_init(&run->logs_text, RUN_LOG_MAX + 2);
	buf_init(&run->tests_text, JSON_TEXT_MAX);
	buf_init(&run->judged_text, JSON_TEXT_MAX);
	buf_init(&run->value_text, RUN_VALUES_MAX);
	buf_init(&run->error_text, RUN_ERROR_MAX);
	buf_init(&run->end_text, RUN_ERROR_MAX);
	return run->log ? 0 : -ENOMEM;
}

void run_call_close(struct run *run)
{
	buf_close(&run->end_text);
	buf_close(&run->error_text);
	buf_close(&run->value_text);
	buf_close(&run->judged_text);
	buf_close(&run->tests_text);
	buf_close(&run->logs_text);
	run_judge_leave(run);
	run_log_release(run->log);
	arena_close(&run->said);
}

static struct str write_error(struct buf *ret, const struct run_error *error)
{
	buf_close(ret);
	if (run_error_write(error, ret) == 0)
		return (struct str){buf_at(ret), buf_len(ret)};
	return STR("{\"code\":\"internal\",\"message\":\"out of memory\"}");
}

struct str run_keep_error(struct run *run, const struct run_error *error)
{
	return write_error(&run->end_text, error);
}

/* --- what it says --- */

static void tell_said(struct run *run)
{
	list_for_each_safe (node, &run->waits) {
		struct run_wait *wait = list_entry(node, struct run_wait, link);

		if (wait->said)
			wait->said(wait);
	}
}

void run_call_end_log(struct run *run)
{
	run_log_flush(run->log, run->record.ended_at_ms);
	tell_said(run);
}

struct run_log *run_hold_log(const struct run *run)
{
	return run_log_hold(run->log);
}

static void end_output(struct run *run, uint64_t max)
{
	char sentence[160];
	int n = snprintf(sentence, sizeof(sentence),
			 "the code has said more than %llu bytes, its limits.output_bytes, with "
			 "all it prints, logs, shows and returns",
			 (unsigned long long)max);

	run_end_error(run, RUN_FAILED,
		      &(struct run_error){.code = RUN_SANDBOX_OUTPUT_LIMIT,
					  .message = {sentence, (size_t)n}});
}

static void end_values(struct run *run)
{
	char sentence[160];
	int n = snprintf(sentence, sizeof(sentence), "the code has returned more than %d bytes%s",
			 RUN_VALUES_MAX,
			 run->request.tests_len
				 ? ", all values and errors of its tests, the last value twice"
				 : "");

	run_end_error(run, RUN_FAILED,
		      &(struct run_error){.code = RUN_SANDBOX_OUTPUT_LIMIT,
					  .message = {sentence, (size_t)n}});
}

/* False: that was too much. What comes in many small pieces is work for us, too. */
static bool count_output(struct run *run, size_t len)
{
	uint64_t max = run->request.limits.output_bytes;

	run->output_bytes += len;
	if (run->output_bytes > max)
		end_output(run, max);
	return !run->is_ending;
}

static void on_output(struct context_call *call, bool is_stderr, struct str bytes)
{
	struct run *run = container_of(call, struct run, call);

	if (run->is_ending)
		return;
	run_log_output(run->log, is_stderr, bytes, registry_now_ms());
	tell_said(run);
	count_output(run, bytes.len);
}

static bool has_word(struct str text, const char *const *words)
{
	for (; *words; words++) {
		if (memmem(text.at, text.len, *words, strlen(*words)))
			return true;
	}
	return false;
}

/* Code of bash runs in a process of its own, whose death its kernel tells as a status. */
static bool is_shell_killed(const struct run *run, const struct kernel_error *e)
{
	const struct sandbox *sb = run_sandbox(run);

	return run->request.language == KERNEL_BASH && str_eq(e->message, STR("exit status 137")) &&
	       sb && sandbox_oom_kills(sb) > 0;
}

static const char *code_of(const struct kernel_error *e)
{
	if (str_eq(e->blocked, STR("network")))
		return RUN_SANDBOX_NETWORK_BLOCKED;
	return e->is_too_long ? RUN_SANDBOX_OUTPUT_LIMIT : RUN_CODE_ERROR;
}

static void take_error(struct run *run, const struct kernel_error *e)
{
	/* ENOSPC and EDQUOT, as Python and Node tell them. */
	static const char *const full[] = {"ENOSPC", "EDQUOT", "No space left on device",
					   "Disk quota exceeded", NULL};
	struct run_error error = {
		.code = code_of(e),
		.name = e->name,
		.message = e->message,
		.traceback = &e->traceback,
		.file = e->file,
		.line = e->line,
		.column = e->column,
	};
	char greedy[RUN_GREEDY_MAX];

	if (is_shell_killed(run, e)) {
		run_write_greedy(run, greedy);
		error = (struct run_error){.code = RUN_SANDBOX_MEMORY_LIMIT,
					   .message = str_of(greedy)};
	}
	run->error = write_error(&run->error_text, &error);
	run->is_disk_suspect = has_word(e->message, full);
}

static void take_value(struct run *run, struct str value)
{
	size_t size = run->request.tests_len ? 2 * value.len : value.len;

	buf_close(&run->value_text);
	run->value = STR("");
	if (run->said_bytes + size > RUN_VALUES_MAX || buf_append_str(&run->value_text, value) < 0)
		end_values(run);
	else
		run->value = (struct str){buf_at(&run->value_text), buf_len(&run->value_text)};
}

static void on_report(struct context_call *call, const struct kernel_report *report)
{
	struct run *run = container_of(call, struct run, call);

	/* All of it, also of what no record has: berthd had to read it. */
	if (run->is_ending || !count_output(run, REPORT_SIZE + report->size))
		return;
	switch (report->kind) {
	case KERNEL_CHECKED:
		run->is_checked = true;
		break;
	case KERNEL_LOG:
		take_log(run, &report->log);
		tell_said(run);
		break;
	case KERNEL_VALUE:
		take_value(run, report->value);
		break;
	case KERNEL_ERROR:
		take_error(run, &report->error);
		break;
	default: /* what is shown of values is nothing for a run */
		break;
	}
}

/* --- calls --- */

static void fail_call(struct run *run, const struct err *err)
{
	run_end_error(run, RUN_FAILED,
		      &(struct run_error){.code = err_code_name(err->code),
					  .message = str_of(err->sentence)});
}

static void enter(struct run *run, const struct kernel_order *order)
{
	struct sandbox *sb = run_sandbox(run);
	const struct context_end *spent = sb ? context_spent(run->context) : NULL;
	struct err err;

	if (spent) { /* it died after the last call, unseen by us */
		run_end_kernel(run, spent);
		return;
	}
	if (!sb || sb->state == SANDBOX_COLD || sandbox_is_leaving(sb)) {
		run_end_error(
			run, RUN_CANCELLED,
			&(struct run_error){.code = "cancelled", .message = STR(RUN_STOPPED)});
		return;
	}
	run->value = run->error = STR("");
	run->is_disk_suspect = false;
	run->call = (struct context_call){.ops = &call_ops, .order = *order};
	list_init(&run->call.link);
	run->is_calling = true;
	if (context_enter(run->context, &run->call, &err) == 0)
		return;
	run->is_calling = false;
	fail_call(run, &err);
}

static void invoke(struct run *run)
{
	const struct run_request *q = &run->request;
	struct kernel_order order = {
		.kind = KERNEL_INVOKE, .input = q->input, .request = q->request};

	if (q->tests_len)
		order.input = q->tests[run->test].input_given ? q->tests[run->test].input : STR("");
	enter(run, &order);
}

static void load(struct run *run)
{
	const struct run_request *q = &run->request;

	enter(run, &(struct kernel_order){.kind = KERNEL_LOAD,
					  .code = q->code,
					  .env = q->env,
					  .env_given = q->env_given});
}

static int make_verdicts(struct run *run)
{
	const struct run_request *q = &run->request;

	if (!q->tests_len)
		return 0;
	run->verdicts = arena_zalloc(&run->arena, q->tests_len * sizeof(*run->verdicts));
	return run->verdicts ? 0 : -ENOMEM;
}

void run_call_begin(struct run *run)
{
	struct context_settings settings = {.language = run->request.language, .is_quiet = true};
	struct sandbox *sb = run_sandbox(run);
	struct err err;

	if (!sb || make_verdicts(run) < 0) {
		err_set(&err, -ENOMEM, ERR_INTERNAL, "out of memory");
		fail_call(run, &err);
		return;
	}
	/* Warm, if it is the pool's. */
	run->context = context_quiet(sb, settings.language);
	if (!run->context)
		run->context = context_new(sb, &settings, &err);
	if (run->context)
		load(run);
	else
		fail_call(run, &err);
}

static void on_began(struct context_call *call)
{
	struct run *run = container_of(call, struct run, call);

	if (!run->has_begun && !run->is_ending)
		run_began(run);
}

/* --- verdicts --- */

struct str run_cut_error(struct run *run, size_t max, const char *message)
{
	static const size_t before = sizeof("{\"code\":\"") - 1;
	struct str error = run->record.error;
	const char *end;
	char *text;

	if (error.len <= max)
		return error;
	end = memchr(error.at + before, '"', error.len - before);
	text = arena_printf(&run->arena, "%.*s\",\"message\":\"%s\"}", (int)(end - error.at),
			    error.at, message);
	return str_of(text ? text : "");
}

void run_call_end_tests(struct run *run)
{
	/* A long one is told once, by the run: there may be a thousand tests. */
	struct str error = run_cut_error(run, RUN_TEST_ERROR_MAX,
					 "the run ended before this test did: its error says why");

	for (size_t i = run->test; run->verdicts && i < run->request.tests_len; i++) {
		bool is_judged = run->verdicts[i].actual.len && (i != run->test || !run->judging);

		if (!run->verdicts[i].passed && !run->verdicts[i].error.len && !is_judged)
			run->verdicts[i].error = error;
	}
	run_judge_leave(run);
}

int run_call_write_tests(const struct run *run, struct buf *out)
{
	cleanup(json_writer_close) struct json_writer w;
	const struct run_request *q = &run->request;

	json_writer_init(&w, false);
	json_array(&w);
	for (size_t i = 0; i < q->tests_len; i++) {
		struct run_verdict v = {0};

		if (run->verdicts)
			v = run->verdicts[i];
		v.input = q->tests[i].input;
		v.expected = q->tests[i].expected;
		run_verdict_write(&v, &w);
	}
	json_array_end(&w);
	return json_writer_end(&w, out);
}

/* --- ends --- */

void run_judged(struct run *run)
{
	if (++run->test < run->request.tests_len)
		invoke(run);
	else
		run_end(run, RUN_COMPLETED, STR(""));
}

/* The call went as the code would have it: what comes next? */
static void go_on(struct run *run)
{
	bool is_load = run->call.order.kind == KERNEL_LOAD;
	bool has_tests = run->request.tests_len;
	int r;

	if (run->error.len && (is_load || !has_tests)) {
		run_end(run, RUN_FAILED, run->error);
		return;
	}
	if (is_load) {
		invoke(run);
		return;
	}
	if (!has_tests) {
		run->record.result = run->value;
		run_end(run, RUN_COMPLETED, STR(""));
		return;
	}
	if (run->test + 1 == run->request.tests_len)
		uv_timer_stop(&run->timeout); /* the code has done all that it was asked for */
	r = run_judge(run);
	if (r < 0)
		end_values(run);
	else if (r == 1)
		run_judged(run);
}

/* What the code says of its disk is true if that is full, or if nobody can know. */
static bool is_disk_full(const struct run *run)
{
	struct sandbox *sb = run_sandbox(run);
	const struct usage_disk *disk = sb ? &sb->usage.disk : NULL;
	const struct settings_limits *limits = &run->request.limits;

	if (!disk || !disk->at_ms)
		return true;
	return disk->bytes >= (int64_t)(limits->disk_bytes / 10 * 9) ||
	       disk->files >= (int64_t)(limits->inodes / 10 * 9);
}

/* The same error under its other name. */
static void name_disk(struct run *run)
{
	static const char from[] = "{\"code\":\"" RUN_CODE_ERROR "\"";
	static const char to[] = "{\"code\":\"" RUN_SANDBOX_DISK_LIMIT "\"";
	struct buf text;

	if (!str_starts_with(run->error, STR(from)))
		return;
	buf_init(&text, RUN_ERROR_MAX);
	if (buf_append(&text, to, sizeof(to) - 1) < 0 ||
	    buf_append(&text, run->error.at + sizeof(from) - 1,
		       run->error.len - (sizeof(from) - 1)) < 0) {
		buf_close(&text);
		return;
	}
	buf_close(&run->error_text);
	run->error_text = text;
	run->error = (struct str){buf_at(&text), buf_len(&text)};
}

static void on_counted(struct usage_wait *wait, const struct err *err)
{
	struct run *run = container_of(wait, struct run, count);

	if (run->runs->is_stopping || run->is_ending)
		return;
	if (err || is_disk_full(run))
		name_disk(run);
	go_on(run);
}

static void on_completed(struct run *run, bool is_error)
{
	struct sandbox *sb = run_sandbox(run);

	if (is_error && !run->error.len)
		run->error =
			write_error(&run->error_text,
				    &(struct run_error){.code = RUN_CODE_ERROR,
							.message = STR("the code has failed")});
	run->count.done = on_counted;
	if (is_error && run->is_disk_suspect && sb) {
		if (usage_count_disk(sb, &run->count) == 0)
			return;
		if (is_disk_full(run))
			name_disk(run);
	}
	if (!is_error)
		run->error = STR("");
	go_on(run);
}

/* It died unseen when it was taken from the pool: neither did its code run, nor has anybody ended
 * it for a reason that counts for the run. */
static bool is_untouched(const struct run *run, const struct context_end *end)
{
	bool has_died = end->reason == CONTEXT_EXITED || end->reason == CONTEXT_LOST ||
			end->reason == CONTEXT_NOT_STARTED;

	return has_died && run->record.is_pooled && !run->is_checked && !run->output_bytes;
}

static void on_ended(struct context_call *call, const struct context_end *end)
{
	struct run *run = container_of(call, struct run, call);

	run->is_calling = false;
	if (run->runs->is_stopping)
		return;
	if (run->is_ending) {
		run_settle(run);
		return;
	}
	/* Nobody interrupts a run that is not ending but its own code: that is its error. */
	if (end->reason == CONTEXT_COMPLETED || end->reason == CONTEXT_INTERRUPTED) {
		on_completed(run, end->is_error || end->reason == CONTEXT_INTERRUPTED);
		return;
	}
	if (is_untouched(run, end))
		run_again(run);
	else
		run_end_kernel(run, end);
}
