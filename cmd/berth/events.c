#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd/berth/command.h"
#include "cmd/berth/haul.h"
#include "cmd/berth/sandbox.h"
#include "cmd/berth/screen.h"
#include "proto/time_text.h"

#define EVENT_ARENA_MAX (1024 * 1024)
#define NUMBER_MAX      18  /* digits */
#define AGAIN_MS        500 /* between two tries to reach a daemon that is away */

enum { EVENTS_FOLLOW, EVENTS_SINCE, EVENTS_TYPE };

struct following {
	struct haul *haul;
	const char *id, *types;
	bool is_followed;
	bool is_gap_told; /* one that was not asked for by number is none */
	bool has_begun;
	bool is_first; /* nothing was told before this one */
	uint64_t last;
	struct buf line;
};

/* Of each kind of event some. */
struct told {
	uint64_t id, after, newest;
	bool newest_given;
	struct str sandbox, at, alarm, mode, from, reason, message;
	struct str hostname;
	uint64_t generation, kills, exit_code, port, held, limit;
	bool exit_code_given;
};

/* clang-format off */
static const struct json_field told_fields[] = {
	{ "id",         JSON_UINT,   offsetof(struct told, id) },
	{ "after",      JSON_UINT,   offsetof(struct told, after) },
	{ "newest",     JSON_UINT,   offsetof(struct told, newest), false, offsetof(struct told, newest_given) },
	{ "sandbox",    JSON_STRING, offsetof(struct told, sandbox) },
	{ "generation", JSON_UINT,   offsetof(struct told, generation) },
	{ "at",         JSON_STRING, offsetof(struct told, at) },
	{ "alarm",      JSON_STRING, offsetof(struct told, alarm) },
	{ "port",       JSON_UINT,   offsetof(struct told, port) },
	{ "hostname",   JSON_STRING, offsetof(struct told, hostname) },
	{ "kills",      JSON_UINT,   offsetof(struct told, kills) },
	{ "held_bytes", JSON_UINT,   offsetof(struct told, held) },
	{ "limit_bytes", JSON_UINT,  offsetof(struct told, limit) },
	{ "mode",       JSON_STRING, offsetof(struct told, mode) },
	{ "from",       JSON_STRING, offsetof(struct told, from) },
	{ "reason",     JSON_STRING, offsetof(struct told, reason) },
	{ "exit_code",  JSON_UINT,   offsetof(struct told, exit_code), false, offsetof(struct told, exit_code_given) },
	{ "message",    JSON_STRING, offsetof(struct told, message) },
	{ "*",          JSON_IGNORED },
	{ NULL },
};
/* clang-format on */

static int print(struct following *f)
{
	int r = haul_print(f->haul, (struct str){buf_at(&f->line), buf_len(&f->line)});

	buf_consume(&f->line, buf_len(&f->line));
	return r;
}

/* As it happened here; what is no time is shown as it came. */
static void format_time(struct str at, char ret[32])
{
	int64_t at_ms;
	struct tm tm;
	time_t seconds;

	snprintf(ret, 32, "%.31s", screen_text(at).text);
	if (time_text_parse(at, &at_ms) < 0)
		return;
	seconds = at_ms / 1000;
	if (localtime_r(&seconds, &tm))
		strftime(ret, 32, "%Y-%m-%d %H:%M:%S", &tm);
}

static int put_word(struct buf *line, const char *before, struct str word)
{
	return word.len ? buf_printf(line, "%s%s, ", before, screen_text(word).text) : 0;
}

/* "2026-01-31 12:00:00  web              slept      freeze, idle, generation 3" */
static int format(struct buf *line, struct str event, const struct told *told)
{
	char at[32];
	int r;

	format_time(told->at, at);
	r = buf_printf(line, "%s  %-16s %-10s ", at, screen_text(told->sandbox).text,
		       screen_text(event).text);
	if (r == 0)
		r = put_word(line, "", told->alarm);
	if (r == 0 && told->port)
		r = buf_printf(line, "%" PRIu64 ", ", told->port);
	if (r == 0)
		r = put_word(line, "", told->hostname);
	if (r == 0 && told->kills)
		r = buf_printf(line, "killed %" PRIu64 ", ", told->kills);
	if (r == 0 && told->limit)
		r = buf_printf(line, "%s of %s, ", screen_bytes(told->held).text,
			       screen_bytes(told->limit).text);
	if (r == 0)
		r = put_word(line, "", told->mode);
	if (r == 0)
		r = put_word(line, "from ", told->from);
	if (r == 0)
		r = put_word(line, "", told->reason);
	if (r == 0 && told->exit_code_given)
		r = buf_printf(line, "exit code %" PRIu64 ", ", told->exit_code);
	if (r == 0)
		r = buf_printf(line, "generation %" PRIu64, told->generation);
	if (r == 0 && told->message.len)
		r = buf_printf(line, ": %s", screen_text(told->message).text);
	return r < 0 ? r : buf_printf(line, "\n");
}

static int show(struct following *f, const struct sse_event *event, const struct told *told)
{
	int r;

	if (f->haul->globals->json)
		r = buf_printf(&f->line, "%.*s\n", (int)event->data.len, event->data.at);
	else
		r = format(&f->line, event->event, told);
	return r < 0 ? haul_fail(f->haul, r, "an event is too long") : print(f);
}

static int show_gap(struct following *f, const struct sse_event *event, const struct told *told)
{
	bool is_told = f->is_gap_told;
	bool is_ahead = told->newest_given && told->after > told->newest;

	f->is_gap_told = true;
	if (!is_told)
		return 0;
	if (is_ahead && f->is_first)
		return haul_fail(f->haul, -ERANGE,
				 "there is no event %" PRIu64 " yet: the newest is %" PRIu64,
				 told->after, told->newest);
	if (f->haul->globals->json)
		return show(f, event, told);
	if (is_ahead)
		screen_error("berthd does not know of event %" PRIu64 " any more: the newest is "
			     "%" PRIu64 ", and what comes now is told",
			     told->after, told->newest);
	else
		screen_error("some events after %" PRIu64 " are not kept any more", told->after);
	return 0;
}

static int take(struct following *f, const struct sse_event *event, const struct told *told)
{
	int r = 0;

	if (str_eq(event->event, STR("gap")))
		r = show_gap(f, event, told);
	else if (!str_eq(event->event, STR("live")))
		r = show(f, event, told);
	f->is_gap_told = true;
	if (r == 0 && told->id)
		f->last = told->id;
	return r;
}

static int on_event(void *arg, const struct sse_event *event)
{
	struct following *f = arg;
	struct told told = {0};
	struct arena arena;
	int r;

	f->is_first = !f->has_begun;
	f->has_begun = true;
	arena_init(&arena, EVENT_ARENA_MAX);
	if (json_parse(&arena, event->data, told_fields, &told, NULL) < 0)
		r = haul_fail(f->haul, -EPROTO, "an event cannot be understood (is it berthd's?)");
	else
		r = take(f, event, &told);
	arena_close(&arena);
	return r;
}

static int read_once(struct following *f)
{
	char path[SANDBOX_PATH_MAX] = "/v1/events";
	struct haul *haul = f->haul;
	int r = f->id ? sandbox_path(f->id, "/events", path, &haul->err) : 0;

	if (r < 0)
		return r;
	r = buf_printf(&haul->target, "%s?follow=%d&last_event_id=%" PRIu64 "%s%s", path,
		       f->is_followed, f->last, f->types ? "&type=" : "", f->types ? f->types : "");
	if (r < 0)
		return haul_fail(haul, r, "out of memory");
	return haul_events_now(haul, "GET", on_event, f);
}

/* Nobody is there, or not any more: a daemon that is restarted comes back. */
static bool is_away(int r)
{
	return r == 0 || r == -ECONNRESET || client_is_absent(r);
}

static int follow(struct following *f)
{
	struct pollfd wait = {.fd = f->haul->interrupt_fd, .events = POLLIN};
	int r;

	do {
		r = read_once(f);
		if (!f->is_followed || !f->has_begun || !is_away(r))
			return r;
		poll(&wait, 1, AGAIN_MS);
	} while (!haul_is_interrupted(f->haul));
	return -EINTR;
}

static bool is_number(const char *text)
{
	size_t len = strspn(text, "0123456789");

	return len > 0 && len <= NUMBER_MAX && !text[len];
}

static bool is_type(const char *text)
{
	return text[0] && !text[strspn(text, "abcdefghijklmnopqrstuvwxyz_,")];
}

static int run(const struct call *call)
{
	const char *since = call->values[EVENTS_SINCE];
	struct following f = {.id = call->arg_count ? call->args[0] : NULL,
			      .types = call->values[EVENTS_TYPE],
			      .is_followed = call->values[EVENTS_FOLLOW],
			      .is_gap_told = since};
	struct haul haul;
	int code;

	if (since && !is_number(since))
		return usage_error("--since wants the number of an event, as `events --json` "
				   "tells it");
	if (f.types && !is_type(f.types))
		return usage_error("--type wants a kind of event such as slept");
	code = haul_init(&haul, call->globals);
	if (code != EXIT_OK)
		return code;
	f.haul = &haul;
	f.last = since ? strtoull(since, NULL, 10) : 0;
	buf_init(&f.line, CLIENT_EVENT_MAX);
	code = haul_finish(&haul, follow(&f));
	buf_close(&f.line);
	haul_close(&haul);
	return code;
}

/* clang-format off */
static const struct flag flags[] = {
	[EVENTS_FOLLOW] = { "--follow", NULL,     "go on with what happens, until Ctrl-C", "-f" },
	[EVENTS_SINCE]  = { "--since",  "NUMBER", "only what comes behind this event; `--json` tells numbers" },
	[EVENTS_TYPE]   = { "--type",   "TYPE",   "only these, such as slept,woke" },
	{ NULL },
};

static const struct example examples[] = {
	{ "berth events",                         "what has happened to all sandboxes, as far as it is kept" },
	{ "berth events -f web",                  "and what happens to one from now on" },
	{ "berth events --type failed,exited",    "only what went wrong" },
	{ "berth events --json --since 41 -f",    "an event in each line, behind the one that you have" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_events = {
	.name = "events",
	.summary = "tell what happens to sandboxes",
	.arguments = "[ID]",
	.arg_max = 1,
	.description =
		"Prints a line for each thing that happened to a sandbox, or to all of them:\n"
		"created, changed, started, slept, woke, alarm, alarm_failed, memory_threshold,\n"
		"oom, failed, exited, destroyed. Of each sandbox the newest 500 are kept, also\n"
		"of one that is gone. With -f it goes on, without a gap, also when berthd is\n"
		"restarted meanwhile. Looking wakes nobody.",
	.flags = flags,
	.examples = examples,
	.run = run,
};
