#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cmd/berth/named.h"
#include "cmd/berth/sandbox.h"
#include "cmd/berth/screen.h"
#include "proto/sandbox_id.h"
#include "proto/units.h"

#define SHOWN_MAX 60 /* of a command */

enum { ALARM_AT, ALARM_EVERY, ALARM_TIMEOUT };

struct run_info {
	struct str due_at, started_at, ended_at, reason, error;
	int64_t exit_code;
	uint64_t attempts, skipped;
	bool code_given;
};

struct alarm_info {
	struct str name, next_at, every;
	struct json_strings argv;
	struct run_info last_run;
};

/* clang-format off */
#define RUN(member)   offsetof(struct run_info, member)
#define ALARM(member) offsetof(struct alarm_info, member)

static const struct json_field run_fields[] = {
	{ "due_at",     JSON_STRING, RUN(due_at) },
	{ "started_at", JSON_STRING, RUN(started_at) },
	{ "ended_at",   JSON_STRING, RUN(ended_at) },
	{ "reason",     JSON_STRING, RUN(reason) },
	{ "error",      JSON_STRING, RUN(error) },
	{ "exit_code",  JSON_INT,    RUN(exit_code), false, RUN(code_given) },
	{ "attempts",   JSON_UINT,   RUN(attempts) },
	{ "skipped",    JSON_UINT,   RUN(skipped) },
	{ "*",          JSON_IGNORED },
	{ NULL },
};

static const struct json_field alarm_fields[] = {
	{ "name",     JSON_STRING,  ALARM(name), true },
	{ "next_at",  JSON_STRING,  ALARM(next_at) },
	{ "every",    JSON_STRING,  ALARM(every) },
	{ "argv",     JSON_STRINGS, ALARM(argv) },
	{ "last_run", JSON_OBJECT,  ALARM(last_run), .fields = run_fields },
	{ "*",        JSON_IGNORED },
	{ NULL },
};

static const struct json_field list_fields[] = {
	{ "alarms", JSON_OBJECTS, 0, true, .fields = alarm_fields, .size = sizeof(struct alarm_info) },
	{ "*",      JSON_IGNORED },
	{ NULL },
};
/* clang-format on */

/* NULL: all of them. */
static int make_target(struct haul *haul, const char *id, const char *name)
{
	char path[SANDBOX_PATH_MAX];
	struct sandbox_id folded;
	int r = sandbox_path(id, name ? "/alarm/" : "/alarms", path, &haul->err);

	if (r < 0)
		return r;
	if (name && sandbox_id_parse(str_of(name), &folded) < 0)
		return err_set(&haul->err, -EDESTADDRREQ, ERR_INVALID_REQUEST,
			       "`%s` is no alarm's name: 1 to %d letters, digits and dashes, and a "
			       "letter or digit first and last",
			       screen_text(str_of(name)).text, SANDBOX_ID_MAX);
	r = buf_printf(&haul->target, "%s%s", path, name ? folded.text : "");
	return r < 0 ? haul_fail(haul, r, "out of memory") : 0;
}

/* --- setting --- */

static void write_text(struct json_writer *w, const char *key, const char *value)
{
	if (!value)
		return;
	json_key(w, key);
	json_text(w, value);
}

static int make_body(struct haul *haul, const struct call *call, uint64_t timeout_ms)
{
	cleanup(json_writer_close) struct json_writer w;
	int r;

	json_writer_init(&w, false);
	json_object(&w);
	write_text(&w, "at", call->values[ALARM_AT]);
	write_text(&w, "every", call->values[ALARM_EVERY]);
	json_key(&w, "argv");
	json_array(&w);
	for (size_t i = 0; i < call->command_len; i++)
		json_text(&w, call->command[i]);
	json_array_end(&w);
	json_key(&w, "timeout_ms");
	json_int(&w, (int64_t)timeout_ms);
	json_object_end(&w);
	r = json_writer_end(&w, &haul->body);
	return r < 0 ? haul_fail(haul, r, "the arguments are no text (UTF-8), or too long") : 0;
}

static int set(const struct call *call, uint64_t timeout_ms)
{
	struct haul haul;
	int code = haul_init(&haul, call->globals), r;

	if (code != EXIT_OK)
		return code;
	r = make_target(&haul, call->args[1], call->args[2]);
	if (r == 0)
		r = make_body(&haul, call, timeout_ms);
	if (r == 0)
		r = haul_ask(&haul, "PUT");
	if (r == 0 && call->globals->json)
		r = haul_print_answer(&haul);
	else if (r == 0)
		printf("%s\n", call->args[2]);
	code = haul_finish(&haul, r);
	haul_close(&haul);
	return code;
}

static int check_and_set(const struct call *call)
{
	const char *timeout = call->values[ALARM_TIMEOUT];
	uint64_t timeout_ms = 0;

	if (call->arg_count < 3 || !call->command_len)
		return usage_error("what is to be run, and where? berth alarm set ID NAME --every "
				   "10m -- PROGRAM");
	if (!call->values[ALARM_AT] && !call->values[ALARM_EVERY])
		return usage_error("when? --at 2026-01-31T06:00:00Z, --every 10m, or both");
	if (timeout && duration_parse(str_of(timeout), &timeout_ms) < 0)
		return usage_error("--timeout wants a duration such as 500ms, 30s or 10m");
	return set(call, timeout_ms);
}

/* --- listing --- */

static void print_command(FILE *out, const struct json_strings *argv)
{
	size_t used = 0;

	for (size_t i = 0; i < argv->len && used < SHOWN_MAX; i++) {
		struct screen_text word = screen_text(argv->items[i]);

		used += strlen(word.text) + 1;
		fprintf(out, "%s%.*s", i ? " " : "", SHOWN_MAX, word.text);
	}
	fputs(used < SHOWN_MAX ? "\n" : "...\n", out);
}

static void describe_run(const struct run_info *run, char ret[64])
{
	if (!run->attempts)
		snprintf(ret, 64, "-");
	else if (run->ended_at.len && run->code_given)
		snprintf(ret, 64, "%.30s %" PRId64, screen_text(run->reason).text, run->exit_code);
	else if (run->error.len || !run->started_at.len)
		snprintf(ret, 64, "failed %" PRIu64 "x", run->attempts);
	else
		snprintf(ret, 64, "running");
}

static void print_table(FILE *out, const struct json_objects *list)
{
	const struct alarm_info *infos = list->items;
	int width = sizeof("NAME") - 1;
	char last[64];

	for (size_t i = 0; i < list->len; i++) {
		int len = (int)strlen(screen_text(infos[i].name).text);

		width = len > width ? len : width;
	}
	fprintf(out, "%s%-*s  %-24s  %-6s  %-14s  %s%s\n", screen_tint(stdout, TINT_DIM), width,
		"NAME", "NEXT", "EVERY", "LAST RUN", "COMMAND", screen_tint(stdout, TINT_NONE));
	for (size_t i = 0; i < list->len; i++) {
		const struct alarm_info *a = &infos[i];

		describe_run(&a->last_run, last);
		fprintf(out, "%-*s  %-24.24s  ", width, screen_text(a->name).text,
			a->next_at.len ? screen_text(a->next_at).text : "-");
		fprintf(out, "%-6s  %-14s  ", a->every.len ? screen_text(a->every).text : "-",
			last);
		print_command(out, &a->argv);
		if (a->last_run.error.len)
			fprintf(out, "%-*s  %s\n", width, "", screen_text(a->last_run.error).text);
	}
}

static const struct named alarms = {make_target, list_fields, print_table};

/* --- removing --- */

/* Those behind the first look like a command to whoever reads the line. */
static int remove_all(const struct call *call)
{
	int code = named_remove(call, &alarms, call->args[2], EXIT_OK);

	for (size_t i = 0; i < call->command_len; i++)
		code = named_remove(call, &alarms, call->command[i], code);
	return code;
}

static int run(const struct call *call)
{
	const char *what = call->arg_count ? call->args[0] : "";
	bool has_flags =
		call->values[ALARM_AT] || call->values[ALARM_EVERY] || call->values[ALARM_TIMEOUT];

	if (strcmp(what, "set") == 0)
		return check_and_set(call);
	if (strcmp(what, "ls") != 0 && strcmp(what, "rm") != 0)
		return usage_error("what about alarms? berth alarm set ID NAME, berth alarm ls ID, "
				   "or berth alarm rm ID NAME");
	if (has_flags)
		return usage_error("--at, --every and --timeout are for berth alarm set");
	if (strcmp(what, "ls") == 0)
		return call->arg_count == 2 ? named_list(call, &alarms)
					    : usage_error("of which sandbox? berth alarm ls ID");
	if (call->arg_count < 3)
		return usage_error("which alarm? berth alarm rm ID NAME");
	return remove_all(call);
}

/* clang-format off */
static const struct flag flags[] = {
	[ALARM_AT]      = { "--at",      "TIME",     "when it is (first) due: 2026-01-31T06:00:00Z" },
	[ALARM_EVERY]   = { "--every",   "DURATION", "again after so long, and again: 30s, 10m, 1d" },
	[ALARM_TIMEOUT] = { "--timeout", "DURATION", "end the command after so long" },
	{ NULL },
};

static const struct example examples[] = {
	{ "berth alarm set box tidy --every 1h -- rm -rf /tmp/cache", "every hour, first in an hour" },
	{ "berth alarm set box report --at 2026-01-31T06:00:00Z ./report", "once" },
	{ "berth alarm ls box",                      "when they are due, and how they last ran" },
	{ "berth alarm rm box tidy",                 "a command of it that runs goes on" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_alarm = {
	.name = "alarm",
	.summary = "wake a sandbox at a time, to run a command in it",
	.arguments = "set|ls|rm ID [NAME] [--] [PROGRAM [ARG...]]",
	.arg_max = 3,
	.has_command = true,
	.description =
		"An alarm wakes its sandbox when it is due and runs a command there, at least\n"
		"once: it is run again if it could not be started, or nobody knows how it ended.\n"
		"It outlives the daemon and reboots; what was missed meanwhile runs once. The\n"
		"command finds its alarm's name in BERTH_ALARM and the time at which it was due\n"
		"in BERTH_ALARM_DUE; what it prints goes nowhere. `set` makes or replaces one,\n"
		"`ls` lists those of a sandbox, `rm` removes some; none of them wakes it.",
	.flags = flags,
	.examples = examples,
	.run = run,
};
