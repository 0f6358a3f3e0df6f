#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>

#include "base/cleanup.h"
#include "cmd/berth/client.h"
#include "cmd/berth/code.h"
#include "cmd/berth/command.h"
#include "cmd/berth/plain.h"
#include "cmd/berth/sandbox.h"
#include "cmd/berth/screen.h"
#include "proto/base64.h"
#include "proto/run_request.h"

#define EVENT_ARENA_MAX (3 * CLIENT_EVENT_MAX)

/* A call under way. */
struct calling {
	const struct code_call *call;
	struct rich_place place;
	struct buf bytes; /* of one output event */
	bool is_error;    /* of the code's */
	int error_code;   /* what it would exit with, if it asked for that */
	bool is_told;     /* why it failed here */
	int code;         /* the exit code, once it is known */
};

/* Of the code; or, with `error` and `code`, of Berth. */
struct code_error {
	struct str name, message, error, code;
	struct json_strings traceback;
	uint64_t exit_code; /* 0: it says none */
};

struct code_done {
	struct str reason, message, context;
	int64_t exit_code;
	uint64_t signal;
	bool exit_code_given, is_replaced;
	struct code_error error;
	bool error_given;
};

/* clang-format off */
static const struct json_field error_fields[] = {
	{ "name",      JSON_BYTES,   offsetof(struct code_error, name) },
	{ "message",   JSON_BYTES,   offsetof(struct code_error, message) },
	{ "traceback", JSON_TEXTS,   offsetof(struct code_error, traceback) },
	{ "exit_code", JSON_UINT,    offsetof(struct code_error, exit_code) },
	{ "error",     JSON_STRING,  offsetof(struct code_error, error) },
	{ "code",      JSON_STRING,  offsetof(struct code_error, code) },
	{ "*",         JSON_IGNORED },
	{ NULL },
};

/* Also of a whole answer. */
static const struct json_field done_fields[] = {
	{ "reason",     JSON_STRING, offsetof(struct code_done, reason), true },
	{ "message",    JSON_STRING, offsetof(struct code_done, message) },
	{ "context",    JSON_STRING, offsetof(struct code_done, context) },
	{ "exit_code",  JSON_INT,    offsetof(struct code_done, exit_code), false,
	  offsetof(struct code_done, exit_code_given) },
	{ "signal",     JSON_UINT,   offsetof(struct code_done, signal) },
	{ "replaced",   JSON_BOOL,   offsetof(struct code_done, is_replaced) },
	{ "error",      JSON_OBJECT, offsetof(struct code_done, error), false,
	  offsetof(struct code_done, error_given), error_fields },
	{ "*",          JSON_IGNORED },
	{ NULL },
};

static const struct {
	const char *reason;
	int code;
	const char *sentence; /* NULL: none is needed */
} endings[] = {
	{ "completed",   EXIT_OK,           NULL },
	{ "interrupted", EXIT_INTERRUPTED,  "the code was interrupted" },
	{ "timeout",     CODE_EXIT_TIMEOUT, "the code ran out of time" },
	{ "oom",         CODE_EXIT_OOM,     "the code ran out of memory, and its interpreter was killed" },
	{ "cpu_limit",   CODE_EXIT_CPU,     "the code used all its processor time, and its interpreter was killed" },
	{ "security_violation", CODE_EXIT_SYS, "the code made a forbidden system call, and its interpreter was killed" },
	{ "exited",      EXIT_OK,           "the code ended its interpreter" },
	{ "bad_report",  EXIT_FAILED,       "the code made its interpreter say what makes no sense" },
	{ "killed",      EXIT_NOT_RUN,      "the context or its sandbox was stopped or removed meanwhile" },
	{ "not_started", EXIT_NOT_RUN,      "the interpreter could not be started" },
	{ "lost",        EXIT_NOT_RUN,      "what became of the code is not known" },
};
/* clang-format on */

static void take_error(struct calling *c, const struct code_error *error)
{
	c->is_error = true;
	c->error_code = (int)(error->exit_code & 0xff);
}

static int show_error(struct calling *c, const struct code_error *error)
{
	int r = 0;

	if (error->error.len && !error->name.len) {
		screen_error("%s (%s)", screen_text(error->error).text,
			     screen_text(error->code).text);
		c->code = EXIT_NOT_RUN;
		return 1;
	}
	take_error(c, error);
	for (size_t i = 0; r == 0 && i < error->traceback.len; i++)
		r = plain_print(c->place.interrupt_fd, STDERR_FILENO, error->traceback.items[i]);
	if (r == 0 && !error->traceback.len) {
		cleanup(buf_close) struct buf line;

		buf_init(&line, CLIENT_EVENT_MAX);
		r = buf_append_str(&line, error->name);
		if (r == 0 && error->message.len)
			r = buf_append(&line, ": ", 2);
		if (r == 0)
			r = buf_append_str(&line, error->message);
		if (r == 0)
			r = plain_print(c->place.interrupt_fd, STDERR_FILENO,
					(struct str){buf_at(&line), buf_len(&line)});
	}
	return r;
}

static int code_of(const struct calling *c, const struct code_done *done)
{
	int code = EXIT_NOT_RUN;

	for (size_t i = 0; i < array_len(endings); i++) {
		if (!str_eq(done->reason, str_of(endings[i].reason)))
			continue;
		code = endings[i].code;
		/* The daemon knows more, and also says what is gone. */
		if (done->message.len)
			screen_error("%s", screen_text(done->message).text);
		else if (endings[i].sentence)
			screen_error("%s", endings[i].sentence);
	}
	/* Of one that was stopped or removed nobody here knows whether there is a next call. */
	if (done->is_replaced && !done->message.len && !str_eq(done->reason, STR("killed")))
		screen_error("what was defined in this context is gone: the next call gets a fresh "
			     "interpreter");
	if (code == EXIT_OK && done->signal)
		return 128 + (int)(done->signal & 0x7f);
	if (code == EXIT_OK && done->exit_code_given)
		code = (int)(done->exit_code & 0xff);
	if (code == EXIT_OK && c->is_error)
		code = c->error_code ? c->error_code : EXIT_FAILED;
	return code;
}

static int show_output(struct calling *c, int fd, struct str data)
{
	char *room;
	size_t len;

	buf_consume(&c->bytes, buf_len(&c->bytes));
	room = buf_room(&c->bytes, BASE64_DECODE_ROOM(data.len));
	if (!room)
		return -ENOMEM;
	if (base64_decode(data, room, &len) < 0)
		return -EPROTO;
	return command_pass_on(c->place.interrupt_fd, fd, room, len);
}

/* An event that is JSON. */
static int show_report(struct calling *c, struct arena *arena, const struct sse_event *event)
{
	struct rich rich = {0};
	struct code_error error = {0};
	struct code_done done = {0};

	if (str_eq(event->event, STR("result"))) {
		int r = json_parse(arena, event->data, rich_fields, &rich, NULL) < 0
				? -EPROTO
				: rich_show(&c->place, &rich);

		c->is_told = r == -EIO; /* a file that could not be saved */
		return r;
	}
	if (str_eq(event->event, STR("error")))
		return json_parse(arena, event->data, error_fields, &error, NULL) < 0
			       ? -EPROTO
			       : show_error(c, &error);
	/* A newer daemon may tell of more. */
	if (!str_eq(event->event, STR("done")))
		return 0;
	if (json_parse(arena, event->data, done_fields, &done, NULL) < 0)
		return -EPROTO;
	if (c->call->ret_context && done.context.len < CODE_CONTEXT_MAX)
		snprintf(c->call->ret_context, CODE_CONTEXT_MAX, "%.*s", STR_ARGS(done.context));
	c->code = code_of(c, &done);
	return 1;
}

static int on_event(void *arg, const struct sse_event *event)
{
	struct calling *c = arg;
	struct arena arena;
	int r;

	if (str_eq(event->event, STR("stdout")))
		return show_output(c, STDOUT_FILENO, event->data);
	if (str_eq(event->event, STR("stderr")))
		return show_output(c, STDERR_FILENO, event->data);
	arena_init(&arena, EVENT_ARENA_MAX);
	r = show_report(c, &arena, event);
	arena_close(&arena);
	return r;
}

static int put_body(const struct code_call *call, struct buf *out)
{
	cleanup(json_writer_close) struct json_writer w;

	json_writer_init(&w, false);
	json_object(&w);
	json_key(&w, "code");
	json_str(&w, call->code);
	if (call->context) {
		json_key(&w, "context");
		json_text(&w, call->context);
	}
	if (call->language) {
		json_key(&w, "language");
		json_text(&w, call->language);
	}
	if (call->file) {
		json_key(&w, "file");
		json_text(&w, call->file);
	}
	if (call->timeout_ms) {
		json_key(&w, "timeout_ms");
		json_int(&w, (int64_t)call->timeout_ms);
	}
	json_object_end(&w);
	return json_writer_end(&w, out);
}

/* JSON that was asked for, or something that is no stream. */
static int show_answer(struct calling *c, const struct answer *answer)
{
	struct str text = {buf_at(&answer->body), buf_len(&answer->body)};
	struct code_done done = {0};
	struct arena arena;
	int code = EXIT_NOT_RUN;

	arena_init(&arena, EVENT_ARENA_MAX);
	if (!c->call->globals->json || json_parse(&arena, text, done_fields, &done, NULL) < 0) {
		screen_error("the answer cannot be understood (is it berthd's?)");
	} else {
		if (done.error_given)
			take_error(c, &done.error);
		code = code_of(c, &done);
		printf("%.*s\n", STR_ARGS(text));
	}
	arena_close(&arena);
	return code;
}

/* That there is no such context is told in our words: the API's are of its own requests. */
static void tell_failure(const struct calling *c, const struct answer *answer, int r,
			 const struct err *err)
{
	const struct code_call *call = c->call;
	const char *language;
	struct err own;

	if (r == -EREMOTEIO && answer->status == 404 && call->context &&
	    code_context_language(call->globals, call->id, call->context, &language, &own) ==
		    -EDESTADDRREQ)
		err = &own;
	client_failed(call->globals, answer, r, err);
}

static int finish(struct calling *c, const struct answer *answer, int r, const struct err *err)
{
	if (r == -EPIPE)
		return EXIT_PIPE;
	if (r == -EINTR)
		return command_interrupted(c->place.interrupt_fd);
	if (r == -EPROTO)
		screen_error("an event cannot be understood (is it berthd's?)");
	else if (r < 0 && !c->is_told)
		tell_failure(c, answer, r, err);
	if (r < 0)
		return EXIT_NOT_RUN;
	return c->code < 0 ? show_answer(c, answer) : c->code;
}

int code_refuse(struct err *err, int error, const char *name, bool is_run)
{
	struct screen_text shown = screen_text(str_of(name));

	if (error == -EILSEQ)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "%s is no text: code must be UTF-8", shown.text);
	if (is_run)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "%s is too long: the code of a run may have %d MiB; give it what it "
			       "works on by --input",
			       shown.text, RUN_CODE_MAX / 1024 / 1024);
	return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
		       "%s is too long: code may have %d MiB, as JSON; copy what it works on with "
		       "`berth cp`, and read that",
		       shown.text, CODE_MAX / 1024 / 1024);
}

/* Whoever closes the connection interrupts the code: that is what Ctrl-C does. */
static int ask(struct calling *c)
{
	const struct code_call *call = c->call;
	char path[SANDBOX_PATH_MAX];
	struct client_stream stream = {
		.body_fd = -1,
		.interrupt_fd = c->place.interrupt_fd,
		.event = call->globals->json ? NULL : on_event,
		.broken = "what became of the code is not known",
		.arg = c,
	};
	struct client_request request = {.method = "POST", .path = path, .stream = &stream};
	cleanup(answer_close) struct answer answer;
	cleanup(buf_close) struct buf body;
	struct err err;
	int r = sandbox_path(call->id, "/code", path, &err), written;

	answer_init(&answer);
	buf_init(&body, CODE_BODY_MAX);
	written = r == 0 ? put_body(call, &body) : 0;
	if (written < 0)
		r = code_refuse(&err, written, call->file ? call->file : "the code", false);
	request.body = (struct str){buf_at(&body), buf_len(&body)};
	if (r == 0)
		r = client_send(call->globals, &request, &answer, &err);
	return finish(c, &answer, r, &err);
}

int code_call(const struct code_call *call)
{
	struct calling calling = {.call = call, .code = -1};
	cleanup_fd int fd = -1;
	sigset_t endings_set, before;
	int code;

	signal(SIGPIPE, SIG_IGN);
	fflush(stdout);
	endings_set = command_hold_signals(&before);
	fd = signalfd(-1, &endings_set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0) {
		screen_error("cannot wait for signals: %m");
		return EXIT_NOT_RUN;
	}
	calling.place = (struct rich_place){
		.terminal = rich_terminal(),
		.save = call->save,
		.interrupt_fd = fd,
	};
	buf_init(&calling.bytes, CLIENT_EVENT_MAX);
	code = ask(&calling);
	buf_close(&calling.bytes);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return code;
}
