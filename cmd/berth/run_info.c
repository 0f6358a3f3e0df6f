#include "cmd/berth/run_info.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth/code.h"
#include "cmd/berth/plain.h"
#include "cmd/berth/screen.h"
#include "proto/sandbox_id.h"

/* clang-format off */
#define AT(member) offsetof(struct run_info, member)

static const struct json_field log_fields[] = {
	{ "level",     JSON_BYTES,  offsetof(struct run_log_entry, level) },
	{ "message",   JSON_BYTES,  offsetof(struct run_log_entry, message) },
	{ "timestamp", JSON_STRING, offsetof(struct run_log_entry, timestamp) },
	{ "*",         JSON_IGNORED },
	{ NULL },
};

static const struct json_field test_fields[] = {
	{ "passed", JSON_BOOL, offsetof(struct run_test_info, passed) },
	{ "*",      JSON_IGNORED },
	{ NULL },
};

static const struct json_field error_fields[] = {
	{ "code",    JSON_STRING, AT(error.code)    - AT(error) },
	{ "name",    JSON_BYTES,  AT(error.name)    - AT(error) },
	{ "message", JSON_BYTES,  AT(error.message) - AT(error) },
	{ "stack",   JSON_BYTES,  AT(error.stack)   - AT(error) },
	{ "*",       JSON_IGNORED },
	{ NULL },
};

static const struct json_field metric_fields[] = {
	{ "duration_ms",       JSON_UINT, AT(metrics.duration_ms) - AT(metrics), false,
	  AT(metrics.duration_given) - AT(metrics) },
	{ "cpu_ms",            JSON_UINT, AT(metrics.cpu_ms)      - AT(metrics) },
	{ "memory_peak_bytes", JSON_UINT, AT(metrics.memory_peak_bytes) - AT(metrics) },
	{ "*",                 JSON_IGNORED },
	{ NULL },
};

const struct json_field run_fields[] = {
	{ "id",           JSON_STRING,  AT(id), true },
	{ "task_id",      JSON_STRING,  AT(task_id) },
	{ "status",       JSON_STRING,  AT(status), true },
	{ "language",     JSON_STRING,  AT(language) },
	{ "trust",        JSON_STRING,  AT(trust) },
	{ "created_at",   JSON_STRING,  AT(created_at) },
	{ "started_at",   JSON_STRING,  AT(started_at) },
	{ "ended_at",     JSON_STRING,  AT(ended_at) },
	{ "result",       JSON_RAW,     AT(result) },
	{ "logs",         JSON_OBJECTS, AT(logs), .fields = log_fields, .size = sizeof(struct run_log_entry) },
	{ "logs_dropped", JSON_UINT,    AT(logs_dropped) },
	{ "truncated",    JSON_BOOL,    AT(is_truncated) },
	{ "tests",        JSON_OBJECTS, AT(tests), .fields = test_fields, .size = sizeof(struct run_test_info) },
	{ "error",        JSON_OBJECT,  AT(error), false, AT(error_given), error_fields },
	{ "metrics",      JSON_OBJECT,  AT(metrics), .fields = metric_fields },
	{ "*",            JSON_IGNORED },
	{ NULL },
};

static const struct {
	const char *status, *error; /* NULL: any */
	int code;
} codes[] = {
	{ "completed", NULL,                   EXIT_OK },
	{ "timed_out", NULL,                   CODE_EXIT_TIMEOUT },
	{ "failed",    "SANDBOX_MEMORY_LIMIT", CODE_EXIT_OOM },
	{ "failed",    "SANDBOX_CPU_LIMIT",    CODE_EXIT_CPU },
	{ "failed",    "SANDBOX_SECURITY_VIOLATION", CODE_EXIT_SYS },
};
/* clang-format on */

int run_parse(struct haul *haul, struct arena *arena, struct run_info *ret)
{
	struct str text = {buf_at(&haul->answer.body), buf_len(&haul->answer.body)};

	*ret = (struct run_info){0};
	if (json_parse(arena, text, run_fields, ret, NULL) == 0)
		return 0;
	return haul_fail(haul, -EPROTO, "the answer cannot be understood (is it berthd's?)");
}

int run_target(struct haul *haul, const char *run, const char *suffix)
{
	struct sandbox_id id;
	int r;

	if (sandbox_id_parse(str_of(run), &id) < 0)
		return err_set(&haul->err, -EDESTADDRREQ, ERR_INVALID_REQUEST,
			       "`%s` is no run's ID: `berth runs` lists them",
			       screen_text(str_of(run)).text);
	r = buf_printf(&haul->target, "/v1/runs/%s%s", id.text, suffix);
	return r < 0 ? haul_fail(haul, r, "out of memory") : 0;
}

static bool is_for_stderr(struct str level)
{
	return str_eq(level, STR("stderr")) || str_eq(level, STR("error")) ||
	       str_eq(level, STR("warn")) || str_eq(level, STR("warning")) ||
	       str_eq(level, STR("critical"));
}

int run_show_entry(struct haul *haul, const struct run_log_entry *entry)
{
	return plain_print(haul->interrupt_fd,
			   is_for_stderr(entry->level) ? STDERR_FILENO : STDOUT_FILENO,
			   entry->message);
}

void run_show_dropped(uint64_t dropped)
{
	if (dropped)
		screen_error("%" PRIu64 " messages were too many and are not kept", dropped);
}

int run_show_logs(struct haul *haul, const struct run_info *run)
{
	const struct run_log_entry *entries = run->logs.items;
	int r = 0;

	for (size_t i = 0; r == 0 && i < run->logs.len; i++)
		r = run_show_entry(haul, &entries[i]);
	if (r == 0)
		run_show_dropped(run->logs_dropped);
	return r;
}

/* A text as it is, without its quotes; anything else as JSON. */
static int show_result(struct haul *haul, struct str json)
{
	static const struct json_field fields[] = {
		{"v", JSON_BYTES, 0, true, 0, NULL, 0},
		{NULL, JSON_BOOL, 0, false, 0, NULL, 0},
	};
	cleanup(buf_close) struct buf wrapped;
	struct str text = json;
	struct arena arena;
	int r = 0;

	buf_init(&wrapped, RUN_ARENA_MAX);
	arena_init(&arena, RUN_ARENA_MAX);
	if (json.len && json.at[0] == '"') {
		r = buf_append(&wrapped, "{\"v\":", 5);
		if (r == 0)
			r = buf_append_str(&wrapped, json);
		if (r == 0)
			r = buf_append(&wrapped, "}", 1);
		if (r == 0)
			r = json_parse(&arena, (struct str){buf_at(&wrapped), buf_len(&wrapped)},
				       fields, &text, NULL);
	}
	if (r == 0)
		r = plain_print(haul->interrupt_fd, STDOUT_FILENO, text);
	arena_close(&arena);
	return r;
}

static int show_error(struct haul *haul, const struct run_info *run)
{
	struct str stack = run->error.stack, message = run->error.message;
	bool is_told = stack.len && memmem(stack.at, stack.len, message.at, message.len);
	int r = 0;

	if (stack.len)
		r = plain_print(haul->interrupt_fd, STDERR_FILENO, stack);
	/* What the code said of itself is told by its stack; a limit has a name that is not. */
	if (r == 0 && is_told && !str_eq(run->error.code, STR("CODE_ERROR")))
		screen_error("%s", screen_text(run->error.code).text);
	else if (r == 0 && !is_told)
		screen_error("%s: %s%s%s", screen_text(run->error.code).text,
			     screen_text(run->error.name).text, run->error.name.len ? ": " : "",
			     screen_text(run->error.message).text);
	return r;
}

int run_show_end(struct haul *haul, const struct run_info *run)
{
	const struct run_test_info *tests = run->tests.items;
	size_t passed = 0;
	int r = 0;

	for (size_t i = 0; i < run->tests.len; i++)
		passed += tests[i].passed;
	if (run->tests.len)
		screen_error("%zu of %zu tests passed", passed, run->tests.len);
	if (run->result.len && !str_eq(run->result, STR("null")))
		r = show_result(haul, run->result);
	if (r == 0 && run->error_given)
		r = show_error(haul, run);
	if (r == 0 && run->is_truncated)
		screen_error("the result, logs and tests of the run could not be stored, and are "
			     "gone");
	if (r == 0 && !run->error_given && str_eq(run->status, STR("cancelled")))
		screen_error("the run was cancelled");
	if (r == 0 && !run->error_given && str_eq(run->status, STR("lost")))
		screen_error("berthd ended meanwhile: what became of the run is not known");
	return r;
}

int run_exit_code(const struct run_info *run)
{
	const struct run_test_info *tests = run->tests.items;

	for (size_t i = 0; i < run->tests.len; i++)
		if (!tests[i].passed && str_eq(run->status, STR("completed")))
			return EXIT_FAILED;
	/* Nobody knows whether its tests passed. */
	if (run->is_truncated && str_eq(run->status, STR("completed")))
		return EXIT_NOT_RUN;
	for (size_t i = 0; i < array_len(codes); i++)
		if (str_eq(run->status, str_of(codes[i].status)) &&
		    (!codes[i].error || str_eq(run->error.code, str_of(codes[i].error))))
			return codes[i].code;
	/* Others are the daemon's: of what it could not do, the code knows nothing. */
	if (str_eq(run->status, STR("failed")) &&
	    (str_eq(run->error.code, STR("CODE_ERROR")) ||
	     str_starts_with(run->error.code, STR("SANDBOX_"))))
		return EXIT_FAILED;
	return EXIT_NOT_RUN;
}
