#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "cmd/berth/code.h"
#include "cmd/berth/run_follow.h"
#include "cmd/berth/screen.h"
#include "proto/run_record.h"
#include "proto/units.h"

#define PAGE        200
#define SHOWN_USUAL 50
#define SHOWN_MAX   1000000
#define CURSOR_MAX  64
#define WAIT        "wait"

enum { RUNS_STATUS, RUNS_LIMIT, RUNS_QUIET, RUNS_TIMEOUT, RUNS_FOLLOW };

struct page {
	struct json_objects runs; /* struct run_info */
	struct str cursor;        /* "": that was all */
};

/* clang-format off */
static const struct json_field page_fields[] = {
	{ "runs",   JSON_OBJECTS, offsetof(struct page, runs), true, .fields = run_fields,
	  .size = sizeof(struct run_info) },
	{ "cursor", JSON_STRING,  offsetof(struct page, cursor) },
	{ "*",      JSON_IGNORED },
	{ NULL },
};
/* clang-format on */

/* --- the list --- */

/* How long ago "2026-01-31T12:00:00.250Z" was. */
static struct screen_text age_of(struct str at)
{
	struct screen_text ret = {"-"};
	struct tm tm = {0};
	char text[32];
	time_t then;

	snprintf(text, sizeof(text), "%.*s", at.len < sizeof(text) ? (int)at.len : 0,
		 at.len ? at.at : "");
	if (!strptime(text, "%Y-%m-%dT%H:%M:%S", &tm))
		return ret;
	then = timegm(&tm);
	return screen_duration(time(NULL) > then ? (uint64_t)(time(NULL) - then) * 1000 : 0);
}

static struct screen_text duration_of(const struct run_info *run)
{
	uint64_t ms = run->metrics.duration_ms;
	struct screen_text ret = {"-"};

	if (!run->metrics.duration_given)
		return ret;
	if (ms < 60000)
		snprintf(ret.text, sizeof(ret.text), "%" PRIu64 ".%03" PRIu64 " s", ms / 1000,
			 ms % 1000);
	else
		ret = screen_duration(ms);
	return ret;
}

static enum tint tint_of(struct str status)
{
	if (str_eq(status, STR("completed")))
		return TINT_DIM;
	if (str_eq(status, STR("running")) || str_eq(status, STR("queued")))
		return TINT_GOOD;
	return TINT_BAD;
}

static void print_head(FILE *out)
{
	fprintf(out, "%s%-30s  %-9s  %-10s  %-13s  %-12s  %s%s\n", screen_tint(stdout, TINT_DIM),
		"RUN", "STATUS", "LANGUAGE", "AGE", "TOOK", "TRUST",
		screen_tint(stdout, TINT_NONE));
}

static void print_row(FILE *out, const struct run_info *run)
{
	fprintf(out, "%-30s  %s%-9s%s  %-10s  %-13s  %-12s  %s\n", screen_text(run->id).text,
		screen_tint(stdout, tint_of(run->status)), screen_text(run->status).text,
		screen_tint(stdout, TINT_NONE), screen_text(run->language).text,
		age_of(run->created_at).text, duration_of(run).text,
		run->trust.len ? screen_text(run->trust).text : "-");
}

struct listing {
	const struct call *call;
	uint64_t left; /* that may be shown yet */
	char cursor[CURSOR_MAX];
	bool is_begun;
};

static int print_page(struct haul *haul, struct listing *l, const struct page *page)
{
	const struct run_info *runs = page->runs.items;
	cleanup_free char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return haul_fail(haul, -ENOMEM, "out of memory");
	if (!l->is_begun && !l->call->values[RUNS_QUIET])
		print_head(out);
	for (size_t i = 0; i < page->runs.len; i++) {
		if (l->call->values[RUNS_QUIET])
			fprintf(out, "%s\n", screen_text(runs[i].id).text);
		else
			print_row(out, &runs[i]);
	}
	if (fclose(out) != 0)
		return haul_fail(haul, -ENOMEM, "out of memory");
	return haul_print(haul, (struct str){text, len});
}

/* 1: there are more, and they are wanted. */
static int list_page(struct haul *haul, struct listing *l)
{
	uint64_t count = l->left < PAGE ? l->left : PAGE;
	const char *status = l->call->values[RUNS_STATUS];
	struct page page = {0};
	struct arena arena;
	int r = buf_printf(&haul->target, "/v1/runs?limit=%" PRIu64 "%s%s%s%s", count,
			   status ? "&status=" : "", status ? status : "",
			   *l->cursor ? "&cursor=" : "", l->cursor);

	if (r == 0)
		r = haul_ask(haul, "GET");
	if (r < 0)
		return r;
	arena_init(&arena, RUN_ARENA_MAX);
	r = json_parse(&arena,
		       (struct str){buf_at(&haul->answer.body), buf_len(&haul->answer.body)},
		       page_fields, &page, NULL);
	if (r < 0 || page.cursor.len >= CURSOR_MAX)
		r = haul_fail(haul, -EPROTO, "the answer cannot be understood (is it berthd's?)");
	else
		r = l->call->globals->json ? haul_print_answer(haul) : print_page(haul, l, &page);
	l->is_begun = true;
	l->left -= page.runs.len < l->left ? page.runs.len : l->left;
	snprintf(l->cursor, sizeof(l->cursor), "%.*s",
		 page.cursor.len < CURSOR_MAX ? (int)page.cursor.len : 0,
		 page.cursor.len ? page.cursor.at : "");
	if (r == 0 && page.runs.len && *l->cursor && l->left &&
	    strspn(l->cursor, "0123456789") == strlen(l->cursor))
		r = 1;
	arena_close(&arena);
	return r;
}

static int list(const struct call *call, struct haul *haul)
{
	const char *status = call->values[RUNS_STATUS], *limit = call->values[RUNS_LIMIT];
	struct listing l = {.call = call, .left = limit ? strtoul(limit, NULL, 10) : SHOWN_USUAL};
	int r = 1;

	if (status && run_status_find(str_of(status)) < 0)
		return err_set(&haul->err, -EDESTADDRREQ, ERR_INVALID_REQUEST,
			       "--status wants queued, running, completed, failed, timed_out, "
			       "cancelled or lost");
	if (limit &&
	    (strspn(limit, "0123456789") != strlen(limit) || !l.left || l.left > SHOWN_MAX))
		return err_set(&haul->err, -EDESTADDRREQ, ERR_INVALID_REQUEST,
			       "--limit wants a number such as 100");
	while (r == 1)
		r = list_page(haul, &l);
	return r;
}

/* --- one of them --- */

static void print_one(const struct run_info *run)
{
	screen_row("id", "%s", screen_text(run->id).text);
	if (run->task_id.len)
		screen_row("task", "%s", screen_text(run->task_id).text);
	screen_row("status", "%s%s%s", screen_tint(stdout, tint_of(run->status)),
		   screen_text(run->status).text, screen_tint(stdout, TINT_NONE));
	screen_row("language", "%s", screen_text(run->language).text);
	screen_row("trust", "%s", run->trust.len ? screen_text(run->trust).text : "-");
	screen_row("created", "%s", screen_text(run->created_at).text);
	if (run->ended_at.len)
		screen_row("ended", "%s", screen_text(run->ended_at).text);
	screen_row("took", "%s", duration_of(run).text);
	if (run->metrics.cpu_ms)
		screen_row("processor time", "%" PRIu64 " ms", run->metrics.cpu_ms);
	if (run->metrics.memory_peak_bytes)
		screen_row("memory at most", "%s",
			   screen_bytes(run->metrics.memory_peak_bytes).text);
	screen_row("messages", "%zu", run->logs.len);
	fflush(stdout);
}

static int show(struct haul *haul, const struct call *call, int *ret_code)
{
	struct run_info run;
	struct arena arena;
	int r = run_target(haul, call->args[1], "");

	if (r == 0)
		r = haul_ask(haul, "GET");
	arena_init(&arena, RUN_ARENA_MAX);
	if (r == 0)
		r = run_parse(haul, &arena, &run);
	if (r == 0 && call->globals->json) {
		r = haul_print_answer(haul);
	} else if (r == 0) {
		print_one(&run);
		r = run_show_end(haul, &run);
	}
	arena_close(&arena);
	return r;
}

static int logs(struct haul *haul, const struct call *call, int *ret_code)
{
	struct run_info run;
	struct arena arena;
	int r;

	if (call->values[RUNS_FOLLOW])
		return run_follow(haul, call->args[1]);
	r = run_target(haul, call->args[1], "/logs");
	if (r == 0)
		r = haul_ask(haul, "GET");
	arena_init(&arena, RUN_ARENA_MAX);
	if (r == 0)
		r = run_parse(haul, &arena, &run);
	if (r == 0)
		r = call->globals->json ? haul_print_answer(haul) : run_show_logs(haul, &run);
	arena_close(&arena);
	return r;
}

static int wait_for(struct haul *haul, const struct call *call, int *ret_code)
{
	const char *timeout = call->values[RUNS_TIMEOUT];
	uint64_t timeout_ms = 0;
	struct run_info run = {0};
	struct arena arena;
	int r = run_target(haul, call->args[1], "/wait");

	if (r == 0 && timeout && duration_parse(str_of(timeout), &timeout_ms) < 0)
		r = err_set(&haul->err, -EDESTADDRREQ, ERR_INVALID_REQUEST,
			    "--timeout wants a duration such as 30s or 10m; 0s is none");
	if (r == 0 && timeout)
		r = buf_printf(&haul->body, "{\"timeout_ms\":%" PRIu64 "}", timeout_ms);
	if (r == 0)
		r = haul_ask_long(haul, "POST");
	if (r == -EREMOTEIO && haul->answer.status == 504) {
		client_failed(haul->globals, &haul->answer, r, &haul->err);
		*ret_code = CODE_EXIT_TIMEOUT;
		return 0;
	}
	arena_init(&arena, RUN_ARENA_MAX);
	if (r == 0)
		r = run_parse(haul, &arena, &run);
	if (r == 0)
		r = call->globals->json ? haul_print_answer(haul) : run_show_end(haul, &run);
	if (r == 0)
		*ret_code = run_exit_code(&run);
	arena_close(&arena);
	return r;
}

static int cancel(struct haul *haul, const struct call *call, int *ret_code)
{
	struct run_info run = {0};
	struct arena arena;
	int r = run_target(haul, call->args[1], "");

	if (r == 0)
		r = haul_ask_long(haul, "DELETE");
	arena_init(&arena, RUN_ARENA_MAX);
	if (r == 0)
		r = run_parse(haul, &arena, &run);
	if (r == 0 && call->globals->json)
		r = haul_print_answer(haul);
	else if (r == 0 && str_eq(run.status, STR("cancelled")))
		r = printf("%s\n", call->args[1]) < 0 ? -errno : 0;
	else if (r == 0)
		screen_error("there was nothing to cancel: the run %s is over (%s)", call->args[1],
			     screen_text(run.status).text);
	arena_close(&arena);
	return r;
}

static const struct {
	const char *name;
	int (*act)(struct haul *haul, const struct call *call, int *ret_code);
} acts[] = {{"show", show}, {"logs", logs}, {WAIT, wait_for}, {"cancel", cancel}};

/* Of a failure of ours; but a signal, and a reader who left, are told as everywhere. */
static int own_code(const struct call *call, int code)
{
	if (code > 128 || call->arg_count == 0 || strcmp(call->args[0], WAIT) != 0)
		return code;
	return EXIT_NOT_RUN;
}

static int run(const struct call *call)
{
	bool is_list = call->arg_count == 0 || strcmp(call->args[0], "ls") == 0;
	int code, own = EXIT_OK, r = -EINVAL;
	struct haul haul;

	if (is_list ? call->arg_count > 1 : call->arg_count != 2)
		return own_code(call, usage_error("which run? berth runs [ls], or berth runs "
						  "show|logs|wait|cancel RUN"));
	code = haul_init(&haul, call->globals);
	if (code != EXIT_OK)
		return own_code(call, code);
	if (is_list)
		r = list(call, &haul);
	for (size_t i = 0; !is_list && i < array_len(acts); i++)
		if (strcmp(call->args[0], acts[i].name) == 0)
			r = acts[i].act(&haul, call, &own);
	if (r == -EINVAL && !is_list && haul.err.code == ERR_NONE)
		r = err_set(&haul.err, -EDESTADDRREQ, ERR_INVALID_REQUEST,
			    "berth runs cannot `%s`: it can show, logs, wait and cancel",
			    screen_text(str_of(call->args[0])).text);
	code = haul_finish(&haul, r);
	haul_close(&haul);
	return code == EXIT_OK ? own : own_code(call, code);
}

/* clang-format off */
static const struct flag flags[] = {
	[RUNS_STATUS]  = { "--status",  "STATUS",   "only those: queued, running, completed, failed, timed_out, cancelled, lost" },
	[RUNS_LIMIT]   = { "--limit",   "NUMBER",   "at most so many, the newest (50)" },
	[RUNS_QUIET]   = { "--quiet",   NULL,       "only their IDs", "-q" },
	[RUNS_TIMEOUT] = { "--timeout", "DURATION", "of wait: give up after so long" },
	[RUNS_FOLLOW]  = { "--follow",  NULL,       "of logs: go on until the run is over", "-f" },
	{ NULL },
};

static const struct example examples[] = {
	{ "berth runs",                       "the newest first" },
	{ "berth runs --status failed -q",    "the IDs of those that failed" },
	{ "berth runs show RUN",              "what became of it, its result and its error" },
	{ "berth runs logs RUN",              "what it said" },
	{ "berth runs logs -f RUN",           "and what it says from now on" },
	{ "berth runs wait RUN",              "until it ends; its result, and a code that tells how" },
	{ "berth runs cancel RUN",            "end it" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_runs = {
	.name = "runs",
	.summary = "list runs of code, look at them, wait for them, cancel them",
	.arguments = "[show|logs|wait|cancel RUN]",
	.arg_max = 2,
	.gives_code = true,
	.code_word = WAIT,
	.description =
		"Tells of runs: pieces of code that had a sandbox of their own, as `berth code\n"
		"--run` starts them. Ctrl-C ends `logs -f` and `wait`, not the "
		"run.\n"
		"The exit code of `wait` tells how the run ended; others exit as `berth` does.",
	.flags = flags,
	.examples = examples,
	.exit_codes = code_exit_codes,
	.run = run,
};
