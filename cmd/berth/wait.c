#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cmd/berth/command.h"
#include "cmd/berth/process.h"
#include "cmd/berth/screen.h"
#include "proto/units.h"

#define EXIT_TIMEOUT 124 /* as timeout(1) has it */
#define PORT_MAX     65535

enum { WAIT_LOG, WAIT_PORT, WAIT_HTTP, WAIT_TIMEOUT };

struct waiting {
	const struct call *call;
	uint64_t timeout_ms, port;
};

/* What came, or why it did not. */
struct result {
	struct process_info process;
	struct {
		struct str text;
	} log;
	struct str code;
	struct json_strings last_lines;
};

/* clang-format off */
static const struct json_field log_fields[] = {
	{ "text", JSON_BYTES, 0 },
	{ "*",    JSON_IGNORED },
	{ NULL },
};

static const struct json_field result_fields[] = {
	{ "process",    JSON_OBJECT,  offsetof(struct result, process), .fields = process_fields },
	{ "log",        JSON_OBJECT,  offsetof(struct result, log), .fields = log_fields },
	{ "code",       JSON_STRING,  offsetof(struct result, code) },
	{ "last_lines", JSON_STRINGS, offsetof(struct result, last_lines) },
	{ "*",          JSON_IGNORED },
	{ NULL },
};
/* clang-format on */

static int make_body(const struct waiting *waiting, struct buf *ret)
{
	const char *const *values = waiting->call->values;
	cleanup(json_writer_close) struct json_writer w;

	json_writer_init(&w, false);
	json_object(&w);
	json_key(&w, "for");
	json_text(&w, values[WAIT_LOG] ? "log" : values[WAIT_PORT] ? "port" : "exit");
	if (values[WAIT_LOG]) {
		json_key(&w, "pattern");
		json_text(&w, values[WAIT_LOG]);
	}
	if (values[WAIT_PORT]) {
		json_key(&w, "port");
		json_int(&w, (int64_t)waiting->port);
	}
	if (values[WAIT_HTTP]) {
		json_key(&w, "http_path");
		json_text(&w, values[WAIT_HTTP]);
	}
	if (waiting->timeout_ms) {
		json_key(&w, "timeout_ms");
		json_int(&w, (int64_t)waiting->timeout_ms);
	}
	json_object_end(&w);
	return json_writer_end(&w, ret);
}

static int ask(struct haul *haul, const struct waiting *waiting)
{
	const struct call *call = waiting->call;
	int r = process_target(haul, call->args[0], call->args[1], "/wait");

	if (r < 0)
		return r;
	r = make_body(waiting, &haul->body);
	if (r < 0)
		return haul_fail(haul, r, "%s",
				 r == -EILSEQ ? "what is waited for must be UTF-8"
					      : "out of memory");
	return haul_ask_long(haul, "POST");
}

/* Of a failure of ours; but a signal, and a reader who left, are told as everywhere. */
static int own_code(int code)
{
	return code > 128 ? code : EXIT_NOT_RUN;
}

/* The exit code of a wait that came to its end. */
static int show(struct haul *haul, const struct waiting *waiting, const struct result *result)
{
	const struct process_info *process = &result->process;
	bool is_exit = !waiting->call->values[WAIT_LOG] && !waiting->call->values[WAIT_PORT];
	int r = 0;

	if (waiting->call->globals->json)
		r = haul_print_answer(haul);
	else if (waiting->call->values[WAIT_LOG])
		r = printf("%s\n", screen_text(result->log.text).text) < 0 ? -errno : 0;
	if (r < 0)
		return own_code(haul_finish(haul, r));
	if (!is_exit)
		return EXIT_OK;
	command_explain(process->reason, process->message);
	return process->exit_code_given ? (int)(process->exit_code & 0xff) : EXIT_NOT_RUN;
}

/* A process that died, or took too long, has probably said why. */
static int show_failure(struct haul *haul, int r, const struct result *result)
{
	int code = haul_finish(haul, r);

	if (code > 128)
		return code;
	for (size_t i = 0; i < result->last_lines.len; i++)
		fprintf(stderr, "  %s\n", screen_text(result->last_lines.items[i]).text);
	if (str_eq(result->code, STR("timeout")))
		return EXIT_TIMEOUT;
	return str_eq(result->code, STR("process_exited")) ? EXIT_FAILED : EXIT_NOT_RUN;
}

static int wait_for(struct haul *haul, const struct waiting *waiting)
{
	struct result result = {0};
	struct str text;
	struct arena arena;
	int code, parsed, r = ask(haul, waiting);

	arena_init(&arena, PROCESS_ARENA_MAX);
	text = (struct str){buf_at(&haul->answer.body), buf_len(&haul->answer.body)};
	parsed = json_parse(&arena, text, result_fields, &result, NULL);
	if (parsed < 0)
		result = (struct result){0};
	if (r == 0 && parsed < 0)
		r = haul_fail(haul, -EPROTO, "the answer cannot be understood (is it berthd's?)");
	code = r < 0 ? show_failure(haul, r, &result) : show(haul, waiting, &result);
	arena_close(&arena);
	return code;
}

static int take_flags(struct waiting *waiting)
{
	const char *const *values = waiting->call->values;
	const char *timeout = values[WAIT_TIMEOUT], *port = values[WAIT_PORT];

	if (waiting->call->arg_count < 2)
		return usage_error("for which process? berth wait ID PROCESS");
	if (values[WAIT_LOG] && port)
		return usage_error("--log and --port are two things: wait for one after the other");
	if (values[WAIT_HTTP] && !port)
		return usage_error("--http is for --port");
	if (port) {
		size_t digits = strspn(port, "0123456789");

		waiting->port =
			digits && digits <= 5 && !port[digits] ? strtoul(port, NULL, 10) : 0;
		if (waiting->port == 0 || waiting->port > PORT_MAX)
			return usage_error("--port wants a number from 1 to 65535");
	}
	if (timeout && duration_parse(str_of(timeout), &waiting->timeout_ms) < 0)
		return usage_error(
			"--timeout wants a duration such as 30s, 10m or 500ms; 0s is none");
	return EXIT_OK;
}

static int run(const struct call *call)
{
	struct waiting waiting = {.call = call};
	struct haul haul;
	int code;

	if (take_flags(&waiting) != EXIT_OK || haul_init(&haul, call->globals) != EXIT_OK)
		return EXIT_NOT_RUN;
	code = wait_for(&haul, &waiting);
	haul_close(&haul);
	return code;
}

/* clang-format off */
static const struct flag flags[] = {
	[WAIT_LOG]     = { "--log",     "PATTERN",  "for a line (its first 8 KiB), by an extended regular expression" },
	[WAIT_PORT]    = { "--port",    "N",        "for a port on which somebody listens" },
	[WAIT_HTTP]    = { "--http",    "URLPATH",  "and answers a GET of this path with 200 to 399" },
	[WAIT_TIMEOUT] = { "--timeout", "DURATION", "no longer than this: 500ms, 30s, 10m" },
	{ NULL },
};

static const struct example examples[] = {
	{ "berth wait box build; echo $?",                      "until it has ended" },
	{ "berth wait --log 'listening on [0-9]+' box web",     "prints the line, also if it is there already" },
	{ "berth wait --port 8000 --http / --timeout 30s box web", "until a server answers" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_wait = {
	.name = "wait",
	.summary = "wait for a background process: its end, a line, a port",
	.arguments = "ID PROCESS",
	.arg_max = 2,
	.gives_code = true,
	.description =
		"Waits until a background process has ended, and exits with its code, or until\n"
		"it has printed a line, or listens on a port, and exits with 0; with 1 if it\n"
		"ended before that. The code is 124 if time ran out, and 125 if it was Berth\n"
		"that failed, or the command line was wrong. The last lines that a process\n"
		"printed go along with a failure.",
	.flags = flags,
	.examples = examples,
	.run = run,
};
