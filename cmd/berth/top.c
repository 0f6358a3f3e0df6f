#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth/awake.h"
#include "cmd/berth/info.h"
#include "cmd/berth/keyboard.h"
#include "cmd/berth/sandbox.h"
#include "cmd/berth/screen.h"
#include "cmd/berth/top_table.h"
#include "cmd/berth/view.h"
#include "proto/time_text.h"

#define DELAY_USUAL_MS 1000
#define DELAY_MAX_S    3600
#define TEXT_MAX       (8 * 1024 * 1024)

enum { TOP_DELAY, TOP_ROUNDS, TOP_SORT };

enum ending { GOES_ON, WAS_LEFT, WAS_SIGNALED };

struct top {
	const struct globals *globals;
	int64_t delay_ms;
	unsigned long rounds; /* 0: until it is left */
	enum top_order order;
	int64_t now_ms;
	uint64_t default_memory;        /* the limit of those without one; 0: none */
	struct top_table before, table; /* both by ID */
	struct buf text, screen;
	struct answer answer;
	/* Of the live form. */
	struct keyboard keyboard;
	int signal_fd, wake_fd; /* the latter: a key or a signal is there */
	struct client_stream stream;
	enum ending ending;
	int code;
	bool is_stale; /* the screen's size has changed */
};

/* --- asking --- */

static void copy(char *to, size_t size, struct str from)
{
	struct screen_text text = screen_text(from);
	size_t len = strnlen(text.text, size - 1);

	/* A column is a byte here, so that lines can be cut. */
	for (size_t i = 0; i < len; i++)
		to[i] = (signed char)text.text[i] < 0 ? '?' : text.text[i];
	to[len] = '\0';
}

static int64_t known(bool is_given, uint64_t value)
{
	return is_given && value <= INT64_MAX ? (int64_t)value : -1;
}

static int add_row(void *arg, const struct sandbox_info *info)
{
	struct top *top = arg;
	uint64_t limit = info->limits.memory ? info->limits.memory : top->default_memory;
	struct top_row row = {
		.generation = info->generation,
		.cpu_ms = known(info->usage.cpu_given, info->usage.cpu_ms),
		.memory = known(info->usage.memory_given, info->usage.memory_bytes),
		.memory_limit = known(limit > 0, limit),
		.disk = known(info->usage.disk_given, info->usage.disk_bytes),
		.pids = known(info->usage.pids_given, info->usage.pids),
		.cpu_tenths = -1,
	};

	copy(row.id, sizeof(row.id), info->id);
	copy(row.state, sizeof(row.state), info->state);
	copy(row.activity, sizeof(row.activity), str_of(awake_in_short(info, top->now_ms).text));
	if (time_text_parse(info->usage.at, &row.at_ms) < 0)
		row.at_ms = 0;
	return top_table_add(&top->table, &row);
}

/* Whoever cannot say it will not say the rest, either; and an older daemon does not know. */
static void learn_default(struct top *top)
{
	struct answer answer;
	struct arena arena;
	struct info info;
	struct err unused;

	answer_init(&answer);
	arena_init(&arena, INFO_ARENA_MAX);
	if (client_get(top->globals, "/v1/info", &answer, &unused) == 0 &&
	    info_parse(&arena, &answer, &info, &unused) == 0)
		top->default_memory = info.default_memory;
	arena_close(&arena);
	answer_close(&answer);
}

/* The table of now; that of before is the one to compare with. */
static int sample(struct top *top, struct err *err)
{
	struct sandbox_visitor visitor = {.sandbox = add_row,
					  .arg = top,
					  .usage_wanted = true,
					  .stream = top->stream.interrupt_fd < 0 ? NULL
										 : &top->stream};
	int r;

	top_table_close(&top->before);
	top->before = top->table;
	top->table = (struct top_table){NULL, 0, 0};
	top->now_ms = awake_now_ms();
	r = sandbox_each(top->globals, &visitor, &top->answer, err);
	if (r == 0) {
		top_table_compare(&top->table, &top->before);
		return 0;
	}
	/* What was interrupted is asked again. */
	top_table_close(&top->table);
	top->table = top->before;
	top->before = (struct top_table){NULL, 0, 0};
	return r;
}

static int sorted(const struct top *top, struct top_table *ret)
{
	*ret = (struct top_table){NULL, 0, 0};
	for (size_t i = 0; i < top->table.len; i++) {
		if (top_table_add(ret, &top->table.rows[i]) < 0)
			return -ENOMEM;
	}
	top_table_sort(ret, top->order);
	return 0;
}

static int out_of_memory(struct err *err)
{
	return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
}

/* --- once, or for a file --- */

static int print_batch(struct top *top, struct err *err)
{
	cleanup(top_table_close) struct top_table table;
	int r = sorted(top, &table);

	buf_consume(&top->text, buf_len(&top->text));
	if (r == 0)
		r = top->globals->json ? top_table_json(&table, &top->text)
				       : top_table_print(&table, &top->text);
	if (r < 0)
		return out_of_memory(err);
	fwrite(buf_at(&top->text), 1, buf_len(&top->text), stdout);
	fflush(stdout);
	return 0;
}

/* How much of a processor is used takes two looks. */
static int run_batch(struct top *top, struct err *err)
{
	const struct timespec delay = {top->delay_ms / 1000, top->delay_ms % 1000 * 1000000};
	unsigned long rounds = top->rounds ? top->rounds : 1;
	int r = sample(top, err);

	for (unsigned long i = 0; r == 0 && i < rounds; i++) {
		nanosleep(&delay, NULL);
		r = sample(top, err);
		if (r == 0 && i && !top->globals->json)
			putchar('\n');
		if (r == 0)
			r = print_batch(top, err);
	}
	return r;
}

/* --- on a terminal --- */

static int write_screen(const struct top *top)
{
	struct str left = {buf_at(&top->screen), buf_len(&top->screen)};

	while (left.len) {
		ssize_t n = write(STDOUT_FILENO, left.at, left.len);
		struct pollfd room = {STDOUT_FILENO, POLLOUT, 0};

		if (n < 0 && errno == EAGAIN)
			poll(&room, 1, -1);
		else if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0)
			left = (struct str){left.at + n, left.len - (size_t)n};
	}
	return 0;
}

static int paint(struct top *top, struct err *err)
{
	cleanup(top_table_close) struct top_table table;
	unsigned cols, rows;
	int r = sorted(top, &table);

	buf_consume(&top->text, buf_len(&top->text));
	buf_consume(&top->screen, buf_len(&top->screen));
	view_size(&cols, &rows);
	if (r == 0)
		r = top_table_sum(&table, &top->text);
	if (r == 0)
		r = buf_printf(&top->text, " (q leaves)\n\n");
	if (r >= 0)
		r = top_table_print(&table, &top->text);
	if (r == 0)
		r = top_paint((struct str){buf_at(&top->text), buf_len(&top->text)}, cols, rows,
			      &top->screen);
	if (r < 0)
		return out_of_memory(err);
	top->is_stale = false;
	if (write_screen(top) < 0)
		top->ending = WAS_LEFT; /* our terminal is gone */
	return 0;
}

static void suspend(struct top *top)
{
	keyboard_give_back(&top->keyboard);
	kill(getpid(), SIGSTOP);
	top->keyboard.is_alternate = true;
	keyboard_take(&top->keyboard);
	top->is_stale = true;
}

static void on_typed(struct top *top)
{
	char typed[64];
	ssize_t n = read(STDIN_FILENO, typed, sizeof(typed));

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		top->ending = WAS_LEFT; /* our terminal is gone */
	for (ssize_t i = 0; i < n && top->ending == GOES_ON; i++) {
		if (typed[i] == 'q' || typed[i] == 'Q' || typed[i] == '\x03')
			top->ending = WAS_LEFT;
		else if (typed[i] == '\x1a')
			suspend(top);
	}
}

static void on_signals(struct top *top)
{
	struct signalfd_siginfo info;

	while (top->ending == GOES_ON &&
	       read(top->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGWINCH) {
			top->is_stale = true;
		} else if (info.ssi_signo == SIGTSTP) {
			suspend(top);
		} else {
			top->ending = WAS_SIGNALED;
			top->code = 128 + (int)info.ssi_signo;
		}
	}
}

/* What happens on the terminal until that moment. */
static int watch(struct top *top, int64_t until_ms, struct err *err)
{
	int r = 0;

	while (r == 0 && top->ending == GOES_ON) {
		struct pollfd fds[] = {{top->signal_fd, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
		int64_t left_ms = until_ms - awake_now_ms();

		/* A clock that is set back must not make it stand still. */
		if (left_ms > top->delay_ms)
			left_ms = top->delay_ms;
		if (poll(fds, array_len(fds), left_ms > 0 ? (int)left_ms : 0) == 0)
			return 0;
		if (fds[0].revents)
			on_signals(top);
		if (fds[1].revents && top->ending == GOES_ON)
			on_typed(top);
		if (top->is_stale && top->ending == GOES_ON)
			r = paint(top, err);
	}
	return r;
}

static int loop(struct top *top, struct err *err)
{
	unsigned long round = 0;
	int r = 0;

	while (r == 0 && top->ending == GOES_ON) {
		int64_t began_ms = awake_now_ms();

		r = sample(top, err);
		if (r == -EINTR) {
			r = watch(top, 0, err);
			continue;
		}
		if (r == 0)
			r = paint(top, err);
		if (r < 0 || (top->rounds && ++round >= top->rounds))
			break;
		r = watch(top, began_ms + top->delay_ms, err);
	}
	return r;
}

static int open_events(struct top *top)
{
	static const int heard[] = {SIGWINCH, SIGTSTP, SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	struct epoll_event event = {.events = EPOLLIN};
	sigset_t signals;

	sigemptyset(&signals);
	for (size_t i = 0; i < array_len(heard); i++)
		sigaddset(&signals, heard[i]);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	top->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	top->wake_fd = epoll_create1(EPOLL_CLOEXEC);
	if (top->signal_fd < 0 || top->wake_fd < 0 ||
	    epoll_ctl(top->wake_fd, EPOLL_CTL_ADD, top->signal_fd, &event) < 0 ||
	    epoll_ctl(top->wake_fd, EPOLL_CTL_ADD, STDIN_FILENO, &event) < 0)
		return -errno;
	top->stream = (struct client_stream){.body_fd = -1, .interrupt_fd = top->wake_fd};
	return 0;
}

/* The first look is before the terminal is touched: what is wrong by then needs no screen. */
static int run_live(struct top *top, struct err *err)
{
	int r = sample(top, err);

	if (r < 0)
		return r;
	r = open_events(top);
	top->keyboard.is_alternate = top->keyboard.is_styled = true;
	if (r == 0)
		r = keyboard_take(&top->keyboard);
	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "the terminal cannot be used: %s",
			       strerror(-r));
	r = loop(top, err);
	keyboard_give_back(&top->keyboard);
	close_fdp(&top->signal_fd);
	close_fdp(&top->wake_fd);
	return r;
}

/* --- the verb --- */

static int read_flags(const struct call *call, struct top *top)
{
	const char *delay = call->values[TOP_DELAY], *rounds = call->values[TOP_ROUNDS];
	const char *order = call->values[TOP_SORT];
	char *end = "";
	double seconds = delay ? strtod(delay, &end) : DELAY_USUAL_MS / 1000.0;

	if (*end || !(seconds >= 0.1 && seconds <= DELAY_MAX_S))
		return usage_error("--delay wants seconds, from 0.1 to %d", DELAY_MAX_S);
	top->delay_ms = (int64_t)(seconds * 1000);
	if (rounds && (strspn(rounds, "0123456789") != strlen(rounds) || strlen(rounds) > 9 ||
		       !strtoul(rounds, NULL, 10)))
		return usage_error("--count wants a number, from 1 on");
	top->rounds = rounds ? strtoul(rounds, NULL, 10) : 0;
	if (order && top_order_parse(str_of(order), &top->order) < 0)
		return usage_error("--sort wants cpu, mem, pids or id");
	return EXIT_OK;
}

static int run(const struct call *call)
{
	struct top top = {.globals = call->globals,
			  .signal_fd = -1,
			  .wake_fd = -1,
			  .stream = {.body_fd = -1, .interrupt_fd = -1}};
	bool is_live = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !call->globals->json;
	int code = read_flags(call, &top), r;
	struct err err;

	if (code != EXIT_OK)
		return code;
	buf_init(&top.text, TEXT_MAX);
	buf_init(&top.screen, TEXT_MAX);
	answer_init(&top.answer);
	learn_default(&top);
	r = is_live ? run_live(&top, &err) : run_batch(&top, &err);
	if (r < 0)
		code = client_failed(call->globals, &top.answer, r, &err);
	else
		code = top.code;
	answer_close(&top.answer);
	buf_close(&top.screen);
	buf_close(&top.text);
	top_table_close(&top.before);
	top_table_close(&top.table);
	return code;
}

/* clang-format off */
static const struct flag flags[] = {
	[TOP_DELAY]  = { "--delay", "SECONDS", "look so often; every second unless it is said", "-d" },
	[TOP_ROUNDS] = { "--count", "COUNT",   "leave after so many looks", "-n" },
	[TOP_SORT]   = { "--sort",  "COLUMN",  "by cpu, mem, pids or id; by cpu unless it is said", "-s" },
	{ NULL },
};

static const struct example examples[] = {
	{ "berth top",                "until q is pressed" },
	{ "berth top -s mem -d 5",    "those with the most memory first, every five seconds" },
	{ "berth top -n 3 | cat",     "three tables, for a file or a pipe" },
	{ "berth top --json | jq '.sandboxes[] | {id, cpu_percent}'", "one look, for a program" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_top = {
	.name = "top",
	.summary = "show what the sandboxes use, live",
	.arguments = "",
	.description =
		"Shows a table of all sandboxes: what keeps each awake or when it sleeps, how\n"
		"much of a processor it used since the look before, its memory and the limit of\n"
		"it, its disk and its processes. `-` is what this host does not count, or what\n"
		"is not there. Disks are counted one after the other, each once a minute at\n"
		"most. Where standard output is no terminal, and with --json, it takes two looks\n"
		"and prints one table. Looking wakes none, and keeps none awake.\n"
		"\n"
		"q or Ctrl-C leaves, Ctrl-Z suspends.",
	.flags = flags,
	.examples = examples,
	.run = run,
};
