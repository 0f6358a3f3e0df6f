#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/berth/process.h"
#include "cmd/berth/screen.h"
#include "proto/units.h"

#define SIGNAL_MAX   64
#define GRACE_MAX_MS 600000

enum { KILL_SIGNAL, KILL_END, KILL_GRACE, KILL_ALL, KILL_TERMINAL };

struct killing {
	const struct call *call;
	int signal;
	uint64_t grace_ms;
	bool is_end;      /* for sure, and waits for it */
	bool is_terminal; /* the same, beginning with a hangup */
};

/* "9", "KILL", "SIGKILL", "kill"; 0: there is none such. */
static int signal_parse(const char *text)
{
	size_t digits = strspn(text, "0123456789");
	long number;

	if (digits && digits <= 2 && !text[digits]) {
		number = strtol(text, NULL, 10);
		return number <= SIGNAL_MAX ? (int)number : 0;
	}
	if (strncasecmp(text, "SIG", 3) == 0)
		text += 3;
	for (int i = 1; i < SIGRTMIN; i++) {
		const char *name = sigabbrev_np(i);

		if (name && strcasecmp(name, text) == 0)
			return i;
	}
	return 0;
}

static int request(struct haul *haul, const struct killing *killing, const char *process)
{
	const char *id = killing->call->args[0];
	int r;

	if (killing->is_terminal) {
		r = terminal_target(haul, id, process, "/terminate");
		return r < 0 ? r : haul_ask_long(haul, "POST");
	}
	r = process_target(haul, id, process, killing->is_end ? "" : "/kill");
	if (r < 0)
		return r;
	if (killing->is_end && killing->grace_ms)
		r = buf_printf(&haul->target, "?grace_ms=%" PRIu64, killing->grace_ms);
	else if (!killing->is_end)
		r = buf_printf(&haul->body, "{\"signal\":%d}", killing->signal);
	if (r < 0)
		return haul_fail(haul, r, "out of memory");
	return killing->is_end ? haul_ask_long(haul, "DELETE") : haul_ask(haul, "POST");
}

/* It may have taken the whole sandbox; or how it ended is not known. */
static void say_how(const struct process_info *info)
{
	if (info->message.len)
		screen_error("%s: %s", screen_text(info->id).text, screen_text(info->message).text);
}

static int print_one(struct haul *haul, const char *process)
{
	struct str answer = {buf_at(&haul->answer.body), buf_len(&haul->answer.body)};
	struct process_info info = {0};
	char name[64];
	struct arena arena;
	int r = 0;

	printf("%s\n", process_name(process, name));
	arena_init(&arena, PROCESS_ARENA_MAX);
	if (answer.len)
		r = json_parse(&arena, answer, process_fields, &info, &haul->err);
	if (r == 0)
		say_how(&info);
	arena_close(&arena);
	return r;
}

static int print_ended(struct haul *haul)
{
	const struct process_info *infos;
	struct json_objects list;
	struct arena arena;
	int r;

	arena_init(&arena, PROCESS_ARENA_MAX);
	r = process_list_parse(&arena, &haul->answer, &list, &haul->err);
	infos = list.items;
	for (size_t i = 0; r == 0 && i < list.len; i++) {
		printf("%s\n", screen_text(infos[i].id).text);
		say_how(&infos[i]);
	}
	arena_close(&arena);
	return r;
}

/* NULL: all of them. */
static int kill_one(const struct killing *killing, const char *process)
{
	struct haul haul;
	int code, r;

	code = haul_init(&haul, killing->call->globals);
	if (code != EXIT_OK)
		return code;
	r = request(&haul, killing, process);
	if (r == 0 && killing->call->globals->json)
		r = buf_len(&haul.answer.body) ? haul_print_answer(&haul) : 0;
	else if (r == 0 && process)
		r = print_one(&haul, process);
	else if (r == 0)
		r = print_ended(&haul);
	code = haul_finish(&haul, r);
	haul_close(&haul);
	return code;
}

static int kill_each(const struct killing *killing)
{
	const struct call *call = killing->call;
	int code = EXIT_OK;

	for (size_t i = 1; i < call->arg_count; i++) {
		int one = kill_one(killing, call->args[i]);

		code = one == EXIT_OK ? code : one;
		/* The others would fare no better, or are not wanted any more. */
		if (one == EXIT_NO_DAEMON || one > 128)
			break;
	}
	return code;
}

static int take_flags(struct killing *killing)
{
	const char *const *values = killing->call->values;

	killing->signal = values[KILL_SIGNAL] ? signal_parse(values[KILL_SIGNAL]) : SIGTERM;
	killing->is_end = values[KILL_END];
	killing->is_terminal = values[KILL_TERMINAL];
	if (killing->signal == 0)
		return usage_error("--signal wants a name such as TERM or HUP, or a number from 1 "
				   "to 64");
	if (values[KILL_TERMINAL] && (values[KILL_SIGNAL] || values[KILL_END]))
		return usage_error("--terminal hangs up, and ends what is left: without --signal "
				   "and --end");
	if (values[KILL_SIGNAL] && values[KILL_END])
		return usage_error("--end sends what it takes: without --signal");
	if (values[KILL_GRACE] &&
	    (duration_parse(str_of(values[KILL_GRACE]), &killing->grace_ms) < 0 ||
	     killing->grace_ms > GRACE_MAX_MS))
		return usage_error("--grace wants a duration such as 5s, at most 10m");
	if ((values[KILL_GRACE] || values[KILL_ALL]) && !values[KILL_END])
		return usage_error("--grace and --all are for --end");
	return EXIT_OK;
}

static int run(const struct call *call)
{
	struct killing killing = {.call = call};
	bool is_all = call->values[KILL_ALL];
	int code = take_flags(&killing);

	if (code != EXIT_OK)
		return code;
	if (is_all && call->arg_count != 1)
		return usage_error(
			"--all means all processes of one sandbox: berth kill --end --all "
			"ID");
	if (!is_all && call->arg_count < 2)
		return usage_error("which %s? `berth ps %sID` lists them",
				   killing.is_terminal ? "terminal" : "process",
				   killing.is_terminal ? "-t " : "");
	return is_all ? kill_one(&killing, NULL) : kill_each(&killing);
}

/* clang-format off */
static const struct flag flags[] = {
	[KILL_SIGNAL] = { "--signal", "SIGNAL",   "another than TERM, by name or number", "-s" },
	[KILL_END]    = { "--end",    NULL,       "end it for sure, and wait until it is gone" },
	[KILL_GRACE]  = { "--grace",  "DURATION", "with --end: send TERM first, and wait so long" },
	[KILL_ALL]    = { "--all",    NULL,       "with --end: all background processes of the sandbox" },
	[KILL_TERMINAL] = { "--terminal", NULL,   "terminals: hang up, and wait until they are gone", "-t" },
	{ NULL },
};

static const struct example examples[] = {
	{ "berth kill box web",                  "ask it to end" },
	{ "berth kill -s HUP box web",           "another signal" },
	{ "berth kill --end --grace 5s box web", "it is gone when this returns" },
	{ "berth kill --end --all box",          "all of them" },
	{ "berth kill -t box $(berth ps -t -q box)", "all terminals" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_kill = {
	.name = "kill",
	.summary = "send a signal to background processes, or end them",
	.arguments = "ID PROCESS...",
	.arg_max = VERB_ARGS_ANY,
	.description =
		"Sends a signal, TERM by default, to background processes and all that they have\n"
		"started. What they make of it is theirs, and one that has ended is past caring.\n"
		"With --end they are gone when this returns, whatever they do about signals, and\n"
		"do not come up again with the sandbox. Output and status are kept. If only\n"
		"the end of the whole sandbox proves that, it is stopped, and this says so.",
	.flags = flags,
	.examples = examples,
	.run = run,
};
