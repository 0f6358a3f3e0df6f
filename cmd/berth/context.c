#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cmd/berth/code.h"
#include "cmd/berth/named.h"
#include "cmd/berth/sandbox.h"
#include "cmd/berth/screen.h"
#include "cmd/berth/session.h"
#include "proto/kernel.h"

enum { CONTEXT_LANG, CONTEXT_CWD, CONTEXT_ENV };

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

/* --- a new one --- */

static int make_body(struct haul *haul, const struct call *call)
{
	const char *wanted = call->values[CONTEXT_LANG];
	int language = wanted ? kernel_language_find(str_of(wanted)) : KERNEL_PYTHON;
	struct code_env env = {call, CONTEXT_ENV};
	struct code_context context = {
		.id = call->arg_count > 2 ? call->args[2] : NULL,
		.language = kernel_language_name((enum kernel_language)language),
		.cwd = call->values[CONTEXT_CWD],
		.env = &env,
	};

	if (context.id && session_check(context.id, &haul->err) < 0)
		return err_set(&haul->err, -EDESTADDRREQ, ERR_INVALID_REQUEST,
			       "`%s` cannot be a context's ID: 1 to %d of letters, digits and "
			       "_.:-, and a letter or a digit first",
			       screen_text(str_of(context.id)).text, SESSION_ID_MAX);
	if (code_context_write(&context, &haul->body) < 0)
		return haul_fail(haul, -EINVAL,
				 "the variables and the folder must be text (UTF-8), and not too "
				 "long");
	return 0;
}

static int print_id(struct haul *haul)
{
	char id[CODE_CONTEXT_MAX];
	int r = code_context_id(&haul->answer, id, &haul->err);

	if (r == 0)
		printf("%s\n", id);
	return r;
}

/* That there is one is told in our words: the API's are of its own requests. */
static int explain(struct haul *haul, const struct call *call, int r)
{
	const char *context = call->arg_count > 2 ? call->args[2] : NULL, *language;
	struct err err;

	if (r != -EREMOTEIO || haul->answer.status != 409 || !context ||
	    code_context_language(haul->globals, call->args[1], context, &language, &err) < 0)
		return r;
	return err_set(&haul->err, r, ERR_CONFLICT,
		       "there is a context `%s` already: `berth context rm %s %s` removes it",
		       context, call->args[1], context);
}

static int create(const struct call *call)
{
	struct haul haul;
	int code = haul_init(&haul, call->globals), r;

	if (code != EXIT_OK)
		return code;
	r = make_target(&haul, call->args[1], NULL);
	if (r == 0)
		r = make_body(&haul, call);
	if (r == 0)
		r = explain(&haul, call, haul_ask(&haul, "POST"));
	if (r == 0)
		r = call->globals->json ? haul_print_answer(&haul) : print_id(&haul);
	code = haul_finish(&haul, r);
	haul_close(&haul);
	return code;
}

static int check_and_create(const struct call *call)
{
	const char *language = call->values[CONTEXT_LANG];

	if (call->arg_count < 2 || call->arg_count > 3)
		return usage_error("in which sandbox? berth context create ID [CONTEXT]");
	if (language && kernel_language_find(str_of(language)) < 0)
		return usage_error("--lang wants python, javascript, typescript or bash");
	if (code_env_check(&(struct code_env){call, CONTEXT_ENV}) != EXIT_OK)
		return EXIT_USAGE;
	return create(call);
}

static int run(const struct call *call)
{
	const char *what = call->arg_count ? call->args[0] : "";
	int code = EXIT_OK;

	if (strcmp(what, "create") == 0)
		return check_and_create(call);
	if (strcmp(what, "ls") != 0 && strcmp(what, "rm") != 0)
		return usage_error("what about contexts? berth context create ID [CONTEXT], berth "
				   "context ls ID, or berth context rm ID CONTEXT");
	if (call->given_count)
		return usage_error("--lang, --cwd and --env are for berth context create");
	if (strcmp(what, "ls") == 0 && call->arg_count != 2)
		return usage_error("of which sandbox? berth context ls ID");
	if (strcmp(what, "ls") == 0)
		return named_list(call, &contexts);
	if (call->arg_count < 3)
		return usage_error("which context? berth context rm ID CONTEXT");
	for (size_t i = 2; i < call->arg_count; i++)
		code = named_remove(call, &contexts, call->args[i], code);
	return code;
}

/* clang-format off */
static const struct flag flags[] = {
	[CONTEXT_LANG] = { "--lang", "LANGUAGE",   "python (as without it), javascript, typescript or bash", "-l" },
	[CONTEXT_CWD]  = { "--cwd",  "DIR",        "where it begins (/workspace)", "-w" },
	[CONTEXT_ENV]  = { "--env",  "NAME=VALUE", "set a variable; NAME alone passes ours on", "-e" },
	{ NULL },
};

static const struct example examples[] = {
	{ "echo 'x = 1' | berth code box",            "made by the first code of its language" },
	{ "berth context create -l js -e A=1 box web", "one more, and `berth code -c web box` runs code in it" },
	{ "berth context ls box",                     "which there are, and whether code runs" },
	{ "berth context rm box default-python",      "end its interpreter, and all that runs in it" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_context = {
	.name = "context",
	.summary = "make, list or remove the live interpreters of a sandbox",
	.arguments = "create|ls|rm ID [CONTEXT...]",
	.arg_max = VERB_ARGS_ANY,
	.description =
		"A context is an interpreter in which what was defined lasts from one piece of "
		"code\n"
		"to the next; `berth code` and `repl` run code in the default one of its "
		"language,\n"
		"or in the one that --context names. A sandbox may have 32. `create` makes one, "
		"with\n"
		"variables and a folder of its own, and prints its ID; `ls` lists them, and wakes\n"
		"none; `rm` removes some, and is done when all that was started in them is gone,\n"
		"also what goes on behind a timeout.",
	.flags = flags,
	.examples = examples,
	.run = run,
};
