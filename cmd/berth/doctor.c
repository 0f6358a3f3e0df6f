#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cmd/berth/checks.h"
#include "cmd/berth/client.h"
#include "cmd/berth/info.h"
#include "cmd/berth/screen.h"
#include "proto/json.h"

#define OUTPUT_MAX (256 * 1024)

enum { DOCTOR_RUNTIME, DOCTOR_STRICT };

static const char *const level_names[] = {
	[FINDING_OK] = "ok",           [FINDING_WARN] = "warn",     [FINDING_NOTE] = "note",
	[FINDING_MISSING] = "missing", [FINDING_UNSAFE] = "unsafe",
};

static size_t count_level(const struct findings *findings, enum finding_level level)
{
	size_t count = 0;

	for (size_t i = 0; i < findings->count; i++)
		count += findings->items[i].level == level;
	return count;
}

/* Nothing that Berth needs is missing, and nothing is unsafe for who is strict. */
static bool is_well(const struct findings *findings)
{
	return !count_level(findings, FINDING_MISSING) && !count_level(findings, FINDING_UNSAFE);
}

static void print_sum(const struct findings *findings)
{
	size_t missing = count_level(findings, FINDING_MISSING);
	size_t unsafe = count_level(findings, FINDING_UNSAFE);
	size_t warnings = count_level(findings, FINDING_WARN);
	size_t notes = count_level(findings, FINDING_NOTE);

	if (missing && unsafe)
		printf("\n%zu missing, %zu unsafe, %zu to consider", missing, unsafe, warnings);
	else if (missing)
		printf("\n%zu missing, %zu to consider", missing, warnings);
	else if (unsafe)
		printf("\nnothing needed is missing, %zu unsafe, %zu to consider", unsafe,
		       warnings);
	else if (warnings)
		printf("\nnothing needed is missing, %zu to consider", warnings);
	else
		printf("\nall is well");
	if (notes)
		printf("; %zu could be safer (--strict fails for them)", notes);
	putchar('\n');
}

static void print_text(const struct findings *findings)
{
	static const enum tint tints[] = {
		[FINDING_OK] = TINT_GOOD,    [FINDING_WARN] = TINT_WARN,
		[FINDING_NOTE] = TINT_DIM,   [FINDING_MISSING] = TINT_BAD,
		[FINDING_UNSAFE] = TINT_BAD,
	};

	for (size_t i = 0; i < findings->count; i++) {
		const struct finding *f = &findings->items[i];

		printf("%s%-8s%s %-16s %s\n", screen_tint(stdout, tints[f->level]),
		       level_names[f->level], screen_tint(stdout, TINT_NONE), f->name, f->what);
		if (*f->mend)
			printf("%-8s %-16s %s-> %s%s\n", "", "", screen_tint(stdout, TINT_DIM),
			       f->mend, screen_tint(stdout, TINT_NONE));
	}
	print_sum(findings);
}

static void write_finding(struct json_writer *w, const struct finding *f)
{
	json_object(w);
	json_key(w, "name");
	json_text(w, f->name);
	json_key(w, "status");
	json_text(w, level_names[f->level]);
	json_key(w, "message");
	json_text(w, f->what);
	json_key(w, "mend");
	if (*f->mend)
		json_text(w, f->mend);
	else
		json_null(w);
	json_object_end(w);
}

static void write_abilities(struct json_writer *w, const struct findings *findings)
{
	json_key(w, "abilities");
	if (!findings->abilities_given) {
		json_null(w);
		return;
	}
	json_object(w);
	for (const struct json_field *f = ability_fields; f->name; f++) {
		if (f->type != JSON_BOOL)
			continue;
		json_key(w, f->name);
		json_bool(w, *(const bool *)((const char *)&findings->abilities + f->offset));
	}
	json_object_end(w);
}

static int print_json(const struct findings *findings)
{
	struct json_writer w;
	struct buf out;
	int r;

	r = json_writer_init(&w, true);
	if (r < 0)
		return r;
	json_object(&w);
	json_key(&w, "ok");
	json_bool(&w, is_well(findings));
	json_key(&w, "strict");
	json_bool(&w, findings->is_strict);
	json_key(&w, "checks");
	json_array(&w);
	for (size_t i = 0; i < findings->count; i++)
		write_finding(&w, &findings->items[i]);
	json_array_end(&w);
	write_abilities(&w, findings);
	json_object_end(&w);
	buf_init(&out, OUTPUT_MAX);
	r = json_writer_end(&w, &out);
	json_writer_close(&w);
	if (r == 0)
		fwrite(buf_at(&out), 1, buf_len(&out), stdout);
	buf_close(&out);
	return r;
}

/* A socket alone says nothing about the directories; whoever serves there does. */
static int ask_dirs(const struct globals *globals, struct paths *ret, struct err *err)
{
	struct answer answer;
	struct arena arena;
	struct info info;
	int r;

	answer_init(&answer);
	arena_init(&arena, INFO_ARENA_MAX);
	r = client_get(globals, "/v1/info", &answer, err);
	if (r == 0)
		r = info_parse(&arena, &answer, &info, err);
	if (r == 0 && (!info.state_dir.len || !info.run_dir.len))
		r = -ENOENT;
	if (r == 0) {
		snprintf(ret->state_dir, sizeof(ret->state_dir), "%.*s", STR_ARGS(info.state_dir));
		snprintf(ret->run_dir, sizeof(ret->run_dir), "%.*s", STR_ARGS(info.run_dir));
	}
	arena_close(&arena);
	answer_close(&answer);
	return r;
}

/* The default ones serve on the default socket. */
static bool is_socket_foreign(const struct globals *globals)
{
	struct globals others = *globals;
	struct paths paths;

	others.socket = NULL;
	return globals->socket && !globals->state_dir && !globals->run_dir &&
	       (client_paths(&others, &paths, NULL) < 0 ||
		strcmp(paths.socket, globals->socket) != 0);
}

static void examine_dirs(struct findings *findings, const struct call *call)
{
	const struct globals *globals = call->globals;
	struct paths paths;
	struct finding *f;
	struct err err;

	if (is_socket_foreign(globals) && ask_dirs(globals, &paths, &err) < 0) {
		f = finding_add(findings, "state directory", FINDING_WARN,
				"not known: nobody tells it on %.200s",
				screen_text(str_of(globals->socket)).text);
		finding_mend(f, "name it with --state-dir, and --run-dir");
	} else if (!is_socket_foreign(globals) && client_paths(globals, &paths, &err) < 0) {
		finding_add(findings, "state directory", FINDING_MISSING, "%s", err.sentence);
	} else {
		check_dirs(findings, &paths);
	}
}

static int run(const struct call *call)
{
	cleanup_free struct findings *findings = calloc(1, sizeof(*findings));
	struct host_facts facts;
	int r = 0;

	if (!findings) {
		screen_error("out of memory");
		return EXIT_FAILED;
	}
	findings->is_strict = call->values[DOCTOR_STRICT];
	host_probe(&facts, call->values[DOCTOR_RUNTIME]);
	check_machine(findings, &facts);
	check_runtime(findings, &facts, call->values[DOCTOR_RUNTIME]);
	check_kernel_holes(findings);
	check_settings(findings);
	check_isolation(findings, &facts);
	check_ids(findings, &facts);
	examine_dirs(findings, call);
	check_daemon(findings, call->globals);
	if (call->globals->json)
		r = print_json(findings);
	else
		print_text(findings);
	if (r < 0)
		screen_error("cannot write the findings as JSON: %s", strerror(-r));
	return r < 0 || !is_well(findings) ? EXIT_FAILED : EXIT_OK;
}

/* clang-format off */
static const struct flag flags[] = {
	[DOCTOR_RUNTIME] = { "--runtime",   "PATH", "look at this OCI runtime" },
	[DOCTOR_STRICT] = { "--strict",     NULL,   "fail for known holes and unsafe settings, too" },
	{ NULL },
};

static const struct example examples[] = {
	{ "berth doctor",        "look at this machine" },
	{ "berth doctor --state-dir /srv/berth", "with the state there" },
	{ "berth doctor --strict && berth up", "only on a machine without known holes" },
	{ "berth doctor --json", "{\"ok\": ..., \"checks\": [{name, status, message, mend}], \"abilities\": ...}" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_doctor = {
	.name = "doctor",
	.summary = "say what this machine can and cannot do, and how to mend it",
	.arguments = "",
	.description =
		"Looks at the kernel, the OCI runtime, cgroups, namespaces, ids, limits and\n"
		"directories. Each line is ok, warn (works, with less) or missing (needed), and\n"
		"says which command would mend it. Needs no daemon and changes nothing. Fails\n"
		"if something needed is missing.\n\n"
		"What could be safer is a note: a runtime or kernel whose version has a known\n"
		"hole, settings of the kernel, who can reach the daemon. With --strict each of\n"
		"them is unsafe, and a failure; what was looked at and is fine is told, too.\n"
		"Distributions mend programs without a new version: \"by its version\" says that\n"
		"nothing else is known.",
	.flags = flags,
	.examples = examples,
	.run = run,
};
