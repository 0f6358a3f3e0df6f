#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cmd/berth/process.h"
#include "cmd/berth/sandbox.h"
#include "cmd/berth/screen.h"
#include "cmd/berth/view.h"
#include "proto/sandbox_id.h"

enum { ATTACH_DETACH };

/* The newest that runs; NULL, and why. */
static const char *find(const struct call *call, struct arena *arena)
{
	cleanup(answer_close) struct answer answer;
	struct json_objects list = {NULL, 0};
	const struct process_info *infos;
	char path[SANDBOX_PATH_MAX];
	const char *found = NULL;
	struct err err;
	int r = sandbox_path(call->args[0], "/terminals", path, &err);

	answer_init(&answer);
	if (r == 0)
		r = client_get(call->globals, path, &answer, &err);
	if (r == 0)
		r = process_list_parse(arena, &answer, &list, &err);
	if (r < 0) {
		client_failed(call->globals, &answer, r, &err);
		return NULL;
	}
	infos = list.items;
	for (size_t i = 0; i < list.len; i++)
		if (str_eq(infos[i].state, STR("running")))
			found = infos[i].id.at;
	if (!found)
		screen_error("no terminal runs in the sandbox %s; to open one: berth shell %s",
			     screen_text(str_of(call->args[0])).text,
			     screen_text(str_of(call->args[0])).text);
	return found;
}

/* Is it there? Whatever is wrong is told here, as by any other verb. */
static const char *check(const struct call *call)
{
	cleanup(answer_close) struct answer answer;
	char path[SANDBOX_PATH_MAX], suffix[80];
	struct sandbox_id id;
	struct err err;
	int r = 0;

	answer_init(&answer);
	if (sandbox_id_parse(str_of(call->args[1]), &id) < 0)
		r = err_set(&err, -EDESTADDRREQ, ERR_INVALID_REQUEST,
			    "\"%s\" is no ID of a terminal",
			    screen_text(str_of(call->args[1])).text);
	snprintf(suffix, sizeof(suffix), "/terminals/%s", r == 0 ? id.text : "");
	if (r == 0)
		r = sandbox_path(call->args[0], suffix, path, &err);
	if (r == 0)
		r = client_get(call->globals, path, &answer, &err);
	if (r == 0)
		return call->args[1];
	client_failed(call->globals, &answer, r, &err);
	return NULL;
}

static int run(const struct call *call)
{
	struct view view = {.is_new = false};
	struct arena arena;
	int code;

	if (call->arg_count == 0) {
		usage_error("to which sandbox? berth attach ID [TERMINAL]");
		return EXIT_NOT_RUN;
	}
	code = view_init(&view, call->globals, call->values[ATTACH_DETACH]);
	if (code != EXIT_OK)
		return code;
	arena_init(&arena, PROCESS_ARENA_MAX);
	view.id = call->args[0];
	view.terminal = call->arg_count > 1 ? check(call) : find(call, &arena);
	code = view.terminal ? view_run(&view) : EXIT_NOT_RUN;
	arena_close(&arena);
	return code;
}

/* clang-format off */
static const struct flag flags[] = {
	[ATTACH_DETACH] = VIEW_DETACH_FLAG,
	{ NULL },
};

static const struct example examples[] = {
	{ "berth attach web",      "the newest terminal that runs in `web`" },
	{ "berth attach web main", "the one with that ID" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_attach = {
	.name = "attach",
	.summary = "come back to a terminal of a sandbox",
	.arguments = "ID [TERMINAL]",
	.arg_max = 2,
	.gives_code = true,
	.description =
		"Shows a terminal that `berth shell` or the API has opened, with its recent\n"
		"screen, and gives it yours. Several may look at one and type. The exit code is\n"
		"the program's own when it ends, or 125 if it was Berth that failed, or the\n"
		"command line was wrong. Ctrl-P Ctrl-Q leaves it running, and the code is 0.",
	.flags = flags,
	.examples = examples,
	.run = run,
};
