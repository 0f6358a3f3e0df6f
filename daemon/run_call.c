/*
 * What is done with a run's kernel: its code is loaded, and then called once, or once for each of
 * its tests. What the kernel says is the word of the code: it can only harm its own run. Verdicts
 * are made here, of what came back; what was expected never leaves berthd.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "daemon/registry.h"
#include "daemon/run_state.h"
#include "proto/json_equal.h"

#define REPORT_SIZE 32                             /* what each counts for, however small it is */
#define SAID_MAX    (RUN_VALUES_MAX + 1024 * 1024) /* of values, and errors beside them */

#define ALLOWED_MAX 48

static const char stopped[] = "its sandbox was stopped or deleted meanwhile";
static const char memory_sentence[] = "the code needed more memory than limits.memory allows";

static void on_began(struct context_call *call);
static void on_output(struct context_call *call, bool is_stderr, struct str bytes);
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
	return run->log ? 0 : -ENOMEM;
}

void run_call_close(struct run *run)
{
	buf_close(&run->tests_text);
	buf_close(&run->logs_text);
	run_log_release(run->log);
	arena_close(&run->said);
}

static struct str keep(struct run *run, struct str text)
{
	char *copy = arena_strndup(&run->said, text.at, text.len);

	return copy ? (struct str){copy, text.len} : STR("");
}

struct str run_keep_error(struct run *run, const struct run_error *error)
{
	struct str kept = STR("");
	struct buf text;

	buf_init(&text, 8 * RUN_ERROR_TEXT_MAX + 16 * RUN_ERROR_NAME_MAX);
	if (run_error_write(error, &text) == 0)
		kept = keep(run, (struct str){buf_at(&text), buf_len(&text)});
	buf_close(&text);
	return kept.len ? kept : STR("{\"code\":\"internal\",\"message\":\"out of memory\"}");
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

static void end_output(struct run *run, struct str sentence)
{
	run_end_error(run, RUN_FAILED,
		      &(struct run_error){.code = RUN_SANDBOX_OUTPUT_LIMIT, .message = sentence});
}

static void end_said(struct run *run, uint64_t max)
{
	char sentence[160];

	snprintf(sentence, sizeof(sentence),
		 "the code has said more than %llu bytes, its limits.output_bytes, with all it "
		 "prints, logs and returns",
		 (unsigned long long)max);
	end_output(run, str_of(sentence));
}

static void end_values(struct run *run)
{
	char sentence[160];

	snprintf(sentence, sizeof(sentence),
		 "the results of the code have more than %d bytes together, the most that a run "
		 "can return",
		 RUN_VALUES_MAX);
	end_output(run, str_of(sentence));
}

/* False: that was too much. What comes in many small pieces is work for us, too. */
static bool count_output(struct run *run, size_t len)
{
	uint64_t max = run->request.limits.output_bytes;

	run->output_bytes += len;
	if (run->output_bytes > max)
		end_said(run, max);
	return !run->is_ending;
}

static void on_output(struct context_call *call, bool is_stderr, struct str bytes)
{
	static const char heap[] = "heap out of memory";
	struct run *run = container_of(call, struct run, call);

	if (run->is_ending)
		return;
	run_log_output(run->log, is_stderr, bytes, registry_now_ms());
	tell_said(run);
	/* The last words of V8: it has its own limit, which it takes from the sandbox's. */
	if (is_stderr && memmem(bytes.at, bytes.len, heap, sizeof(heap) - 1))
		run->is_heap_full = true;
	count_output(run, bytes.len);
}

/* How much it was: "" or a part of a sentence. */
static void write_allowed(const struct run *run, char ret[ALLOWED_MAX])
{
	uint64_t max = run->request.limits.memory_bytes;

	ret[0] = '\0';
	if (max)
		snprintf(ret, ALLOWED_MAX, ", %llu bytes", (unsigned long long)max);
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
	/* What a kernel says of a value that no line could hold. */
	static const char *const too_long[] = {"bytes are more than can be told",
					       "bytes of JSON, and may have", NULL};

	if (str_eq(e->blocked, STR("network")))
		return RUN_SANDBOX_NETWORK_BLOCKED;
	return has_word(e->message, too_long) ? RUN_SANDBOX_OUTPUT_LIMIT : RUN_CODE_ERROR;
}

static void take_error(struct run *run, const struct kernel_error *e)
{
	/* ENOSPC and EDQUOT, as Python and Node tell them. */
	static const char *const full[] = {"ENOSPC", "EDQUOT", "No space left on device",
					   "Disk quota exceeded", NULL};
	char allowed[ALLOWED_MAX], sentence[sizeof(memory_sentence) + ALLOWED_MAX];
	struct run_error error = {
		.code = code_of(e),
		.name = e->name,
		.message = e->message,
		.traceback = &e->traceback,
		.file = e->file,
		.line = e->line,
		.column = e->column,
	};

	if (is_shell_killed(run, e)) {
		write_allowed(run, allowed);
		snprintf(sentence, sizeof(sentence), "%s%s", memory_sentence, allowed);
		error = (struct run_error){.code = RUN_SANDBOX_MEMORY_LIMIT,
					   .message = str_of(sentence)};
	}
	run->error = run_keep_error(run, &error);
	run->is_disk_suspect = has_word(e->message, full);
}

static void on_report(struct context_call *call, const struct kernel_report *report)
{
	struct run *run = container_of(call, struct run, call);

	if (run->is_ending ||
	    !count_output(run, REPORT_SIZE + report->log.message.len + report->value.len +
				       report->error.message.len))
		return;
	switch (report->kind) {
	case KERNEL_CHECKED:
		run->is_checked = true;
		break;
	case KERNEL_LOG:
		run_log_add(run->log, report->log.level, report->log.message, registry_now_ms());
		tell_said(run);
		break;
	case KERNEL_VALUE:
		run->value = keep(run, report->value);
		if (!run->value.len)
			end_values(run);
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
	struct err err;

	if (!sb || sb->state == SANDBOX_COLD || sandbox_is_leaving(sb)) {
		run_end_error(run, RUN_CANCELLED,
			      &(struct run_error){.code = "cancelled", .message = str_of(stopped)});
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

	enter(run, &(struct kernel_order){.kind = KERNEL_LOAD, .code = q->code, .env = q->env});
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

static void judge(struct run *run)
{
	struct run_verdict *v = &run->verdicts[run->test];

	v->actual = run->value;
	v->error = run->error;
	v->passed = !run->error.len && json_equal(run->request.tests[run->test].expected,
						  run->value.len ? run->value : STR("null")) == 1;
	run->record.result = run->value;
}

void run_call_end_tests(struct run *run)
{
	for (size_t i = run->test; run->verdicts && i < run->request.tests_len; i++) {
		if (!run->verdicts[i].passed && !run->verdicts[i].error.len &&
		    !run->verdicts[i].actual.len)
			run->verdicts[i].error = run->record.error;
	}
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

/* The call went as the code would have it: what comes next? */
static void go_on(struct run *run)
{
	bool is_load = run->call.order.kind == KERNEL_LOAD;
	bool has_tests = run->request.tests_len;

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
	judge(run);
	if (++run->test < run->request.tests_len)
		invoke(run);
	else
		run_end(run, RUN_COMPLETED, STR(""));
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
	size_t rest = run->error.len - (sizeof(from) - 1);
	char *text = arena_alloc(&run->said, sizeof(to) - 1 + rest);

	if (!text || !str_starts_with(run->error, STR(from)))
		return;
	memcpy(mempcpy(text, to, sizeof(to) - 1), run->error.at + sizeof(from) - 1, rest);
	run->error = (struct str){text, sizeof(to) - 1 + rest};
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
		run->error = run_keep_error(
			run, &(struct run_error){.code = RUN_CODE_ERROR,
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

struct verdict {
	enum run_status status;
	const char *code, *sentence;
};

/* Its kernel has ended by itself. */
static struct verdict verdict_of_exit(const struct run *run, const struct context_end *end)
{
	const struct sandbox *sb = run_sandbox(run);

	if (end->signal == SIGKILL && sb && sandbox_oom_kills(sb) > 0)
		return (struct verdict){RUN_FAILED, RUN_SANDBOX_MEMORY_LIMIT, memory_sentence};
	if (run->is_heap_full && (end->signal == SIGABRT || end->signal == SIGTRAP))
		return (struct verdict){RUN_FAILED, RUN_SANDBOX_MEMORY_LIMIT,
					"the heap of JavaScript is full: it may hold a part of "
					"limits.memory"};
	return (struct verdict){RUN_FAILED, RUN_CODE_ERROR,
				"the code ended its process before it returned"};
}

static struct verdict verdict_of(const struct run *run, const struct context_end *end)
{
	switch (end->reason) {
	case CONTEXT_OOM:
		return (struct verdict){RUN_FAILED, RUN_SANDBOX_MEMORY_LIMIT, memory_sentence};
	case CONTEXT_CPU_LIMIT:
		return (struct verdict){RUN_FAILED, RUN_SANDBOX_CPU_LIMIT,
					"the code has used up its limits.cpu_time_ms"};
	case CONTEXT_VIOLATION:
		return (struct verdict){RUN_FAILED, RUN_SANDBOX_SECURITY_VIOLATION,
					"the code made a system call that is forbidden here"};
	case CONTEXT_TIMEOUT:
		return (struct verdict){RUN_TIMED_OUT, RUN_SANDBOX_TIMEOUT,
					"the code was still running after its timeout_ms"};
	case CONTEXT_BAD_REPORT:
		return (struct verdict){RUN_FAILED, RUN_CODE_ERROR,
					"the code has broken the line on which its results come"};
	case CONTEXT_INTERRUPTED:
	case CONTEXT_KILLED:
		return (struct verdict){RUN_CANCELLED, "cancelled", stopped};
	case CONTEXT_NOT_STARTED:
		return (struct verdict){RUN_FAILED, "start_failed",
					"the language could not be started"};
	case CONTEXT_LOST:
		return (struct verdict){RUN_LOST, "lost", "its sandbox was lost meanwhile"};
	default:
		return verdict_of_exit(run, end);
	}
}

static void on_ended(struct context_call *call, const struct context_end *end)
{
	struct run *run = container_of(call, struct run, call);
	struct verdict verdict;
	char sentence[512], allowed[ALLOWED_MAX] = "";

	run->is_calling = false;
	if (run->runs->is_stopping)
		return;
	if (run->is_ending) {
		run_settle(run);
		return;
	}
	if (end->reason == CONTEXT_COMPLETED) {
		on_completed(run, end->is_error);
		return;
	}
	if (run->record.is_pooled && !run->is_checked) { /* it died unseen when it was taken */
		run_again(run);
		return;
	}
	verdict = verdict_of(run, end);
	if (strcmp(verdict.code, RUN_SANDBOX_MEMORY_LIMIT) == 0)
		write_allowed(run, allowed);
	if (end->reason == CONTEXT_NOT_STARTED && end->message[0])
		snprintf(sentence, sizeof(sentence), "%s: %s", verdict.sentence, end->message);
	else if (end->reason == CONTEXT_EXITED)
		snprintf(sentence, sizeof(sentence), "%s%s (%s %d)", verdict.sentence, allowed,
			 end->signal ? "signal" : "status",
			 end->signal ? end->signal : end->exit_code);
	else
		snprintf(sentence, sizeof(sentence), "%s%s", verdict.sentence, allowed);
	run_end_error(run, verdict.status,
		      &(struct run_error){.code = verdict.code,
					  .message = {sentence, utf8_valid_len(str_of(sentence))}});
}
