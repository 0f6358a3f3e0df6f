#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cmd/berth/named.h"
#include "cmd/berth/sandbox.h"
#include "cmd/berth/screen.h"
#include "cmd/berth/session.h"

struct context_info {
	struct str id, language, state, cwd;
	uint64_t waiting, calls;
	bool is_default;
};

/* clang-format off */
static const struct json_field context_fields[] = {
	{ "id",       JSON_STRING, offsetof(struct context_info, id), true },
	{ "language", JSON_STRING, offsetof(struct context_info, language) },
	{ "state",    JSON_STRING, offsetof(struct context_info, state) },
	{ "cwd",      JSON_STRING, offsetof(struct context_info, cwd) },
	{ "waiting",  JSON_UINT,   offsetof(struct context_info, waiting) },
	{ "calls",    JSON_UINT,   offsetof(struct context_info, calls) },
	{ "default",  JSON_BOOL,   offsetof(struct context_info, is_default) },
	{ "*",        JSON_IGNORED },
	{ NULL },
};

static const struct json_field list_fields[] = {
	{ "contexts", JSON_OBJECTS, 0, true, .fields = context_fields,
	  .size = sizeof(struct context_info) },
	{ "*",        JSON_IGNORED },
	{ NULL },
};
/* clang-format on */

/* NULL: all of them. */
static int make_target(struct haul *haul, const char *id, const char *context)
{
	char path[SANDBOX_PATH_MAX];
	int r = sandbox_path(id, "/context", path, &haul->err);

	if (r == 0 && context && session_check(context, &haul->err) < 0)
		r = err_set(&haul->err, -EDESTADDRREQ, ERR_INVALID_REQUEST,
			    "`%s` is no context's ID: `berth context ls ID` lists them",
			    screen_text(str_of(context)).text);
	if (r < 0)
		return r;
	r = buf_printf(&haul->target, "%s%s%s", path, context ? "/" : "", context ? context : "");
	return r < 0 ? haul_fail(haul, r, "out of memory") : 0;
}

static void print_table(FILE *out, const struct json_objects *list)
{
	const struct context_info *infos = list->items;
	int width = sizeof("CONTEXT") - 1;

	for (size_t i = 0; i < list->len; i++) {
		int len = (int)strlen(screen_text(infos[i].id).text);

		width = len > width ? len : width;
	}
	fprintf(out, "%s%-*s  %-10s  %-8s  %7s  %7s  %-7s  %s%s\n", screen_tint(stdout, TINT_DIM),
		width, "CONTEXT", "LANGUAGE", "STATE", "WAITING", "CALLS", "DEFAULT", "BEGINS IN",
		screen_tint(stdout, TINT_NONE));
	for (size_t i = 0; i < list->len; i++)
		fprintf(out, "%-*s  %-10s  %-8s  %7" PRIu64 "  %7" PRIu64 "  %-7s  %s\n", width,
			screen_text(infos[i].id).text, screen_text(infos[i].language).text,
			screen_text(infos[i].state).text, infos[i].waiting, infos[i].calls,
			infos[i].is_default ? "yes" : "-", screen_text(infos[i].cwd).text);
}

static const struct named contexts = {make_target, list_fields, print_table};

static int run(const struct call *call)
{
	bool is_list = call->arg_count && strcmp(call->args[0], "ls") == 0;
	bool is_removal = call->arg_count && strcmp(call->args[0], "rm") == 0;
	int code = EXIT_OK;

	if (!is_list && !is_removal)
		return usage_error("what about contexts? berth context ls ID, or berth context rm "
				   "ID CONTEXT");
	if (is_list && call->arg_count != 2)
		return usage_error("of which sandbox? berth context ls ID");
	if (is_list)
		return named_list(call, &contexts);
	if (call->arg_count < 3)
		return usage_error("which context? berth context rm ID CONTEXT");
	for (size_t i = 2; i < call->arg_count; i++)
		code = named_remove(call, &contexts, call->args[i], code);
	return code;
}

/* clang-format off */
static const struct example examples[] = {
	{ "echo 'x = 1' | berth code box",        "made by the first code of its language" },
	{ "berth context ls box",                 "which there are, and whether code runs" },
	{ "berth context rm box default-python",  "end its interpreter, and all that runs in it" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_context = {
	.name = "context",
	.summary = "list or remove the live interpreters of a sandbox",
	.arguments = "ls|rm ID [CONTEXT...]",
	.arg_max = VERB_ARGS_ANY,
	.description =
		"A context is an interpreter in which what was defined lasts from one piece of "
		"code\n"
		"to the next; `berth code` and `repl` run code in the default one of its "
		"language,\n"
		"or in the one that --context names. A sandbox may have 32. `ls` lists them, and\n"
		"wakes none; `rm` removes some, and is done when all that was started in them is\n"
		"gone, also what goes on behind a timeout.",
	.examples = examples,
	.run = run,
};
