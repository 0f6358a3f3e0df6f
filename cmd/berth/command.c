#include "cmd/berth/command.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>

#include "base/cleanup.h"
#include "cmd/berth/client.h"
#include "cmd/berth/command_request.h"
#include "cmd/berth/process.h"
#include "cmd/berth/screen.h"
#include "proto/base64.h"
#include "proto/json.h"
#include "proto/units.h"

#define EVENT_ARENA_MAX (1024 * 1024)

/* A command under way. */
struct running {
	const struct command *command;
	int interrupt_fd;
	struct buf bytes; /* of one output event */
	int code;         /* the exit code, once it is known */
};

/* Of two with one name the last one counts. */
static void put_env(struct command *command, char *pair)
{
	size_t name_len = (size_t)(strchr(pair, '=') - pair) + 1, i = 0;

	while (i < command->env_len && strncmp(command->env[i], pair, name_len) != 0)
		i++;
	if (i < command->env_len)
		free((char *)command->env[i]);
	else
		command->env_len++;
	command->env[i] = pair;
}

int command_env(const char *given, struct str *ret_name, struct str *ret_value)
{
	const char *own = strchr(given, '=') ? NULL : getenv(given);

	*ret_value = str_of(given);
	*ret_name = str_cut(ret_value, '=');
	if (!ret_name->len)
		return usage_error("--env wants NAME=VALUE, and a name is not empty");
	if (!own && !strchr(given, '='))
		return usage_error("--env %s: there is no such variable here; give NAME=VALUE",
				   screen_text(str_of(given)).text);
	if (own)
		*ret_value = str_of(own);
	return EXIT_OK;
}

static int add_env(struct command *command, const char *given)
{
	struct str name, value;
	char *pair;

	if (command_env(given, &name, &value) != EXIT_OK)
		return EXIT_NOT_RUN;
	if (asprintf(&pair, "%.*s=%.*s", STR_ARGS(name), STR_ARGS(value)) < 0)
		return usage_error("out of memory");
	put_env(command, pair);
	return EXIT_OK;
}

int command_init(struct command *command, const struct call *call,
		 const struct command_flags *flags)
{
	const char *timeout = call->values[flags->timeout];

	*command = (struct command){
		.globals = call->globals,
		.argv = call->command,
		.argc = call->command_len,
		.cwd = call->values[flags->cwd],
		.user = call->values[flags->user],
		.has_stdin = call->values[flags->has_stdin],
	};
	if (!command->argc) {
		usage_error("what should be run? Give a program and its arguments");
		return EXIT_NOT_RUN;
	}
	if (timeout && duration_parse(str_of(timeout), &command->timeout_ms) < 0) {
		usage_error("--timeout wants a duration such as 30s, 10m or 500ms; 0s is none");
		return EXIT_NOT_RUN;
	}
	command->env = calloc(call->given_count + 1, sizeof(*command->env));
	if (!command->env)
		return EXIT_NOT_RUN;
	for (size_t i = 0; i < call->given_count; i++) {
		if (call->given[i].flag == flags->env &&
		    add_env(command, call->given[i].value) != EXIT_OK)
			return EXIT_NOT_RUN;
	}
	return EXIT_OK;
}

void command_close(struct command *command)
{
	for (size_t i = 0; i < command->env_len; i++)
		free((char *)command->env[i]);
	free(command->env);
}

int command_pass_on(int interrupt_fd, int fd, const char *at, size_t len)
{
	while (len > 0) {
		struct pollfd fds[] = {
			{.fd = fd, .events = POLLOUT},
			{.fd = interrupt_fd, .events = POLLIN},
		};
		ssize_t n;

		if (poll(fds, array_len(fds), -1) < 0 && errno != EINTR)
			return -errno;
		if (fds[1].revents)
			return -EINTR;
		n = write(fd, at, len < PIPE_BUF ? len : PIPE_BUF);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		if (n > 0) {
			at += n;
			len -= (size_t)n;
		}
	}
	return 0;
}

static int on_output(struct running *running, int fd, struct str data)
{
	char *room;
	size_t len;

	buf_consume(&running->bytes, buf_len(&running->bytes));
	room = buf_room(&running->bytes, BASE64_DECODE_ROOM(data.len));
	if (!room)
		return -ENOMEM;
	if (base64_decode(data, room, &len) < 0)
		return -EPROTO;
	return command_pass_on(running->interrupt_fd, fd, room, len);
}

/* What `exit` and `error` events tell, and an answer in JSON. */
struct ending {
	int64_t exit_code;
	bool exit_code_given, session_restarted;
	struct str reason, message, error, code;
};

/* clang-format off */
static const struct json_field ending_fields[] = {
	{ "exit_code", JSON_INT,    offsetof(struct ending, exit_code), false,
	  offsetof(struct ending, exit_code_given) },
	{ "reason",    JSON_STRING, offsetof(struct ending, reason) },
	{ "message",   JSON_STRING, offsetof(struct ending, message) },
	{ "error",     JSON_STRING, offsetof(struct ending, error) },
	{ "code",      JSON_STRING, offsetof(struct ending, code) },
	{ "session_restarted", JSON_BOOL, offsetof(struct ending, session_restarted) },
	{ "*",         JSON_IGNORED },
	{ NULL },
};

static const struct {
	const char *reason;
	const char *sentence;
} reasons[] = {
	{ "timeout",     "the command ran out of time and was ended" },
	{ "oom",         "the command ran out of memory and was killed" },
	{ "cpu_limit",   "the command was ended" },
	{ "security_violation", "the command tried what its sandbox forbids, and was killed" },
	{ "killed",      "it was killed: told to end, or its sandbox was stopped or removed" },
	{ "not_started", "the command could not be started" },
	{ "lost",        "how the command ended is not known" },
};
/* clang-format on */

void command_explain(struct str reason, struct str message)
{
	for (size_t i = 0; i < array_len(reasons); i++) {
		if (!str_eq(reason, str_of(reasons[i].reason)))
			continue;
		screen_error("%s%s%s", reasons[i].sentence, message.len ? ": " : "",
			     screen_text(message).text);
	}
}

/* A shell that ended took what was set in it along, whatever the command made of that. */
static void explain(const struct ending *ending)
{
	if (ending->session_restarted &&
	    (str_eq(ending->reason, STR("exited")) || str_eq(ending->reason, STR("signaled"))))
		screen_error("%s", ending->message.len ? screen_text(ending->message).text
						       : "the session's shell has ended");
	else
		command_explain(ending->reason, ending->message);
}

/* The exit code; what needs words gets them on stderr. -EPROTO: that is no ending. */
static int take_ending(struct str text)
{
	struct ending ending = {0};
	struct arena arena;
	int code;

	/* A whole answer holds the output too, which is passed over but counts. */
	arena_init(&arena, EVENT_ARENA_MAX + 2 * text.len);
	if (json_parse(&arena, text, ending_fields, &ending, NULL) < 0) {
		code = -EPROTO;
	} else if (ending.error.len) {
		screen_error("%s (%s)", screen_text(ending.error).text,
			     screen_text(ending.code).text);
		code = EXIT_NOT_RUN;
	} else {
		explain(&ending);
		code = ending.exit_code_given ? (int)(ending.exit_code & 0xff) : EXIT_NOT_RUN;
	}
	arena_close(&arena);
	return code;
}

static int on_event(void *arg, const struct sse_event *event)
{
	struct running *running = arg;
	bool is_end = str_eq(event->event, STR("exit")) || str_eq(event->event, STR("error"));

	if (str_eq(event->event, STR("stdout")))
		return on_output(running, STDOUT_FILENO, event->data);
	if (str_eq(event->event, STR("stderr")))
		return on_output(running, STDERR_FILENO, event->data);
	/* A newer daemon may tell of more. */
	if (!is_end)
		return 0;
	running->code = take_ending(event->data);
	return running->code < 0 ? running->code : 1;
}

/* A background process: what is printed is what the other verbs want to be told. */
static int show_started(const struct running *running, struct str text)
{
	struct process_info process = {0};
	struct arena arena;
	int r;

	arena_init(&arena, EVENT_ARENA_MAX);
	r = json_parse(&arena, text, process_fields, &process, NULL);
	if (r < 0)
		screen_error("the answer cannot be understood (is it berthd's?)");
	else if (running->command->globals->json)
		printf("%.*s\n", STR_ARGS(text));
	else
		printf("%s\n", screen_text(process.id).text);
	arena_close(&arena);
	return r < 0 ? EXIT_NOT_RUN : EXIT_OK;
}

/* The answer is there as a whole: JSON that was asked for, or something that is no stream. */
static int show_answer(const struct running *running, const struct answer *answer)
{
	struct str text = {buf_at(&answer->body), buf_len(&answer->body)};
	int code;

	if (running->command->is_detached)
		return show_started(running, text);
	if (!running->command->globals->json) {
		screen_error("the answer is no stream of events (is it berthd's?)");
		return EXIT_NOT_RUN;
	}
	code = take_ending(text);
	if (code < 0) {
		screen_error("the answer cannot be understood (is it berthd's?)");
		return EXIT_NOT_RUN;
	}
	printf("%.*s\n", STR_ARGS(text));
	return code;
}

int command_interrupted(int fd)
{
	struct signalfd_siginfo info = {.ssi_signo = SIGINT};

	while (read(fd, &info, sizeof(info)) > 0)
		;
	return 128 + (int)info.ssi_signo;
}

static int finish(const struct running *running, const struct answer *answer, int r,
		  const struct err *err)
{
	if (r == -EPIPE)
		return EXIT_PIPE;
	if (r == -EINTR && running->command->session)
		screen_error("the command was told to end; if the session's shell ended with it, "
			     "what was set in it is gone");
	if (r == -EINTR)
		return command_interrupted(running->interrupt_fd);
	if (r == -EPROTO) {
		screen_error("an event cannot be understood (is it berthd's?)");
		return EXIT_NOT_RUN;
	}
	if (r < 0) {
		client_failed(running->command->globals, answer, r, err);
		return EXIT_NOT_RUN;
	}
	return running->code < 0 ? show_answer(running, answer) : running->code;
}

static int ask(struct running *running)
{
	const struct command *command = running->command;
	struct client_stream stream = {
		.body_fd = command->has_stdin ? STDIN_FILENO : -1,
		.interrupt_fd = running->interrupt_fd,
		.event = command->globals->json || command->is_detached ? NULL : on_event,
		.arg = running,
	};
	struct client_request request = {.method = "POST", .stream = &stream};
	struct command_request made;
	cleanup_fd int nothing = -1;
	struct answer answer;
	struct err err;
	int code, r;

	answer_init(&answer);
	r = command_request_make(&made, command, &err);
	request.path = buf_at(&made.path);
	request.body = (struct str){buf_at(&made.body), buf_len(&made.body)};
	request.header = *made.header ? made.header : NULL;
	if (r == 0 && made.is_query && !command->has_stdin) {
		stream.body_fd = nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
		if (nothing < 0)
			r = err_set(&err, -errno, ERR_INTERNAL, "cannot open /dev/null: %m");
	}
	if (r == 0)
		r = client_send(command->globals, &request, &answer, &err);
	code = finish(running, &answer, r, &err);
	command_request_close(&made);
	answer_close(&answer);
	return code;
}

sigset_t command_hold_signals(sigset_t *ret_before)
{
	sigset_t endings;

	sigemptyset(&endings);
	sigaddset(&endings, SIGINT);
	sigaddset(&endings, SIGTERM);
	sigaddset(&endings, SIGHUP);
	sigaddset(&endings, SIGQUIT);
	sigprocmask(SIG_BLOCK, &endings, ret_before);
	return endings;
}

int command_run(const struct command *command)
{
	struct running running = {.command = command, .code = -1};
	cleanup_fd int fd = -1;
	sigset_t endings, before;
	int code;

	/* A reader who left is told by EPIPE: there may be a sandbox to remove yet. */
	signal(SIGPIPE, SIG_IGN);
	endings = command_hold_signals(&before);
	running.interrupt_fd = fd = signalfd(-1, &endings, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0) {
		screen_error("cannot wait for signals: %m");
		return EXIT_NOT_RUN;
	}
	buf_init(&running.bytes, CLIENT_EVENT_MAX);
	code = ask(&running);
	buf_close(&running.bytes);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return code;
}
