#include "cmd/berth/view.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "cmd/berth/command.h"
#include "cmd/berth/link.h"
#include "cmd/berth/sandbox.h"
#include "cmd/berth/screen.h"
#include "proto/json.h"
#include "proto/sandbox_id.h"

#define TEXT_ARENA_MAX (64 * 1024)
#define TYPED_MAX      4096
#define REPAINT_MS     50 /* between two sizes: a program is to see both */

enum ending { GOES_ON, HAS_EXITED, WAS_LEFT, WAS_SIGNALED, IS_LOST };

struct running {
	struct view *view;
	struct link *link;
	int signal_fd;
	int64_t repaint_ms; /* until then it has a size that is not ours; 0: it has ours */
	enum ending ending;
	int code;
	bool is_known; /* that is the program's own */
	struct screen_text reason;
};

int view_init(struct view *view, const struct globals *globals, const char *keys)
{
	view->globals = globals;
	if (keyboard_init(&view->keyboard, keys) < 0) {
		usage_error("--detach-keys wants keys such as ctrl-p,ctrl-q or ctrl-],q");
		return EXIT_NOT_RUN;
	}
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
		screen_error("this needs a terminal; without one there is `berth exec`");
		return EXIT_NOT_RUN;
	}
	return EXIT_OK;
}

void view_size(unsigned *ret_cols, unsigned *ret_rows)
{
	struct winsize size = {0};

	ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	*ret_cols = size.ws_col ? size.ws_col : 80;
	*ret_rows = size.ws_row ? size.ws_row : 24;
}

static int send_size(struct running *r, unsigned cols, unsigned rows)
{
	char text[80];
	int len = snprintf(text, sizeof(text), "{\"type\":\"resize\",\"cols\":%u,\"rows\":%u}",
			   cols, rows);

	return link_send(r->link, true, (struct str){text, (size_t)len});
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/*
 * A program that shows a whole screen paints it when its size changes, and only then: it is given
 * another, and ours when it has had the time to see that.
 */
static int send_sizes(struct running *r, bool is_painted)
{
	unsigned cols, rows;

	view_size(&cols, &rows);
	r->repaint_ms = is_painted ? now_ms() + REPAINT_MS : 0;
	return send_size(r, cols, !is_painted ? rows : rows > 1 ? rows - 1 : rows + 1);
}

static void on_signals(struct running *r);

/* --- what comes --- */

struct told {
	struct str type;
	int64_t code;
	bool code_given;
	struct str reason;
};

static int on_text(struct running *r, struct str text)
{
	static const struct json_field fields[] = {
		{"type", JSON_STRING, offsetof(struct told, type), true, 0, NULL, 0},
		{"code", JSON_INT, offsetof(struct told, code), false,
		 offsetof(struct told, code_given), NULL, 0},
		{"reason", JSON_STRING, offsetof(struct told, reason), false, 0, NULL, 0},
		{"*", JSON_IGNORED, 0, false, 0, NULL, 0},
		{NULL, JSON_BOOL, 0, false, 0, NULL, 0},
	};
	struct told told = {STR(""), 0, false, STR("")};
	struct arena arena;
	struct err err;

	arena_init(&arena, TEXT_ARENA_MAX);
	if (json_parse(&arena, text, fields, &told, &err) == 0 && str_eq(told.type, STR("exit"))) {
		r->ending = HAS_EXITED;
		r->is_known = told.code_given && told.code >= 0 && told.code < 256;
		r->code = r->is_known ? (int)told.code : EXIT_NOT_RUN;
		r->reason = screen_text(told.reason);
	}
	arena_close(&arena);
	return 0;
}

/* To a terminal that was stopped by Ctrl-S too: what wakes us then is a signal. */
static int print(struct running *r, struct str bytes)
{
	while (bytes.len) {
		struct pollfd fds[] = {{STDOUT_FILENO, POLLOUT, 0}, {r->signal_fd, POLLIN, 0}};
		ssize_t n;

		if (poll(fds, array_len(fds), -1) < 0 && errno != EINTR)
			return -errno;
		if (fds[1].revents)
			on_signals(r);
		if (r->ending != GOES_ON)
			return -EINTR;
		if (!fds[0].revents)
			continue;
		n = write(STDOUT_FILENO, bytes.at, bytes.len < 512 ? bytes.len : 512);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		if (n > 0)
			bytes = (struct str){bytes.at + n, bytes.len - (size_t)n};
	}
	return 0;
}

static int on_message(void *arg, bool is_text, struct str bytes)
{
	struct running *r = arg;

	if (is_text)
		return on_text(r, bytes);
	keyboard_watch(&r->view->keyboard, bytes);
	return print(r, bytes);
}

/* --- what happens here --- */

static void on_typed(struct running *r)
{
	char typed[TYPED_MAX], kept[TYPED_MAX + KEYBOARD_KEYS_MAX];
	ssize_t n = read(STDIN_FILENO, typed, sizeof(typed));
	size_t len = 0;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		r->ending = WAS_LEFT; /* our terminal is gone */
		return;
	}
	if (keyboard_filter(&r->view->keyboard, (struct str){typed, (size_t)n}, kept, &len))
		r->ending = WAS_LEFT;
	if (len && link_send(r->link, false, (struct str){kept, len}) < 0)
		r->ending = IS_LOST;
}

/* As any program that has the terminal: it is given back while we are stopped. */
static void stop(struct running *r)
{
	keyboard_give_back(&r->view->keyboard);
	kill(getpid(), SIGSTOP);
	keyboard_take(&r->view->keyboard);
	send_sizes(r, true);
}

static void on_signals(struct running *r)
{
	struct signalfd_siginfo info;

	while (r->ending == GOES_ON && read(r->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGWINCH) {
			send_sizes(r, false);
		} else if (info.ssi_signo == SIGTSTP) {
			stop(r);
		} else {
			r->ending = WAS_SIGNALED;
			r->code = 128 + (int)info.ssi_signo;
		}
	}
}

static void loop(struct running *r)
{
	while (r->ending == GOES_ON) {
		struct pollfd fds[] = {
			{link_fd(r->link), link_events(r->link), 0},
			{r->signal_fd, POLLIN, 0},
			{link_is_full(r->link) ? -1 : STDIN_FILENO, POLLIN, 0},
		};
		bool has_more = link_has_more(r->link);
		int error = 0;

		if (poll(fds, array_len(fds),
			 has_more        ? 0
			 : r->repaint_ms ? REPAINT_MS
					 : -1) < 0 &&
		    errno != EINTR)
			r->ending = IS_LOST;
		/* What is typed must find the right size. */
		if (r->repaint_ms && (fds[2].revents || now_ms() >= r->repaint_ms))
			send_sizes(r, false);
		if (fds[1].revents)
			on_signals(r);
		if (fds[2].revents && r->ending == GOES_ON)
			on_typed(r);
		if ((fds[0].revents || has_more) && r->ending == GOES_ON)
			error = link_work(r->link, on_message, r);
		if (error < 0 && r->ending == GOES_ON)
			r->ending = IS_LOST;
	}
}

static int open_link(struct running *r)
{
	const struct view *view = r->view;
	char path[SANDBOX_PATH_MAX], suffix[160];
	struct sandbox_id id;
	struct err err;
	int error = 0;

	/* It may be what the daemon said: it goes into a request, and on the screen. */
	if (sandbox_id_parse(str_of(view->terminal), &id) < 0)
		error = err_set(&err, -EBADMSG, ERR_INTERNAL,
				"the daemon named a terminal by what is no ID");
	if (error == 0) {
		snprintf(suffix, sizeof(suffix), "/terminals/%s/connect%s", id.text,
			 view->is_new ? "?cursor=0" : "");
		error = sandbox_path(view->id, suffix, path, &err);
	}
	if (error == 0)
		error = link_open(&r->link, view->globals, path, &err);
	if (error == 0)
		return EXIT_OK;
	screen_error("%s", err.sentence);
	return EXIT_NOT_RUN;
}

static int finish(const struct running *r)
{
	char back[CLIENT_COMMAND_MAX];

	switch (r->ending) {
	case WAS_LEFT:
		fprintf(stderr, "\nleft running; to come back: %s %s %s\n",
			client_command(r->view->globals, "attach", back), r->view->id,
			r->view->terminal);
		return EXIT_OK;
	case IS_LOST:
		screen_error("the connection ended%s%s; to come back: %s %s %s",
			     *link_reason(r->link) ? ": " : "",
			     screen_text(str_of(link_reason(r->link))).text,
			     client_command(r->view->globals, "attach", back), r->view->id,
			     r->view->terminal);
		return EXIT_NOT_RUN;
	case HAS_EXITED:
		/* That of the program needs no words. */
		if (r->is_known)
			command_explain(str_of(r->reason.text), STR(""));
		else
			screen_error("how it ended is not known (%s)", r->reason.text);
		return r->code;
	default:
		return r->code;
	}
}

int view_run(struct view *view)
{
	static const int heard[] = {SIGWINCH, SIGTSTP, SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	struct running r = {.view = view, .signal_fd = -1};
	cleanup_fd int signal_fd = -1;
	sigset_t signals;
	int code, error;

	signal(SIGPIPE, SIG_IGN);
	code = open_link(&r); /* which may wait: Ctrl-C still ends us */
	if (code != EXIT_OK)
		return code;
	sigemptyset(&signals);
	for (size_t i = 0; i < array_len(heard); i++)
		sigaddset(&signals, heard[i]);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	signal_fd = r.signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	error = signal_fd < 0 ? -errno : keyboard_take(&view->keyboard);
	if (error == 0)
		error = send_sizes(&r, !view->is_new);
	if (error == 0)
		error = link_work(r.link, on_message, &r); /* what came with the answer */
	if (error == 0)
		loop(&r);
	else if (r.ending == GOES_ON)
		r.ending = IS_LOST;
	keyboard_give_back(&view->keyboard);
	code = finish(&r);
	link_close(r.link);
	return code;
}
