#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/berth/command.h"
#include "cmd/berth/haul.h"
#include "cmd/berth/screen.h"

#define EVENT_ARENA_MAX (1024 * 1024)

enum { WATCH_RECURSIVE, WATCH_INCLUDE, WATCH_EXCLUDE };

struct watching {
	struct haul *haul;
	struct remote remote;
	struct buf line;
};

/* Of each kind of event some. */
struct told {
	struct str name, path, path_base64, from, from_base64, message, error, code;
	bool is_directory;
};

/* clang-format off */
static const struct json_field told_fields[] = {
	{ "path",         JSON_STRING, offsetof(struct told, path) },
	{ "path_base64",  JSON_STRING, offsetof(struct told, path_base64) },
	{ "from",         JSON_STRING, offsetof(struct told, from) },
	{ "from_base64",  JSON_STRING, offsetof(struct told, from_base64) },
	{ "is_directory", JSON_BOOL,   offsetof(struct told, is_directory) },
	{ "message",      JSON_STRING, offsetof(struct told, message) },
	{ "error",        JSON_STRING, offsetof(struct told, error) },
	{ "code",         JSON_STRING, offsetof(struct told, code) },
	{ "*",            JSON_IGNORED },
	{ NULL },
};
/* clang-format on */

/* "move    /workspace/a -> /workspace/b" */
static int format_text(struct buf *line, struct str event, const struct told *told)
{
	const char *slash = told->is_directory ? "/" : "";
	int r = buf_printf(line, "%-8s ", screen_text(event).text);

	if (r == 0 && (told->from.len || told->from_base64.len))
		r = buf_printf(line, "%s%s -> ",
			       remote_readable(told->from, told->from_base64).text, slash);
	if (r == 0 && (told->path.len || told->path_base64.len))
		r = buf_printf(line, "%s%s\n", remote_readable(told->path, told->path_base64).text,
			       slash);
	else if (r == 0)
		r = buf_printf(line, "%s\n", screen_text(told->message).text);
	return r;
}

/* As it came, with the event's name in it. */
static int format_json(struct buf *line, const struct sse_event *event)
{
	if (event->data.len < 2 || event->data.at[0] != '{')
		return -EPROTO;
	return buf_printf(line, "{\"event\":\"%s\"%s%.*s\n", screen_text(event->event).text,
			  event->data.len > 2 ? "," : "", (int)event->data.len - 1,
			  event->data.at + 1);
}

static int show(struct watching *watching, const struct sse_event *event, const struct told *told)
{
	struct haul *haul = watching->haul;
	int r = haul->globals->json ? format_json(&watching->line, event)
				    : format_text(&watching->line, event->event, told);

	if (r < 0)
		return haul_fail(haul, r, "an event cannot be understood (is it berthd's?)");
	r = command_pass_on(haul->interrupt_fd, STDOUT_FILENO, buf_at(&watching->line),
			    buf_len(&watching->line));
	buf_consume(&watching->line, buf_len(&watching->line));
	return r;
}

static int on_event(void *arg, const struct sse_event *event)
{
	struct watching *watching = arg;
	struct haul *haul = watching->haul;
	struct told told = {0};
	struct arena arena;
	int r;

	arena_init(&arena, EVENT_ARENA_MAX);
	if (json_parse(&arena, event->data, told_fields, &told, NULL) < 0)
		r = haul_fail(haul, -EPROTO, "an event cannot be understood (is it berthd's?)");
	else
		r = show(watching, event, &told);
	if (r == 0 && str_eq(event->event, STR("error")))
		r = haul_fail(haul, -EREMOTEIO, "%s (%s)", screen_text(told.error).text,
			      screen_text(told.code).text);
	else if (r == 0 && str_eq(event->event, STR("end")))
		r = 1;
	arena_close(&arena);
	return r;
}

static int watch(struct watching *watching, const struct call *call)
{
	struct haul *haul = watching->haul;
	int r = remote_target(&watching->remote, "watch", &haul->target);

	if (r == 0)
		r = buf_printf(&haul->target, "?recursive=%d", !!call->values[WATCH_RECURSIVE]);
	if (r == 0)
		r = haul_patterns(haul, call, WATCH_INCLUDE, "include");
	if (r == 0)
		r = haul_patterns(haul, call, WATCH_EXCLUDE, "exclude");
	if (r < 0)
		return haul_fail(haul, r, "the path and the patterns are too long");
	return haul_events(haul, "GET", on_event, watching);
}

static int check_patterns(const struct call *call)
{
	for (size_t i = 0; i < call->given_count; i++) {
		if (strchr(call->given[i].value, ','))
			return usage_error("--include and --exclude take one pattern, without a "
					   "comma; give them more than once");
	}
	return EXIT_OK;
}

static int run(const struct call *call)
{
	struct watching watching = {0};
	struct haul haul;
	int code;

	if (call->arg_count == 0)
		return usage_error("what should be watched? berth watch ID[:PATH]");
	code = remote_parse(call->args[0], &watching.remote);
	if (code == EXIT_OK)
		code = check_patterns(call);
	if (code == EXIT_OK)
		code = haul_init(&haul, call->globals);
	if (code != EXIT_OK)
		return code;
	watching.haul = &haul;
	buf_init(&watching.line, CLIENT_EVENT_MAX);
	code = haul_finish(&haul, watch(&watching, call));
	buf_close(&watching.line);
	haul_close(&haul);
	return code;
}

/* clang-format off */
static const struct flag flags[] = {
	[WATCH_RECURSIVE] = { "--recursive", NULL,      "everything below it too", "-r" },
	[WATCH_INCLUDE]   = { "--include",   "PATTERN", "tell only of paths below it such as *.py; may be repeated" },
	[WATCH_EXCLUDE]   = { "--exclude",   "PATTERN", "leave out such paths, and what is below them; may be repeated" },
	{ NULL },
};

static const struct example examples[] = {
	{ "berth watch box",                                  "what comes, changes and goes in /workspace" },
	{ "berth watch -r --exclude node_modules box:app",    "all that is below a directory, but for a part of it" },
	{ "berth watch --json box:app/config.json",           "one file, an event in each line" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_watch = {
	.name = "watch",
	.summary = "tell what changes in a sandbox's files",
	.arguments = "ID[:PATH]",
	.arg_max = 1,
	.description =
		"Prints a line for each thing that is created, modified, deleted or moved in a\n"
		"directory, /workspace by default, or for each change of a file. `ready` says\n"
		"that nothing is missed from there on, `overflow` that something was: then look\n"
		"at everything again. Ends when the directory is gone, or the sandbox stops.",
	.flags = flags,
	.examples = examples,
	.run = run,
};
