#include "cmd/berth/debug.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "cmd/berth/client.h"
#include "cmd/berth/command_request.h"
#include "cmd/berth/port.h"
#include "cmd/berth/process.h"
#include "cmd/berth/screen.h"
#include "proto/base64.h"
#include "proto/port_request.h"

#define EVENT_ARENA_MAX (2 * CLIENT_EVENT_MAX)
#define UUID_LEN        36
#define END_MS          10000 /* for what is tidied up */

/* A script under the inspector. */
struct session {
	struct command *command;
	struct haul *haul;
	char process[64];        /* ours, so that it can be ended whatever its start has come to */
	bool may_run;            /* it was asked for, and not refused */
	char port[8];            /* inside; "": not exposed */
	struct buf bytes;        /* of one event */
	struct buf line;         /* of stderr, until the relay has spoken */
	char uuid[UUID_LEN + 1]; /* of the inspector's target */
	bool is_told, has_ended;
};

static int fail(struct session *s, int error, const char *what)
{
	return haul_fail(s->haul, error, "%s", what);
}

/* --- start --- */

static int start(struct session *s)
{
	struct client_stream stream = {.body_fd = -1, .interrupt_fd = s->haul->interrupt_fd};
	struct client_request request = {
		.method = "POST", .stream = &stream, .timeout_ms = CLIENT_WAIT_MS};
	struct command_request made;
	int r = command_request_make(&made, s->command, &s->haul->err);

	request.path = buf_at(&made.path);
	request.body = (struct str){buf_at(&made.body), buf_len(&made.body)};
	if (r == 0) {
		r = client_send(s->haul->globals, &request, &s->haul->answer, &s->haul->err);
		s->may_run = r != -EREMOTEIO && !client_is_absent(r);
	}
	command_request_close(&made);
	return r;
}

/* --- where it is --- */

/* Is it there for those who have the URL? If not it may still be so for others, elsewhere. */
static void try_preview(const struct session *s, const char *url)
{
	struct globals there = {.url = url, .timeout_ms = END_MS};
	struct answer answer;
	struct err err;
	int r;

	answer_init(&answer);
	r = client_get(&there, "/json/list", &answer, &err);
	if (r < 0)
		screen_error("the preview cannot be reached from here: %s", err.sentence);
	else if (!memmem(buf_at(&answer.body), buf_len(&answer.body), s->uuid, UUID_LEN))
		screen_error("behind the preview is something else than node's inspector");
	answer_close(&answer);
}

static void tell(const struct session *s, const char *scheme, struct str host)
{
	char ws[512], devtools[640];

	snprintf(ws, sizeof(ws), "%s://%.*s/%s", scheme, STR_ARGS(host), s->uuid);
	/* Not with experiments=true, as node itself tells it: a fresh Chromium refuses that. */
	snprintf(devtools, sizeof(devtools),
		 "devtools://devtools/bundled/js_app.html?v8only=true&%s=%.*s/%s", scheme,
		 STR_ARGS(host), s->uuid);
	if (s->haul->globals->json)
		printf("{\"process\":\"%s\",\"port\":%s,\"ws\":\"%s\",\"devtools\":\"%s\"}\n",
		       s->process, s->port, ws, devtools);
	else
		fprintf(stderr,
			"It waits for a debugger. In Chrome or Chromium, open\n  %s\n"
			"or give another debugger\n  %s\n",
			devtools, ws);
	fflush(stdout);
}

/* The daemon made it, but what comes over a network may be anything. */
static bool is_plain(struct str host)
{
	for (size_t i = 0; i < host.len; i++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:",
			    host.at[i]) ||
		    !host.at[i])
			return false;
	return host.len > 0 && host.len < 300;
}

static int expose(struct session *s, const char *port)
{
	const char *const args[] = {s->command->id, port};
	char url[320];
	struct port_call c;
	struct str host;
	int r;

	port_call_init(&c, s->haul->globals);
	r = port_ask(&c, "PUT", args, STR("{\"name\":\"node inspector\"}"));
	if (r < 0) {
		haul_fail(s->haul, r, "the inspector cannot be exposed: %s", c.err.sentence);
	} else {
		snprintf(s->port, sizeof(s->port), "%s", port);
		host = c.port.url;
		str_cut(&host, '/');
		str_cut(&host, '/');
		host = str_cut(&host, '/');
		snprintf(url, sizeof(url), "%.*s",
			 c.port.url.len < sizeof(url) ? (int)c.port.url.len : 0, c.port.url.at);
		if (!c.port.url.len)
			r = fail(s, -ENOTSUP,
				 "berthd serves no previews, so nobody could reach the debugger: "
				 "see `berth up --preview`");
		else if (!is_plain(host))
			r = fail(s, -EPROTO, "the preview's URL cannot be understood");
		else
			try_preview(s, url);
		if (r == 0)
			tell(s, str_starts_with(c.port.url, STR("https:")) ? "wss" : "ws", host);
	}
	port_call_close(&c);
	return r;
}

/* "berth-debug PORT UUID", which is the word of what runs in there. */
static int take_relay(struct session *s, struct str line)
{
	struct str rest = line, word = str_cut(&rest, ' '), port = str_cut(&rest, ' ');
	char text[8];
	uint16_t number;

	if (!str_eq(word, STR("berth-debug")) || port_number_parse(port, &number) < 0 ||
	    rest.len != UUID_LEN)
		return 0;
	snprintf(s->uuid, sizeof(s->uuid), "%.*s", STR_ARGS(rest));
	if (strspn(s->uuid, "0123456789abcdef-") != UUID_LEN)
		return 0;
	snprintf(text, sizeof(text), "%u", (unsigned)number);
	s->is_told = true;
	return expose(s, text);
}

/* --- what it prints --- */

static int pass_on(struct session *s, int fd, struct str bytes)
{
	int r = command_pass_on(s->haul->interrupt_fd, fd, bytes.at, bytes.len);

	if (r < 0 && r != -EINTR && r != -EPIPE)
		return haul_fail(s->haul, r, "cannot write the output: %s", strerror(-r));
	return r;
}

/* The relay's line is for us. */
static int take_stderr(struct session *s, struct str bytes)
{
	const char *end;
	int r = 0;

	if (!s->is_told && buf_append_str(&s->line, bytes) < 0)
		return fail(s, -EMSGSIZE, "node printed much, and not where its inspector is");
	if (s->is_told)
		return pass_on(s, STDERR_FILENO, bytes);
	while (r == 0 && !s->is_told && buf_len(&s->line) &&
	       (end = memchr(buf_at(&s->line), '\n', buf_len(&s->line)))) {
		struct str line = {buf_at(&s->line), (size_t)(end - buf_at(&s->line))};

		r = take_relay(s, line);
		if (r == 0 && !s->is_told)
			r = pass_on(s, STDERR_FILENO, (struct str){line.at, line.len + 1});
		buf_consume(&s->line, line.len + 1);
	}
	if (r == 0 && s->is_told)
		r = pass_on(s, STDERR_FILENO, (struct str){buf_at(&s->line), buf_len(&s->line)});
	return r;
}

struct told {
	struct str data, error;
};

static int show(struct session *s, struct str event, struct str data)
{
	char *room;
	size_t len;

	buf_consume(&s->bytes, buf_len(&s->bytes));
	room = buf_room(&s->bytes, BASE64_DECODE_ROOM(data.len));
	if (!room)
		return fail(s, -ENOMEM, "out of memory");
	if (base64_decode(data, room, &len) < 0)
		return fail(s, -EPROTO, "an event cannot be understood (is it berthd's?)");
	if (str_eq(event, STR("stderr")))
		return take_stderr(s, (struct str){room, len});
	return pass_on(s, STDOUT_FILENO, (struct str){room, len});
}

static int on_event(void *arg, const struct sse_event *event)
{
	static const struct json_field fields[] = {
		{"data", JSON_STRING, offsetof(struct told, data), false, 0, NULL, 0},
		{"error", JSON_STRING, offsetof(struct told, error), false, 0, NULL, 0},
		{"*", JSON_IGNORED, 0, false, 0, NULL, 0},
		{NULL, JSON_BOOL, 0, false, 0, NULL, 0},
	};
	struct session *s = arg;
	struct told told = {0};
	struct arena arena;
	int r = 0;

	if (str_eq(event->event, STR("exit"))) {
		s->has_ended = true;
		return 1;
	}
	arena_init(&arena, EVENT_ARENA_MAX);
	if (json_parse(&arena, event->data, fields, &told, NULL) < 0)
		r = fail(s, -EPROTO, "an event cannot be understood (is it berthd's?)");
	else if (str_eq(event->event, STR("error")))
		r = haul_fail(s->haul, -EREMOTEIO, "%s", screen_text(told.error).text);
	else if (str_eq(event->event, STR("stdout")) || str_eq(event->event, STR("stderr")))
		r = show(s, event->event, told.data);
	arena_close(&arena);
	return r;
}

static int follow(struct session *s)
{
	int r = process_target(s->haul, s->command->id, s->process, "/logs?follow=1&since=0");

	if (r == 0)
		r = haul_events(s->haul, "GET", on_event, s);
	/* It ended, and what it said last had no end of line. */
	if (r == 0 && !s->is_told)
		r = pass_on(s, STDERR_FILENO, (struct str){buf_at(&s->line), buf_len(&s->line)});
	return r;
}

/* --- the end --- */

static int exit_code(struct session *s, int *ret)
{
	struct process_info info = {0};
	struct arena arena;
	int r = process_target(s->haul, s->command->id, s->process, "");

	if (r == 0)
		r = haul_ask(s->haul, "GET");
	if (r < 0)
		return r;
	arena_init(&arena, PROCESS_ARENA_MAX);
	r = json_parse(&arena,
		       (struct str){buf_at(&s->haul->answer.body), buf_len(&s->haul->answer.body)},
		       process_fields, &info, NULL);
	if (r == 0)
		command_explain(info.reason, info.message);
	*ret = r == 0 && info.exit_code_given ? (int)(info.exit_code & 0xff) : EXIT_NOT_RUN;
	arena_close(&arena);
	return 0;
}

static void undo(const struct session *s, const char *method, const char *suffix)
{
	char path[SANDBOX_PATH_MAX];
	struct client_request request = {.method = method, .path = path, .timeout_ms = END_MS};
	struct answer answer;
	struct err err;
	int r = sandbox_path(s->command->id, suffix, path, &err);

	answer_init(&answer);
	if (r == 0)
		r = client_send(s->haul->globals, &request, &answer, &err);
	if (r < 0 && answer.status != 404)
		screen_error("not all could be tidied up: %s", err.sentence);
	answer_close(&answer);
}

/* Signals are held meanwhile: another Ctrl-C does not cut this short, END_MS do. */
static void tidy(const struct session *s)
{
	char suffix[128];

	if (s->may_run && !s->has_ended) {
		snprintf(suffix, sizeof(suffix), "/processes/%s?grace_ms=1000", s->process);
		undo(s, "DELETE", suffix);
	}
	if (*s->port) {
		snprintf(suffix, sizeof(suffix), "/port/%s", s->port);
		undo(s, "DELETE", suffix);
	}
}

static int run(struct session *s)
{
	int code = EXIT_OK, finished;
	int r = start(s);

	if (r == 0)
		r = follow(s);
	if (r == 0)
		r = exit_code(s, &code);
	tidy(s);
	finished = haul_finish(s->haul, r);
	if (finished == EXIT_OK)
		return code;
	return finished > 128 ? finished : EXIT_NOT_RUN;
}

int debug_inspect(struct command *command)
{
	char *const *words = command->argv;
	size_t count = command->argc;
	cleanup_free char *relay = strndup(debug_relay.at, debug_relay.len);
	cleanup_free char **argv = calloc(count + 5, sizeof(*argv));
	struct session s = {.command = command};
	struct haul haul;
	uint64_t random;
	int code;

	if (!relay || !argv || getrandom(&random, sizeof(random), 0) != sizeof(random) ||
	    haul_init(&haul, command->globals) != EXIT_OK)
		return EXIT_NOT_RUN;
	argv[0] = (char *)"node";
	argv[1] = (char *)"-e";
	argv[2] = relay;
	argv[3] = (char *)"--";
	memcpy(argv + 4, words, count * sizeof(*argv));
	command->argv = argv;
	command->argc = count + 4;
	command->is_detached = true;
	snprintf(s.process, sizeof(s.process), "debug-%016" PRIx64, random);
	command->process = s.process;
	s.haul = &haul;
	buf_init(&s.bytes, CLIENT_EVENT_MAX);
	buf_init(&s.line, CLIENT_EVENT_MAX);
	code = run(&s);
	buf_close(&s.bytes);
	buf_close(&s.line);
	haul_close(&haul);
	return code;
}
