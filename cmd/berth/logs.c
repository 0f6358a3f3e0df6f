#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "cmd/berth/command.h"
#include "cmd/berth/process.h"
#include "cmd/berth/screen.h"
#include "proto/base64.h"

#define EVENT_ARENA_MAX (2 * CLIENT_EVENT_MAX)
#define CURSOR_MAX      20 /* digits */

enum { LOGS_FOLLOW, LOGS_SINCE, LOGS_STREAM };

struct reading {
	struct haul *haul;
	struct buf bytes; /* of one event */
};

/* Of each kind of event some. */
struct told {
	struct str data, error, code;
	uint64_t missing;
};

/* clang-format off */
static const struct json_field told_fields[] = {
	{ "data",  JSON_STRING, offsetof(struct told, data) },
	{ "bytes", JSON_UINT,   offsetof(struct told, missing) },
	{ "*",     JSON_IGNORED },
	{ NULL },
};

static const struct json_field error_fields[] = {
	{ "error", JSON_STRING, offsetof(struct told, error) },
	{ "code",  JSON_STRING, offsetof(struct told, code) },
	{ "*",     JSON_IGNORED },
	{ NULL },
};
/* clang-format on */

static int odd_event(struct haul *haul)
{
	return haul_fail(haul, -EPROTO, "an event cannot be understood (is it berthd's?)");
}

static int pass_on(struct reading *reading, int fd, struct str data)
{
	char *room;
	size_t len;
	int r;

	buf_consume(&reading->bytes, buf_len(&reading->bytes));
	room = buf_room(&reading->bytes, BASE64_DECODE_ROOM(data.len));
	if (!room)
		return haul_fail(reading->haul, -ENOMEM, "out of memory");
	if (base64_decode(data, room, &len) < 0)
		return odd_event(reading->haul);
	r = command_pass_on(reading->haul->interrupt_fd, fd, room, len);
	if (r < 0 && r != -EINTR && r != -EPIPE)
		return haul_fail(reading->haul, r, "cannot write the output: %s", strerror(-r));
	return r;
}

static int show(struct reading *reading, struct str event, const struct told *told)
{
	if (str_eq(event, STR("stdout")))
		return pass_on(reading, STDOUT_FILENO, told->data);
	if (str_eq(event, STR("stderr")))
		return pass_on(reading, STDERR_FILENO, told->data);
	if (str_eq(event, STR("truncated")))
		screen_error("%" PRIu64 " bytes of output are not kept any more", told->missing);
	/* A newer daemon may tell of more. */
	return 0;
}

/* As it came: its type is in it. */
static int show_json(struct haul *haul, struct str data)
{
	int r = haul_print(haul, data);

	return r < 0 ? r : haul_print(haul, STR("\n"));
}

static int on_event(void *arg, const struct sse_event *event)
{
	struct reading *reading = arg;
	struct haul *haul = reading->haul;
	bool is_error = str_eq(event->event, STR("error"));
	struct told told = {0};
	struct arena arena;
	int r;

	arena_init(&arena, EVENT_ARENA_MAX);
	if (json_parse(&arena, event->data, is_error ? error_fields : told_fields, &told, NULL) < 0)
		r = odd_event(haul);
	else if (is_error)
		r = haul_fail(haul, -EREMOTEIO, "%s (%s)", screen_text(told.error).text,
			      screen_text(told.code).text);
	else
		r = haul->globals->json ? show_json(haul, event->data)
					: show(reading, event->event, &told);
	if (r == 0 && str_eq(event->event, STR("exit")))
		r = 1;
	arena_close(&arena);
	return r;
}

/* "out" and "err" are short for the names that the daemon has. */
static const char *stream_name(const char *given)
{
	if (strcmp(given, "out") == 0 || strcmp(given, "stdout") == 0)
		return "stdout";
	return strcmp(given, "err") == 0 || strcmp(given, "stderr") == 0 ? "stderr" : NULL;
}

static bool is_cursor(const char *text)
{
	size_t len = strspn(text, "0123456789");

	return len > 0 && len <= CURSOR_MAX && !text[len];
}

static int read_logs(struct reading *reading, const struct call *call)
{
	/* From the very first byte, so that what is not kept any more is told. */
	const char *since = call->values[LOGS_SINCE] ? call->values[LOGS_SINCE] : "0";
	const char *stream = call->values[LOGS_STREAM];
	struct haul *haul = reading->haul;
	bool is_followed = call->values[LOGS_FOLLOW];
	int r = process_target(haul, call->args[0], call->args[1], "/logs");

	if (r < 0)
		return r;
	r = buf_printf(&haul->target, "?follow=%d&since=%s%s%s", is_followed, since,
		       stream ? "&stream=" : "", stream ? stream_name(stream) : "");
	if (r < 0)
		return haul_fail(haul, r, "out of memory");
	return is_followed ? haul_events(haul, "GET", on_event, reading)
			   : haul_events_now(haul, "GET", on_event, reading);
}

static int run(const struct call *call)
{
	struct reading reading = {0};
	struct haul haul;
	int code;

	if (call->arg_count < 2)
		return usage_error("of which process? berth logs ID PROCESS");
	if (call->values[LOGS_SINCE] && !is_cursor(call->values[LOGS_SINCE]))
		return usage_error("--since wants a cursor, a number that `logs --json` tells");
	if (call->values[LOGS_STREAM] && !stream_name(call->values[LOGS_STREAM]))
		return usage_error("--stream wants out or err");
	code = haul_init(&haul, call->globals);
	if (code != EXIT_OK)
		return code;
	reading.haul = &haul;
	buf_init(&reading.bytes, CLIENT_EVENT_MAX);
	code = haul_finish(&haul, read_logs(&reading, call));
	buf_close(&reading.bytes);
	haul_close(&haul);
	return code;
}

/* clang-format off */
static const struct flag flags[] = {
	[LOGS_FOLLOW] = { "--follow", NULL,      "go on until the process has ended", "-f" },
	[LOGS_SINCE]  = { "--since",  "CURSOR",  "only what comes behind it" },
	[LOGS_STREAM] = { "--stream", "out|err", "only standard output, or standard error" },
	{ NULL },
};

static const struct example examples[] = {
	{ "berth logs box web",                    "what it printed so far, as far as it is kept" },
	{ "berth logs -f box web",                 "and what it prints from now on" },
	{ "berth logs --stream err box web",       "standard error alone" },
	{ "berth logs --json --since 0 box web",   "an event in each line, with its time and cursor" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_logs = {
	.name = "logs",
	.summary = "print what a background process has printed",
	.arguments = "ID PROCESS",
	.arg_max = 2,
	.description =
		"Prints the output of a background process byte by byte, also of one that has\n"
		"ended: what it wrote to standard error goes there. What is not kept any more is\n"
		"said. With -f it goes on, without a gap, until the process has ended, however\n"
		"that was; Ctrl-C ends the reading and not the process.",
	.flags = flags,
	.examples = examples,
	.run = run,
};
