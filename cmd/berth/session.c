#include "cmd/berth/session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cmd/berth/named.h"
#include "cmd/berth/sandbox.h"
#include "cmd/berth/screen.h"

#define ALPHANUMERIC "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

struct session_info {
	struct str id, state, cwd, created_at;
	uint64_t waiting;
};

/* clang-format off */
static const struct json_field session_fields[] = {
	{ "id",         JSON_STRING, offsetof(struct session_info, id), true },
	{ "state",      JSON_STRING, offsetof(struct session_info, state) },
	{ "cwd",        JSON_STRING, offsetof(struct session_info, cwd) },
	{ "created_at", JSON_STRING, offsetof(struct session_info, created_at) },
	{ "waiting",    JSON_UINT,   offsetof(struct session_info, waiting) },
	{ "*",          JSON_IGNORED },
	{ NULL },
};

static const struct json_field list_fields[] = {
	{ "sessions", JSON_OBJECTS, 0, true, .fields = session_fields,
	  .size = sizeof(struct session_info) },
	{ "*",        JSON_IGNORED },
	{ NULL },
};
/* clang-format on */

int session_check(const char *session, struct err *err)
{
	size_t len = strspn(session, ALPHANUMERIC "_.:-");

	if (len > 0 && len <= SESSION_ID_MAX && !session[len] && strchr(ALPHANUMERIC, session[0]))
		return 0;
	return err_set(
		err, -EDESTADDRREQ, ERR_INVALID_REQUEST,
		"`%s` is no session's ID: 1 to %d of letters, digits and _.:-, and a letter or "
		"a digit first",
		screen_text(str_of(session)).text, SESSION_ID_MAX);
}

/* NULL: all of them. */
static int make_target(struct haul *haul, const char *id, const char *session)
{
	char path[SANDBOX_PATH_MAX];
	int r = sandbox_path(id, "/session", path, &haul->err);

	if (r == 0 && session)
		r = session_check(session, &haul->err);
	if (r < 0)
		return r;
	r = buf_printf(&haul->target, "%s%s%s", path, session ? "/" : "", session ? session : "");
	return r < 0 ? haul_fail(haul, r, "out of memory") : 0;
}

static void print_table(FILE *out, const struct json_objects *list)
{
	const struct session_info *infos = list->items;
	int width = sizeof("SESSION") - 1;

	for (size_t i = 0; i < list->len; i++) {
		int len = (int)strlen(screen_text(infos[i].id).text);

		width = len > width ? len : width;
	}
	fprintf(out, "%s%-*s  %-8s  %7s  %-24s  %s%s\n", screen_tint(stdout, TINT_DIM), width,
		"SESSION", "STATE", "WAITING", "CREATED", "BEGINS IN",
		screen_tint(stdout, TINT_NONE));
	for (size_t i = 0; i < list->len; i++)
		fprintf(out, "%-*s  %-8s  %7" PRIu64 "  %-24.24s  %s\n", width,
			screen_text(infos[i].id).text, screen_text(infos[i].state).text,
			infos[i].waiting, screen_text(infos[i].created_at).text,
			screen_text(infos[i].cwd).text);
}

static const struct named sessions = {make_target, list_fields, print_table};

static int run(const struct call *call)
{
	bool is_list = call->arg_count && strcmp(call->args[0], "ls") == 0;
	bool is_removal = call->arg_count && strcmp(call->args[0], "rm") == 0;
	int code = EXIT_OK;

	if (!is_list && !is_removal)
		return usage_error("what about sessions? berth session ls ID, or berth session rm "
				   "ID SESSION");
	if (is_list && call->arg_count != 2)
		return usage_error("of which sandbox? berth session ls ID");
	if (is_list)
		return named_list(call, &sessions);
	if (call->arg_count < 3)
		return usage_error("which session? berth session rm ID SESSION");
	for (size_t i = 2; i < call->arg_count; i++)
		code = named_remove(call, &sessions, call->args[i], code);
	return code;
}

/* clang-format off */
static const struct example examples[] = {
	{ "berth exec --session dev box -- cd /tmp", "made by the first command that runs in it" },
	{ "berth session ls box",                    "which there are, and whether a command runs" },
	{ "berth session rm box dev",                "end its shell, and all that runs in it" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_session = {
	.name = "session",
	.summary = "list or remove a sandbox's sessions",
	.arguments = "ls|rm ID [SESSION...]",
	.arg_max = VERB_ARGS_ANY,
	.description =
		"A session is a shell in which the directory, variables, functions and options\n"
		"last from one command to the next; `berth exec --session` runs one there.\n"
		"`ls` lists those of a sandbox, with the directory in which a fresh shell begins\n"
		"(not where it is by now), and wakes none; `rm` removes some, and is done when\n"
		"all that was started in them is gone.",
	.examples = examples,
	.run = run,
};
