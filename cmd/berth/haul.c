#include "cmd/berth/haul.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/berth/command.h"
#include "cmd/berth/screen.h"

#define READER_MS 100 /* how often it is looked for */

int haul_init(struct haul *haul, const struct globals *globals)
{
	sigset_t endings;

	*haul = (struct haul){.globals = globals, .interrupt_fd = -1};
	answer_init(&haul->answer);
	buf_init(&haul->target, REMOTE_TARGET_MAX);
	buf_init(&haul->body, REMOTE_TARGET_MAX);
	progress_init(&haul->progress);
	signal(SIGPIPE, SIG_IGN);
	endings = command_hold_signals(&haul->before);
	haul->interrupt_fd = signalfd(-1, &endings, SFD_CLOEXEC | SFD_NONBLOCK);
	if (haul->interrupt_fd >= 0)
		return EXIT_OK;
	screen_error("cannot wait for signals: %m");
	haul_close(haul);
	return EXIT_FAILED;
}

void haul_close(struct haul *haul)
{
	progress_end(&haul->progress);
	if (haul->interrupt_fd >= 0)
		close(haul->interrupt_fd);
	answer_close(&haul->answer);
	buf_close(&haul->target);
	buf_close(&haul->body);
	sigprocmask(SIG_SETMASK, &haul->before, NULL);
}

bool haul_is_interrupted(const struct haul *haul)
{
	struct pollfd p = {.fd = haul->interrupt_fd, .events = POLLIN};

	return poll(&p, 1, 0) > 0;
}

/* Whoever reads a pipe that nobody writes finds that out by poll(), as with all that is slow. */
int haul_open(const struct haul *haul, const char *path, int flags)
{
	struct pollfd p = {.fd = haul->interrupt_fd, .events = POLLIN};
	struct stat st;
	int fd;

	while ((fd = open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)) < 0) {
		int error = -errno;

		/* Nobody reads it yet, and there is nothing to be told by when somebody does. */
		if (error != -ENXIO || stat(path, &st) < 0 || !S_ISFIFO(st.st_mode))
			return error;
		if (poll(&p, 1, READER_MS) > 0)
			return -EINTR;
	}
	return fd;
}

int haul_fail(struct haul *haul, int error, const char *format, ...)
{
	char sentence[sizeof(haul->own.sentence)];
	va_list args;

	va_start(args, format);
	vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	return err_set(&haul->own, error, ERR_INTERNAL, "%s", sentence);
}

int haul_open_stdin(struct haul *haul)
{
	int fd;

	/* Nobody can hand us a descriptor with that flag: main() has put something in its place. */
	if (fcntl(STDIN_FILENO, F_GETFD) & FD_CLOEXEC)
		return haul_fail(haul, -EBADF, "standard input is closed");
	fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	return fd < 0 ? haul_fail(haul, -errno, "cannot read standard input: %m") : fd;
}

int haul_patterns(struct haul *haul, const struct call *call, size_t flag, const char *name)
{
	bool is_first = true;
	int r = 0;

	for (size_t i = 0; r == 0 && i < call->given_count; i++) {
		if (call->given[i].flag != flag)
			continue;
		r = is_first ? buf_printf(&haul->target, "&%s=", name)
			     : buf_printf(&haul->target, "%%2C");
		if (r == 0)
			r = remote_encode(&haul->target, str_of(call->given[i].value));
		is_first = false;
	}
	return r;
}

static int ask(struct haul *haul, const char *method, const struct client_stream *stream,
	       unsigned timeout_ms)
{
	struct client_request request = {
		.method = method, .stream = stream, .timeout_ms = timeout_ms};
	int r = buf_append(&haul->target, "", 1);

	if (r < 0)
		return haul_fail(haul, r, "the path is too long");
	request.path = buf_at(&haul->target);
	request.body = (struct str){buf_at(&haul->body), buf_len(&haul->body)};
	buf_consume(&haul->answer.body, buf_len(&haul->answer.body));
	r = client_send(haul->globals, &request, &haul->answer, &haul->err);
	buf_consume(&haul->target, buf_len(&haul->target));
	buf_consume(&haul->body, buf_len(&haul->body));
	progress_end(&haul->progress);
	return r;
}

int haul_events(struct haul *haul, const char *method,
		int (*event)(void *arg, const struct sse_event *event), void *arg)
{
	struct client_stream stream = {.body_fd = -1,
				       .interrupt_fd = haul->interrupt_fd,
				       .event = event,
				       .broken = "what came after that was not told",
				       .arg = arg};

	return ask(haul, method, &stream, 0);
}

int haul_events_now(struct haul *haul, const char *method,
		    int (*event)(void *arg, const struct sse_event *event), void *arg)
{
	struct client_stream stream = {.body_fd = -1,
				       .interrupt_fd = haul->interrupt_fd,
				       .event = event,
				       .broken = "not everything has come",
				       .may_end = true,
				       .arg = arg};

	return ask(haul, method, &stream, 0);
}

int haul_ask_long(struct haul *haul, const char *method)
{
	struct client_stream stream = {.body_fd = -1, .interrupt_fd = haul->interrupt_fd};

	return ask(haul, method, &stream, 0);
}

int haul_ask(struct haul *haul, const char *method)
{
	struct client_stream stream = {.body_fd = -1, .interrupt_fd = haul->interrupt_fd};

	/* A sandbox may have to be started first. */
	return ask(haul, method, &stream, CLIENT_WAIT_MS);
}

struct receiving {
	struct haul *haul;
	haul_sink_fn *sink;
	void *arg;
	int fd;
};

static int on_bytes(void *arg, struct str bytes)
{
	struct receiving *receiving = arg;

	progress_add(&receiving->haul->progress, bytes.len);
	return receiving->sink(receiving->arg, bytes);
}

int haul_receive(struct haul *haul, const char *method, haul_sink_fn *sink, void *arg)
{
	struct receiving receiving = {.haul = haul, .sink = sink, .arg = arg};
	struct client_stream stream = {.body_fd = -1,
				       .interrupt_fd = haul->interrupt_fd,
				       .bytes = on_bytes,
				       .arg = &receiving};

	return ask(haul, method, &stream, 0);
}

static int pass_on(struct haul *haul, int fd, struct str bytes)
{
	int r = command_pass_on(haul->interrupt_fd, fd, bytes.at, bytes.len);

	if (r < 0 && r != -EINTR && r != -EPIPE)
		return haul_fail(haul, r, "cannot write the answer: %s", strerror(-r));
	return r;
}

int haul_print(struct haul *haul, struct str text)
{
	return pass_on(haul, STDOUT_FILENO, text);
}

int haul_print_answer(struct haul *haul)
{
	int r = haul_print(haul,
			   (struct str){buf_at(&haul->answer.body), buf_len(&haul->answer.body)});

	return r < 0 ? r : haul_print(haul, STR("\n"));
}

static int on_bytes_for_fd(void *arg, struct str bytes)
{
	struct receiving *receiving = arg;

	return pass_on(receiving->haul, receiving->fd, bytes);
}

int haul_receive_fd(struct haul *haul, const char *method, int fd)
{
	struct receiving receiving = {.haul = haul, .fd = fd};

	return haul_receive(haul, method, on_bytes_for_fd, &receiving);
}

struct sending {
	struct haul *haul;
	haul_end_fn *end;
	void *arg;
};

static int on_sent(void *arg, size_t len)
{
	struct sending *sending = arg;

	progress_add(&sending->haul->progress, len);
	return len || !sending->end ? 0 : sending->end(sending->arg);
}

int haul_send(struct haul *haul, const char *method, int fd, haul_end_fn *end, void *arg)
{
	struct sending sending = {haul, end, arg};
	struct client_stream stream = {.body_fd = fd,
				       .interrupt_fd = haul->interrupt_fd,
				       .sent = on_sent,
				       .arg = &sending};

	return ask(haul, method, &stream, 0);
}

int haul_stat(struct haul *haul, const struct remote *remote, struct arena *arena,
	      struct file_info *ret)
{
	int r = remote_target(remote, "stat", &haul->target);

	if (r < 0)
		return haul_fail(haul, r, "the path is too long");
	r = haul_ask(haul, "GET");
	if (r == -EREMOTEIO && haul->answer.status == 404)
		return 1;
	return r < 0 ? r : file_info_parse(arena, &haul->answer, ret, &haul->err);
}

int haul_finish(struct haul *haul, int r)
{
	progress_end(&haul->progress);
	if (r == 0)
		return EXIT_OK;
	if (r == -EINTR)
		return command_interrupted(haul->interrupt_fd);
	if (haul->own.code != ERR_NONE) {
		screen_error("%s", haul->own.sentence);
		return EXIT_FAILED;
	}
	if (r == -EPIPE)
		return EXIT_PIPE;
	if (haul->err.code == ERR_NONE)
		err_set(&haul->err, r, ERR_INTERNAL, "%s", strerror(-r));
	return client_failed(haul->globals, &haul->answer, r < 0 ? r : -EREMOTEIO, &haul->err);
}
