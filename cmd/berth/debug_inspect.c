#include "cmd/berth/debug.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth/client.h"
#include "cmd/berth/command_request.h"
#include "cmd/berth/process.h"
#include "cmd/berth/sandbox.h"
#include "cmd/berth/screen.h"
#include "cmd/berth/tunnel.h"
#include "proto/base64.h"
#include "proto/port_request.h"

#define EVENT_ARENA_MAX (2 * CLIENT_EVENT_MAX)
#define UUID_LEN        36
#define START_MS        60000
#define END_MS          10000 /* for what is tidied up */

/* A script under the inspector. */
struct session {
	struct command *command;
	struct haul *haul;
	char process[64];      /* ours, so that it can be ended whatever its start has come to */
	bool may_run;          /* it was asked for, and not refused */
	uint16_t port;         /* of the inspector, inside */
	struct tunnel *tunnel; /* to it; NULL: none yet */
	pthread_t thread;      /* serves it, if is_served, until over_fd is readable */
	int over_fd;
	struct buf bytes;        /* of one event */
	struct buf line;         /* of stderr, until is_over */
	char uuid[UUID_LEN + 1]; /* of the inspector's target; "": it has not spoken */
	bool is_served;
	bool is_over; /* what it says at first */
	bool has_ended;
};

static int fail(struct session *s, int error, const char *what)
{
	return haul_fail(s->haul, error, "%s", what);
}

/* --- start --- */

/*
 * Ctrl-C does not cut this short: an end that is asked for on another connection may come before
 * it, find nothing to end, and leave it running. The sandbox runs already, so it is not for long.
 */
static int start(struct session *s)
{
	struct client_request request = {.method = "POST", .timeout_ms = START_MS};
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

static void tell(const struct session *s, uint16_t local)
{
	char ws[128], devtools[256];

	snprintf(ws, sizeof(ws), "127.0.0.1:%u/%s", (unsigned)local, s->uuid);
	/* Not with experiments=true, as node itself tells it: a fresh Chromium refuses that. */
	snprintf(devtools, sizeof(devtools),
		 "devtools://devtools/bundled/js_app.html?v8only=true&ws=%s", ws);
	if (s->haul->globals->json)
		printf("{\"process\":\"%s\",\"port\":%u,\"ws\":\"ws://%s\",\"devtools\":\"%s\"}\n",
		       s->process, (unsigned)s->port, ws, devtools);
	else
		fprintf(stderr,
			"It waits for a debugger. In Chrome or Chromium, open\n  %s\n"
			"or give another debugger\n  ws://%s\n",
			devtools, ws);
	fflush(stdout);
}

static void *serve(void *arg)
{
	struct session *s = arg;
	struct err err;

	if (tunnel_serve(s->tunnel, s->over_fd, &err) != -EINTR)
		screen_error("%s", err.sentence);
	return NULL;
}

/*
 * DevTools connect to nobody but 127.0.0.1 and pages of their own, and node's inspector answers
 * nobody who calls it by another name: so its port is one of this machine, too. The thread hears no
 * signals: they were held before there was one.
 */
static int open_tunnel(struct session *s, uint16_t port)
{
	struct tunnel_ends ends = {.id = s->command->id, .port = port};
	int r = tunnel_new(&s->tunnel, s->haul->globals, &ends, &s->haul->own);

	if (r < 0)
		return r;
	s->port = port;
	s->over_fd = eventfd(0, EFD_CLOEXEC);
	r = s->over_fd < 0 ? -errno : -pthread_create(&s->thread, NULL, serve, s);
	if (r < 0)
		return haul_fail(s->haul, r, "cannot serve the debugger: %s", strerror(-r));
	s->is_served = true;
	tell(s, ends.local);
	return 0;
}

static void close_tunnel(struct session *s)
{
	if (s->is_served) {
		eventfd_write(s->over_fd, 1);
		pthread_join(s->thread, NULL);
	}
	if (s->over_fd >= 0)
		close(s->over_fd);
	if (s->tunnel)
		tunnel_free(s->tunnel);
}

/* "Debugger listening on ws://127.0.0.1:PORT/UUID". False: that is not what the line says. */
static bool parse_listening(struct session *s, struct str line, uint16_t *ret_port)
{
	const struct str start = STR("Debugger listening on ws://127.0.0.1:");
	struct str rest, port;

	if (!str_starts_with(line, start))
		return false;
	rest = (struct str){line.at + start.len, line.len - start.len};
	port = str_cut(&rest, '/');
	if (port_number_parse(port, ret_port) < 0 || rest.len != UUID_LEN)
		return false;
	snprintf(s->uuid, sizeof(s->uuid), "%.*s", STR_ARGS(rest));
	if (strspn(s->uuid, "0123456789abcdef-") == UUID_LEN)
		return true;
	s->uuid[0] = '\0';
	return false;
}

/* --- what it prints --- */

static int pass_on(struct session *s, int fd, struct str bytes)
{
	int r = command_pass_on(s->haul->interrupt_fd, fd, bytes.at, bytes.len);

	if (r < 0 && r != -EINTR && r != -EPIPE)
		return haul_fail(s->haul, r, "cannot write the output: %s", strerror(-r));
	return r;
}

static int pass_rest(struct session *s)
{
	int r = pass_on(s, STDERR_FILENO, (struct str){buf_at(&s->line), buf_len(&s->line)});

	buf_consume(&s->line, buf_len(&s->line));
	return r;
}

/* The first two lines of the inspector are for somebody who is in there: ours take their place. */
static int take_line(struct session *s, struct str line)
{
	struct str bare = {line.at, line.len - 1};
	uint16_t port;

	if (!*s->uuid && parse_listening(s, bare, &port))
		return open_tunnel(s, port);
	s->is_over = *s->uuid;
	if (s->is_over && str_starts_with(line, STR("For help, see: ")))
		return 0;
	return pass_on(s, STDERR_FILENO, line);
}

static int take_stderr(struct session *s, struct str bytes)
{
	const char *end;
	int r = 0;

	if (s->is_over)
		return pass_on(s, STDERR_FILENO, bytes);
	if (buf_append_str(&s->line, bytes) < 0)
		return fail(s, -EMSGSIZE, "node printed much, and not where its inspector is");
	while (r == 0 && !s->is_over && buf_len(&s->line) &&
	       (end = memchr(buf_at(&s->line), '\n', buf_len(&s->line)))) {
		size_t len = (size_t)(end - buf_at(&s->line)) + 1;

		r = take_line(s, (struct str){buf_at(&s->line), len});
		buf_consume(&s->line, len);
	}
	return r == 0 && s->is_over ? pass_rest(s) : r;
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
	return r == 0 ? pass_rest(s) : r;
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

/* Signals are held meanwhile: another Ctrl-C does not cut this short, END_MS do. */
static void end_script(const struct session *s)
{
	char path[SANDBOX_PATH_MAX], suffix[128];
	struct client_request request = {.method = "DELETE", .path = path, .timeout_ms = END_MS};
	struct answer answer;
	struct err err;
	int r;

	if (!s->may_run || s->has_ended)
		return;
	snprintf(suffix, sizeof(suffix), "/processes/%s?grace_ms=1000", s->process);
	answer_init(&answer);
	r = sandbox_path(s->command->id, suffix, path, &err);
	if (r == 0)
		r = client_send(s->haul->globals, &request, &answer, &err);
	if (r < 0 && answer.status != 404)
		screen_error("not all could be tidied up: %s", err.sentence);
	answer_close(&answer);
}

static int run(struct session *s)
{
	int code = EXIT_OK, finished;
	int r = start(s);

	if (r == 0)
		r = follow(s);
	if (r == 0)
		r = exit_code(s, &code);
	end_script(s);
	close_tunnel(s);
	finished = haul_finish(s->haul, r);
	if (finished == EXIT_OK)
		return code;
	return finished > 128 ? finished : EXIT_NOT_RUN;
}

int debug_inspect(struct command *command)
{
	/* Without its list of targets, so that only who is told the UUID can connect. */
	static const char *const own[] = {"node", "--inspect-brk=127.0.0.1:0",
					  "--inspect-publish-uid=stderr", "--"};
	cleanup_free char **argv = calloc(array_len(own) + command->argc + 1, sizeof(*argv));
	struct session s = {.command = command, .over_fd = -1};
	struct haul haul;
	uint64_t random;
	int code;

	if (!argv || getrandom(&random, sizeof(random), 0) != sizeof(random))
		return EXIT_NOT_RUN;
	code = debug_find_script(command);
	if (code != EXIT_OK)
		return code;
	if (haul_init(&haul, command->globals) != EXIT_OK)
		return EXIT_NOT_RUN;
	memcpy(argv, own, sizeof(own));
	memcpy(argv + array_len(own), command->argv, command->argc * sizeof(*argv));
	command->argv = argv;
	command->argc += array_len(own);
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
