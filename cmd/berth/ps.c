#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cmd/berth/process.h"
#include "cmd/berth/screen.h"

#define COMMAND_WIDTH 60

enum { PS_RUNNING, PS_QUIET, PS_TERMINALS };

static bool is_running(const struct process_info *info)
{
	return str_eq(info->state, STR("running"));
}

/* "running", "exited 3", "signal 9", or what else became of it. */
static struct screen_text status_of(const struct process_info *info)
{
	struct screen_text text = screen_text(info->reason.len ? info->reason : info->state);

	if (str_eq(info->reason, STR("exited")) && info->exit_code_given)
		snprintf(text.text, sizeof(text.text), "exited %" PRId64, info->exit_code);
	else if (str_eq(info->reason, STR("signaled")))
		snprintf(text.text, sizeof(text.text), "signal %" PRIu64, info->signal);
	return text;
}

static enum tint tint_of(const struct process_info *info)
{
	if (is_running(info))
		return TINT_GOOD;
	return str_eq(info->reason, STR("exited")) && info->exit_code == 0 ? TINT_DIM : TINT_BAD;
}

/* As much of it as a line has room for. */
static void print_command(FILE *out, const struct json_strings *command)
{
	size_t room = COMMAND_WIDTH;

	for (size_t i = 0; i < command->len && room; i++) {
		struct screen_text word = screen_text(command->items[i]);
		size_t len = strlen(word.text);
		bool is_cut = len > room;

		/* Not within a character of UTF-8. */
		for (len = is_cut ? room : len; is_cut && len && (word.text[len] & 0xc0) == 0x80;)
			len--;
		fprintf(out, "%s%.*s%s", i ? " " : "", (int)len, word.text, is_cut ? "..." : "");
		room -= is_cut ? room : len;
	}
	fputc('\n', out);
}

struct widths {
	int id, status;
};

static void widen(int *width, struct screen_text text)
{
	if ((int)strlen(text.text) > *width)
		*width = (int)strlen(text.text);
}

static void print_row(FILE *out, const struct widths *widths, const struct process_info *info)
{
	fprintf(out, "%-*s  %s%-*s%s  %6" PRIu64 "  %-24.24s  ", widths->id,
		screen_text(info->id).text, screen_tint(stdout, tint_of(info)), widths->status,
		status_of(info).text, screen_tint(stdout, TINT_NONE), info->pid,
		screen_text(info->started_at).text);
	print_command(out, &info->command);
}

static void print_table(FILE *out, const char *noun, const struct process_info *infos, size_t count)
{
	struct widths widths = {(int)strlen(noun), sizeof("STATUS") - 1};

	for (size_t i = 0; i < count; i++) {
		widen(&widths.id, screen_text(infos[i].id));
		widen(&widths.status, status_of(&infos[i]));
	}
	fprintf(out, "%s%-*s  %-*s  %6s  %-24s  %s%s\n", screen_tint(stdout, TINT_DIM), widths.id,
		noun, widths.status, "STATUS", "PID", "STARTED", "COMMAND",
		screen_tint(stdout, TINT_NONE));
	for (size_t i = 0; i < count; i++)
		print_row(out, &widths, &infos[i]);
}

/* Moves those that are wanted to the front, and says how many they are. */
static size_t choose(const struct call *call, struct process_info *infos, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++)
		if (!call->values[PS_RUNNING] || is_running(&infos[i]))
			infos[kept++] = infos[i];
	return kept;
}

/* Through memory: whoever reads it may sleep, and Ctrl-C is to be heard. */
static int print(struct haul *haul, const struct call *call, const struct json_objects *list)
{
	struct process_info *infos = list->items;
	cleanup_free char *text = NULL;
	size_t len = 0, count = choose(call, infos, list->len);
	FILE *out = open_memstream(&text, &len);

	if (out && call->values[PS_QUIET]) {
		for (size_t i = 0; i < count; i++)
			fprintf(out, "%s\n", screen_text(infos[i].id).text);
	} else if (out) {
		print_table(out, call->values[PS_TERMINALS] ? "TERMINAL" : "PROCESS", infos, count);
	}
	if (!out || fclose(out) != 0)
		return haul_fail(haul, -ENOMEM, "out of memory");
	return haul_print(haul, (struct str){text, len});
}

static int list(struct haul *haul, const struct call *call)
{
	struct json_objects list;
	struct arena arena;
	int r = call->values[PS_TERMINALS] ? terminal_target(haul, call->args[0], NULL, "")
					   : process_target(haul, call->args[0], NULL, "");

	if (r == 0)
		r = haul_ask(haul, "GET");
	if (r < 0)
		return r;
	if (call->globals->json)
		return haul_print_answer(haul);
	arena_init(&arena, PROCESS_ARENA_MAX);
	r = process_list_parse(&arena, &haul->answer, &list, &haul->err);
	if (r == 0)
		r = print(haul, call, &list);
	arena_close(&arena);
	return r;
}

static int run(const struct call *call)
{
	struct haul haul;
	int code;

	if (call->arg_count == 0)
		return usage_error("of which sandbox? berth ps ID");
	if (call->globals->json && (call->values[PS_RUNNING] || call->values[PS_QUIET]))
		return usage_error("--json prints all that the daemon tells: without -r and -q");
	code = haul_init(&haul, call->globals);
	if (code != EXIT_OK)
		return code;
	code = haul_finish(&haul, list(&haul, call));
	haul_close(&haul);
	return code;
}

/* clang-format off */
static const struct flag flags[] = {
	[PS_RUNNING] = { "--running", NULL, "only those that run", "-r" },
	[PS_QUIET]   = { "--quiet",   NULL, "only their IDs", "-q" },
	[PS_TERMINALS] = { "--terminals", NULL, "its terminals instead", "-t" },
	{ NULL },
};

static const struct example examples[] = {
	{ "berth ps box",                           "those that run, and how the others ended" },
	{ "berth kill box $(berth ps -r -q box)",   "ask all that run to end" },
	{ "berth ps -t box",                        "which terminals there are: see attach" },
	{ "berth ps --json box | jq '.[].log.end'", "as the daemon sends it" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_ps = {
	.name = "ps",
	.summary = "list a sandbox's background processes",
	.arguments = "ID",
	.arg_max = 1,
	.description =
		"Lists the background processes of a sandbox, oldest first: those that run, and\n"
		"of those that have ended the last 256. PID is as the sandbox sees it. Looking\n"
		"wakes no sandbox. `berth exec --detach` starts one, `berth shell` a terminal.",
	.flags = flags,
	.examples = examples,
	.run = run,
};
