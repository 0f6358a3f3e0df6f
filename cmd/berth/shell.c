#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cmd/berth/command.h"
#include "cmd/berth/sandbox.h"
#include "cmd/berth/screen.h"
#include "cmd/berth/view.h"

#define REQUEST_MAX (4 * 1024 * 1024)

enum { SHELL_CWD, SHELL_USER, SHELL_ENV, SHELL_DETACH };

/* What our own terminal understands, and what was given. Of two with one name the last counts. */
static void write_env(struct json_writer *w, const struct call *call)
{
	const char *term = getenv("TERM");
	bool has_term = false;

	json_key(w, "env");
	json_object(w);
	for (size_t i = 0; i < call->given_count; i++) {
		struct str name, value;

		if (call->given[i].flag != SHELL_ENV)
			continue;
		command_env(call->given[i].value, &name, &value);
		has_term = has_term || str_eq(name, STR("TERM"));
		json_key_str(w, name);
		json_str(w, value);
	}
	if (!has_term && term && *term) {
		json_key(w, "TERM");
		json_text(w, term);
	}
	json_object_end(w);
}

static int put_request(struct buf *out, const struct call *call)
{
	cleanup(json_writer_close) struct json_writer w;
	unsigned cols, rows;

	view_size(&cols, &rows);
	json_writer_init(&w, false);
	json_object(&w);
	if (call->command_len) {
		json_key(&w, "argv");
		json_array(&w);
		for (size_t i = 0; i < call->command_len; i++)
			json_text(&w, call->command[i]);
		json_array_end(&w);
	}
	if (call->values[SHELL_CWD]) {
		json_key(&w, "cwd");
		json_text(&w, call->values[SHELL_CWD]);
	}
	if (call->values[SHELL_USER]) {
		json_key(&w, "user");
		json_text(&w, call->values[SHELL_USER]);
	}
	write_env(&w, call);
	json_key(&w, "cols");
	json_int(&w, cols);
	json_key(&w, "rows");
	json_int(&w, rows);
	json_object_end(&w);
	return json_writer_end(&w, out);
}

struct started {
	struct str id;
};

static int start(const struct call *call, struct arena *arena, struct started *ret)
{
	static const struct json_field fields[] = {
		{"id", JSON_STRING, offsetof(struct started, id), true, 0, NULL, 0},
		{"*", JSON_IGNORED, 0, false, 0, NULL, 0},
		{NULL, JSON_BOOL, 0, false, 0, NULL, 0},
	};
	cleanup(answer_close) struct answer answer;
	char path[SANDBOX_PATH_MAX];
	struct client_request request = {
		.method = "POST", .path = path, .timeout_ms = CLIENT_WAIT_MS};
	struct buf body;
	struct err err;
	int r = sandbox_path(call->args[0], "/terminals", path, &err);

	answer_init(&answer);
	buf_init(&body, REQUEST_MAX);
	if (r == 0 && put_request(&body, call) < 0)
		r = err_set(&err, -EINVAL, ERR_INVALID_REQUEST,
			    "what is to be run must be UTF-8, and no variable may be given twice");
	request.body = (struct str){buf_at(&body), buf_len(&body)};
	if (r == 0)
		r = client_send(call->globals, &request, &answer, &err);
	if (r == 0)
		r = json_parse(arena, (struct str){buf_at(&answer.body), buf_len(&answer.body)},
			       fields, ret, &err);
	buf_close(&body);
	if (r == 0)
		return EXIT_OK;
	client_failed(call->globals, &answer, r, &err);
	return EXIT_NOT_RUN;
}

static int run(const struct call *call)
{
	struct view view = {.is_new = true};
	struct started started;
	struct arena arena;
	int code;

	if (call->arg_count == 0) {
		usage_error("in which sandbox? berth shell ID");
		return EXIT_NOT_RUN;
	}
	for (size_t i = 0; i < call->given_count; i++) {
		struct str name, value;

		if (call->given[i].flag == SHELL_ENV &&
		    command_env(call->given[i].value, &name, &value) != EXIT_OK)
			return EXIT_NOT_RUN;
	}
	code = view_init(&view, call->globals, call->values[SHELL_DETACH]);
	if (code != EXIT_OK)
		return code;
	arena_init(&arena, SANDBOX_ARENA_MAX);
	code = start(call, &arena, &started);
	if (code == EXIT_OK) {
		view.id = call->args[0];
		view.terminal = started.id.at;
		code = view_run(&view);
	}
	arena_close(&arena);
	return code;
}

/* clang-format off */
static const struct flag flags[] = {
	[SHELL_CWD]    = { "--cwd",  "DIR",        "where to run it (/workspace)", "-w" },
	[SHELL_USER]   = { "--user", "USER",       "as whom: a name, a uid, or uid:gid", "-u" },
	[SHELL_ENV]    = { "--env",  "NAME=VALUE", "set a variable; NAME alone passes ours on", "-e" },
	[SHELL_DETACH] = VIEW_DETACH_FLAG,
	{ NULL },
};

static const struct example examples[] = {
	{ "berth shell web",            "bash in the sandbox `web`, or sh" },
	{ "berth shell web -- htop",    "another program that wants a terminal" },
	{ "berth shell -w /tmp -u 1000 web", "somewhere else, as somebody else" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_shell = {
	.name = "shell",
	.summary = "open a terminal in a sandbox",
	.arguments = "ID [-- PROGRAM [ARG...]]",
	.arg_max = 1,
	.has_command = true,
	.gives_code = true,
	.description =
		"Opens a terminal in a sandbox, which is made or started if need be, and gives it\n"
		"yours until its program ends; the exit code is the program's own, or 125 if it\n"
		"was Berth that failed, the command line was wrong, or the program could not be\n"
		"started. Ctrl-P Ctrl-Q leaves it running, and the code is 0; a connection that\n"
		"ends leaves it running, too. `berth attach` comes back to it.",
	.flags = flags,
	.examples = examples,
	.run = run,
};
