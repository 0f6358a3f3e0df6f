#include "cmd/berth/selftest.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "cmd/berth/command.h"
#include "cmd/berth/info.h"
#include "cmd/berth/screen.h"
#include "proto/json.h"

#define ARENA_MAX  (64 * 1024 * 1024)
#define OUTPUT_MAX (1024 * 1024)

enum { SELFTEST_IMAGE };

/* As the manual page tells it; a wrong command line has the same. */
#define EXIT_COULD_NOT EXIT_USAGE

/* clang-format off */
static const struct check checks[] = {
	{ "1",  "write to programs of the host",      verify_exe },
	{ "2",  "use descriptors of others",          verify_fds },
	{ "3",  "inherit from daemon or neighbour",   verify_inherited },
	{ "6",  "read and write /proc and /sys",      verify_surfaces },
	{ "7",  "change the kernel's settings",       verify_writes },
	{ "8",  "gain privileges",                    verify_privileges },
	{ "9",  "be root outside",                    verify_ids },
	{ "10", "call what nobody needs",             verify_calls },
	{ "11", "share a namespace",                  verify_namespaces },
	{ "12", "use and make devices",               verify_devices },
	{ "13", "reach sockets of the host",          verify_sockets },
	{ "16", "lead the file API out",              verify_paths },
	{ "17", "lead archives out",                  verify_archives },
	{ "18", "hang the file API",                  verify_special },
	{ "23", "outlive the command's end",          verify_ends },
	{ "25", "flood with output",                  verify_output },
	{ "26", "fork without end",                   verify_bomb },
	{ "27", "be somebody else",                   verify_identity },
	{ "28", "type into a terminal",               verify_tty },
	{ "29", "reach the network",                  verify_network },
	{ "33", "change the network",                 verify_routes },
	{ "37", "ask the API as a stranger",          verify_access },
	{ "40", "break the API's parsers",            verify_malformed },
	{ "41", "smuggle in names",                   verify_names },
	{ "42", "take more memory",                   verify_memory },
};

static const struct {
	const char *text, *json;
	enum tint tint;
} verdicts[] = {
	[VERDICT_OK]      = { "ok",        "ok",      TINT_GOOD },
	[VERDICT_HOLE]    = { "HOLE",      "hole",    TINT_BAD },
	[VERDICT_UNTRIED] = { "not tried", "untried", TINT_WARN },
	[VERDICT_FAILED]  = { "failed",    "failed",  TINT_BAD },
};
/* clang-format on */

/* --- outcomes --- */

__attribute__((format(printf, 2, 0))) static void say(struct outcome *o, const char *format,
						      va_list args)
{
	vsnprintf(o->sentence, sizeof(o->sentence), format, args);
}

void outcome_ok(struct outcome *o, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (o->verdict == VERDICT_OK)
		say(o, format, args);
	va_end(args);
}

void outcome_hole(struct outcome *o, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (o->holes++ == 0)
		say(o, format, args);
	va_end(args);
	o->verdict = VERDICT_HOLE;
}

void outcome_untried(struct outcome *o, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (o->verdict == VERDICT_OK) {
		say(o, format, args);
		o->verdict = VERDICT_UNTRIED;
	}
	va_end(args);
}

/* --- one after the other --- */

/* What kept a check from its end outranks what it would have said, but no hole. */
static void take_failure(struct selftest *t, int r, struct outcome *o)
{
	const struct haul *haul = &t->haul;

	if (o->verdict == VERDICT_HOLE)
		return;
	o->verdict = VERDICT_FAILED;
	snprintf(o->sentence, sizeof(o->sentence), "%s",
		 haul->own.code != ERR_NONE   ? haul->own.sentence
		 : haul->err.code != ERR_NONE ? haul->err.sentence
					      : strerror(-r));
}

static void add_note(struct outcome *o)
{
	size_t len = strlen(o->sentence);

	if (o->verdict == VERDICT_OK && o->note[0])
		snprintf(o->sentence + len, sizeof(o->sentence) - len, "; %s",
			 screen_text(str_of(o->note)).text);
}

static void print_row(const struct check *check, const struct outcome *o)
{
	char more[48] = "";

	if (o->holes > 1)
		snprintf(more, sizeof(more), " (and %zu more)", o->holes - 1);
	printf("%3s  %-33s %s%-9s%s  %s%s\n", check->number, check->title,
	       screen_tint(stdout, verdicts[o->verdict].tint), verdicts[o->verdict].text,
	       screen_tint(stdout, TINT_NONE), o->sentence, more);
	fflush(stdout);
}

static bool is_wanted(const struct call *call, const char *number)
{
	for (size_t i = 0; i < call->arg_count; i++)
		if (strcmp(call->args[i], number) == 0)
			return true;
	return call->arg_count == 0;
}

/* 0, or -EINTR. */
static int run_checks(struct selftest *t, const struct call *call, struct outcome *outcomes)
{
	for (size_t i = 0; i < array_len(checks); i++) {
		int r;

		if (!is_wanted(call, checks[i].number))
			continue;
		t->haul.own.code = t->haul.err.code = ERR_NONE;
		r = haul_is_interrupted(&t->haul) ? -EINTR : checks[i].run(t, &outcomes[i]);
		arena_close(&t->arena);
		if (r == -EINTR)
			return r;
		if (r < 0)
			take_failure(t, r, &outcomes[i]);
		add_note(&outcomes[i]);
		if (!call->globals->json)
			print_row(&checks[i], &outcomes[i]);
	}
	return 0;
}

/* --- what came of it --- */

static size_t count(const struct call *call, const struct outcome *outcomes, enum verdict verdict)
{
	size_t found = 0;

	for (size_t i = 0; i < array_len(checks); i++)
		found += is_wanted(call, checks[i].number) && outcomes[i].verdict == verdict;
	return found;
}

static void print_sum(const struct call *call, const struct outcome *outcomes)
{
	size_t holes = count(call, outcomes, VERDICT_HOLE);
	size_t untried = count(call, outcomes, VERDICT_UNTRIED);
	size_t failed = count(call, outcomes, VERDICT_FAILED);

	printf("\n%zu hold, %zu %s, %zu could not be tried on this host",
	       count(call, outcomes, VERDICT_OK), holes, holes == 1 ? "HOLE" : "HOLES", untried);
	if (failed)
		printf(", %zu failed", failed);
	printf("\n");
}

static int print_json(const struct call *call, const struct outcome *outcomes)
{
	struct json_writer w;
	struct buf out;
	int r = json_writer_init(&w, true);

	if (r < 0)
		return r;
	json_object(&w);
	json_key(&w, "ok");
	json_bool(&w,
		  !count(call, outcomes, VERDICT_HOLE) && !count(call, outcomes, VERDICT_FAILED));
	json_key(&w, "checks");
	json_array(&w);
	for (size_t i = 0; i < array_len(checks); i++) {
		if (!is_wanted(call, checks[i].number))
			continue;
		json_object(&w);
		json_key(&w, "number");
		json_int(&w, atoi(checks[i].number));
		json_key(&w, "title");
		json_text(&w, checks[i].title);
		json_key(&w, "status");
		json_text(&w, verdicts[outcomes[i].verdict].json);
		json_key(&w, "holes");
		json_int(&w, (int64_t)outcomes[i].holes);
		json_key(&w, "message");
		json_text(&w, outcomes[i].sentence);
		json_object_end(&w);
	}
	json_array_end(&w);
	json_object_end(&w);
	buf_init(&out, OUTPUT_MAX);
	r = json_writer_end(&w, &out);
	json_writer_close(&w);
	if (r == 0)
		fwrite(buf_at(&out), 1, buf_len(&out), stdout);
	buf_close(&out);
	return r;
}

static int tell(const struct call *call, const struct outcome *outcomes)
{
	if (!call->globals->json) {
		print_sum(call, outcomes);
	} else if (print_json(call, outcomes) < 0) {
		screen_error("cannot write the outcome as JSON");
		return EXIT_COULD_NOT;
	}
	if (count(call, outcomes, VERDICT_HOLE))
		return EXIT_FAILED;
	return count(call, outcomes, VERDICT_FAILED) ? EXIT_COULD_NOT : EXIT_OK;
}

/* --- the verb --- */

static int name_boxes(struct selftest *t)
{
	static const char *const ends[] = {"a", "b", "pids", "memory"};
	unsigned char bytes[8];

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return haul_fail(&t->haul, -EIO, "the kernel has no random bytes");
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(t->word + 2 * i, 3, "%02x", bytes[i]);
	for (size_t i = 0; i < BOX_COUNT; i++)
		snprintf(t->boxes[i].id, sizeof(t->boxes[i].id), "selftest-%s-%s", t->word,
			 ends[i]);
	return 0;
}

/* Is there a daemon, and can it run anything? Else no check would say more than that. */
static int begin(struct selftest *t)
{
	struct info info = {0};
	int r = name_boxes(t);

	if (r == 0)
		r = selftest_send(t, "GET", "/v1/info", SELFTEST_WAIT_MS);
	if (r == 0)
		r = info_parse(&t->arena, &t->haul.answer, &info, &t->haul.err);
	if (r == 0)
		t->is_rootless = !str_eq(info.mode, STR("root"));
	return r == 0 ? selftest_make(t, BOX_FIRST) : r;
}

/* Signals are as they always were before the sandboxes are removed: a second one ends us at once.
 */
static int finish(struct selftest *t, int r)
{
	int code = EXIT_OK;

	if (r == -EINTR)
		code = command_interrupted(t->haul.interrupt_fd);
	else if (r < 0)
		code = haul_finish(&t->haul, r) == EXIT_PIPE ? EXIT_PIPE : EXIT_COULD_NOT;
	haul_close(&t->haul);
	if (!selftest_remove_all(t) && code == EXIT_OK)
		code = EXIT_COULD_NOT;
	selftest_remove_outside(t);
	arena_close(&t->arena);
	return code;
}

static int check_numbers(const struct call *call)
{
	for (size_t i = 0; i < call->arg_count; i++) {
		size_t k = 0;

		while (k < array_len(checks) && strcmp(checks[k].number, call->args[i]) != 0)
			k++;
		if (k == array_len(checks))
			return usage_error("there is no check %s; without a number all are run",
					   screen_text(str_of(call->args[i])).text);
	}
	return EXIT_OK;
}

static int run(const struct call *call)
{
	cleanup_free struct outcome *outcomes = calloc(array_len(checks), sizeof(*outcomes));
	struct selftest t = {.image = call->values[SELFTEST_IMAGE]};
	int code = check_numbers(call), told = EXIT_OK, r;

	if (code != EXIT_OK || !outcomes)
		return EXIT_COULD_NOT;
	if (haul_init(&t.haul, call->globals) != EXIT_OK)
		return EXIT_COULD_NOT;
	arena_init(&t.arena, ARENA_MAX);
	r = begin(&t);
	if (r == 0)
		r = run_checks(&t, call, outcomes);
	if (r == 0)
		told = tell(call, outcomes);
	code = finish(&t, r);
	return told != EXIT_OK ? told : code;
}

/* clang-format off */
static const struct flag flags[] = {
	[SELFTEST_IMAGE] = { "--image", "NAME", "what the sandboxes are made of (host)" },
	{ NULL },
};

static const struct example examples[] = {
	{ "berth selftest",          "try it all; it takes some seconds" },
	{ "berth selftest 10 29",    "only system calls and the network" },
	{ "berth selftest --json",   "{\"ok\": ..., \"checks\": [{number, title, status, holes, message}]}" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_selftest = {
	.name = "selftest",
	.summary = "try to break out of a sandbox, and say what held",
	.arguments = "[NUMBER...]",
	.arg_max = VERB_ARGS_ANY,
	.description =
		"Makes sandboxes called selftest-..., tries from inside of them, and with the "
		"API,\n"
		"what hostile code would try, and removes them again. Each line is a check: what\n"
		"was tried, whether it held, and a sentence. ok: it held. HOLE: it did not; "
		"report\n"
		"it. not tried: this host lacks what is needed, and the sentence says what. "
		"Nothing\n"
		"that could harm the host is done, even if a hole is found. The exit code is 0 if\n"
		"all that was tried holds, 1 if there is a hole, 2 if it could not be run.",
	.flags = flags,
	.examples = examples,
	.run = run,
};
