/* The kernels of contexts: each a kept exec, its orders and its reports. */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/context_state.h"
#include "daemon/exec_pipe.h"
#include "daemon/handle_sandbox.h"
#include "daemon/registry.h"

#define START_MS   60000 /* that a kernel may take until it is ready */
#define RECOVER_MS 200   /* that one of an earlier berthd may be busy, before it is interrupted */
#define GRACE_MS   2000  /* ... and after that */

#define ENV_ARENA_MAX (8 * 1024 * 1024) /* for the environment of a kernel, once */
/* A report, its strings and the longest of them unescaped. */
#define REPORT_ARENA_MAX (4 * KERNEL_LINE_MAX + 4 * 1024 * 1024)
/* To read one is work, however short it is: so many bytes of what its sandbox may print at once
 * (see exec_kept_pull()), which is looked at after so many that are read. */
#define REPORT_COST  (2 * 1024)
#define REPORTS_READ (8 * 1024)
#define UNREAD_IDLE  (4 * 1024) /* of a report, while no call runs: "ready" is shorter */

#define KERNELS "/run/berth/kernels/"

#define NODE                                                                                       \
	STR("node\0--expose-internals\0--experimental-vm-modules\0"                                \
	    "--no-force-async-hooks-checks\0" KERNELS "javascript.cjs\0")

/* A frame list. */
static struct str command_of(enum kernel_language language)
{
	switch (language) {
	case KERNEL_PYTHON:
		return STR("python3\0" KERNELS "python.py\0");
	case KERNEL_BASH:
		return STR("bash\0" KERNELS "bash.sh\0");
	default:
		return NODE;
	}
}

void kernel_free(struct kernel *k)
{
	list_remove(&k->link);
	kernel_drop_line(k);
	free(k);
}

struct kernel *kernel_after(const struct context *c, struct list *node)
{
	while ((node = node->next) != &c->sb->kernels) {
		struct kernel *k = list_entry(node, struct kernel, link);

		if (k->context == c)
			return k;
	}
	return NULL;
}

void kernel_interrupt(struct kernel *k)
{
	exec_signal(k->exec, SIGINT);
}

void kernel_end(struct context *c, enum context_reason why, const char *text)
{
	if (c->state == CONTEXT_ENDING || !c->kernel)
		return;
	uv_timer_stop(&c->timer);
	c->state = CONTEXT_ENDING;
	c->has_why = true;
	c->why = why;
	snprintf(c->why_text, sizeof(c->why_text), "%.*s", (int)sizeof(c->why_text) - 1, text);
	c->kernel->is_over = true;
	exec_kill(c->kernel->exec);
}

/* --- reports --- */

static void check_ready(struct context *c)
{
	const struct kernel *k = c->kernel;

	if (c->state != CONTEXT_STARTING || !k || !k->is_ready || !k->is_stored || k->marker)
		return;
	uv_timer_stop(&c->timer);
	c->state = CONTEXT_READY;
	context_tell_warm(c, NULL);
	context_step(c);
}

/* All that an earlier berthd had wanted of it is over. */
static void be_recovered(struct kernel *k)
{
	k->marker = 0;
	if (k->is_asked)
		context_bar(k->context);
	check_ready(k->context);
}

static void refuse(struct kernel *k, const char *why)
{
	char text[160];

	snprintf(text, sizeof(text),
		 "its interpreter reported what makes no sense (%.60s), and was ended: the next "
		 "call gets a fresh one",
		 why);
	kernel_end(k->context, k->is_ready ? CONTEXT_BAD_REPORT : CONTEXT_NOT_STARTED, text);
}

static void take_report(struct kernel *k, const struct kernel_report *report)
{
	struct context *c = k->context;

	if (k->marker) {
		if (report->kind == KERNEL_DONE && report->call == k->marker)
			be_recovered(k);
	} else if (report->kind == KERNEL_READY && !k->is_ready) {
		k->is_ready = true;
		check_ready(c);
	} else if (report->kind == KERNEL_READY || context_call_report(c, report) < 0) {
		refuse(k, "a report of another call");
	}
}

/* Whatever comes of it, the kernel is there still; but it may be over, or without its context. */
static void take_line(struct kernel *k, struct str line)
{
	struct kernel_report report = {0};
	struct arena arena;
	struct err err;

	k->sb->pulled_bytes += REPORT_COST;
	arena_init(&arena, REPORT_ARENA_MAX);
	if (kernel_report_parse(&arena, line, &report, &err) == 0)
		take_report(k, &report);
	else if (!k->marker) /* of an earlier berthd's we may have only the second half */
		refuse(k, err.sentence);
	arena_close(&arena);
}

/* It may have much to say: it has a call, or had one of an earlier berthd. */
static bool is_talking(const struct kernel *k)
{
	return k->marker || (k->context->has_call && !k->context->is_done);
}

/* The rest of one that is not complete. */
static void keep_rest(struct kernel *k, struct str rest)
{
	struct kernel *greedy;

	if (!rest.len)
		return;
	if (kernel_keep_line(k, rest) < 0)
		refuse(k, "a line that is too long");
	if (kernel_is_heard(k) && buf_len(&k->line) > UNREAD_IDLE && !is_talking(k))
		refuse(k, "a long line while nothing runs");
	while ((greedy = kernel_find_greedy(k))) {
		refuse(greedy, "too much at once, with the other contexts");
		kernel_drop_line(greedy);
	}
}

static void take_reports(struct kernel *k, struct str bytes)
{
	while (bytes.len && kernel_is_heard(k)) {
		const char *end = memchr(bytes.at, '\n', bytes.len);
		struct str line = bytes;

		if (!end) {
			keep_rest(k, bytes);
			break;
		}
		line.len = (size_t)(end - bytes.at);
		bytes = (struct str){end + 1, bytes.len - line.len - 1};
		if (!buf_len(&k->line)) {
			take_line(k, line);
			continue;
		}
		keep_rest(k, line);
		if (kernel_is_heard(k)) {
			struct buf whole = kernel_take_line(k);

			take_line(k, (struct str){buf_at(&whole), buf_len(&whole)});
			buf_close(&whole);
		}
	}
	if (!kernel_is_heard(k))
		kernel_drop_line(k);
}

/* --- what it prints --- */

static void keep_said(struct kernel *k, struct str bytes)
{
	size_t room = sizeof(k->said) - 1 - k->said_len;
	size_t n = bytes.len < room ? bytes.len : room;

	for (size_t i = 0; i < n; i++) {
		char b = bytes.at[i];

		k->said[k->said_len++] = (char)(b >= ' ' && b < 0x7f ? b : ' ');
	}
}

/* The last words of V8: it has its own limit, which it takes from the sandbox's. They may come in
 * two pieces. */
static void look_for_heap(struct kernel *k, struct str bytes)
{
	static const char words[] = "heap out of memory";
	char joined[2 * sizeof(k->tail)], *end;
	size_t n = bytes.len < sizeof(k->tail) ? bytes.len : sizeof(k->tail);

	static_assert(sizeof(k->tail) == sizeof(words) - 2, "all but the last of them");
	end = mempcpy(mempcpy(joined, k->tail, k->tail_len), bytes.at, n);
	if (memmem(joined, (size_t)(end - joined), words, sizeof(words) - 1) ||
	    memmem(bytes.at, bytes.len, words, sizeof(words) - 1))
		k->is_heap_full = true;
	if (bytes.len > n) {
		memcpy(joined, bytes.at + bytes.len - n, n);
		end = joined + n;
	}
	k->tail_len =
		(size_t)(end - joined) < sizeof(k->tail) ? (size_t)(end - joined) : sizeof(k->tail);
	memcpy(k->tail, end - k->tail_len, k->tail_len);
}

static ssize_t on_pull(void *arg, enum exec_stream stream, int fd)
{
	struct kernel *k = arg;
	char bytes[EXEC_PIPE_READ];
	size_t size = stream == EXEC_REPORTS ? REPORTS_READ : sizeof(bytes);
	ssize_t n = exec_pipe_read_now(fd, bytes, size);
	struct str s = {bytes, (size_t)n};

	if (n <= 0)
		return n < 0 ? -errno : 0;
	if (stream == EXEC_STDERR)
		look_for_heap(k, s);
	if (stream == EXEC_REPORTS) {
		k->reported += s.len;
		k->is_taking = true;
		take_reports(k, s);
		k->is_taking = false;
	} else if (k->context && k->context->kernel == k && k->is_ready) {
		context_call_output(k->context, stream == EXEC_STDERR, s);
	} else if (stream == EXEC_STDERR && !k->is_ready) {
		keep_said(k, s);
	}
	return n;
}

static void on_drained(void *arg)
{
	struct kernel *k = arg;

	if (kernel_is_heard(k))
		context_call_drained(k->context);
}

static void on_stdin_ready(void *arg)
{
	struct kernel *k = arg;

	if (kernel_is_heard(k))
		context_call_feed(k->context);
}

/* --- its life --- */

static const char *program_of(enum kernel_language language)
{
	return language == KERNEL_PYTHON ? "python3" : language == KERNEL_BASH ? "bash" : "node";
}

/* A limit that it met before it was ready; ERR_NONE: it was none. */
static enum err_code limit_met(const struct exec_end *end)
{
	switch (end->reason) {
	case EXEC_OOM:
		return ERR_MEMORY_LIMIT;
	case EXEC_CPU_LIMIT:
		return ERR_CPU_LIMIT;
	case EXEC_VIOLATION:
		return ERR_EXEC_ERROR;
	default:
		return ERR_NONE;
	}
}

static void say_not_started(const struct kernel *k, const struct exec_end *end, char *text,
			    size_t size)
{
	const struct context *c = k->context;

	if (c->has_why)
		snprintf(text, size, "%s", c->why_text);
	else if (end->reason == EXEC_NOT_STARTED && end->exit_code == 127)
		snprintf(text, size, "the image has no %s: install it, or use an image that has it",
			 program_of(c->language));
	else if (end->message[0])
		snprintf(text, size, "%s", end->message);
	else
		snprintf(text, size, "%s ended before it was ready%s%s", program_of(c->language),
			 k->said_len ? ": " : "", k->said);
}

static void fail_start(const struct kernel *k, const struct exec_end *end)
{
	struct context_end ret = {
		.reason = CONTEXT_NOT_STARTED,
		.exit_code = end->exit_code,
		.code = end->exit_code == 127 ? ERR_UNSUPPORTED : ERR_EXEC_ERROR,
	};

	if (limit_met(end)) {
		context_end_of(end, &ret);
		ret.code = limit_met(end);
	} else {
		say_not_started(k, end, ret.message, sizeof(ret.message));
	}
	k->context->has_why = false;
	context_fail_start(k->context, &ret);
}

/* V8 aborts then. */
static bool is_heap_full(const struct kernel *k, const struct exec_end *end)
{
	enum kernel_language language = k->context->language;

	return k->is_heap_full && end->reason == EXEC_SIGNALED &&
	       (end->signal == SIGABRT || end->signal == SIGTRAP) &&
	       (language == KERNEL_JAVASCRIPT || language == KERNEL_TYPESCRIPT);
}

/* Calls cannot use it any more. */
static void part(struct kernel *k, const struct exec_end *exec_end)
{
	struct exec_end end = *exec_end;
	struct context *c = k->context;
	bool was_starting = !k->marker && !c->has_call &&
			    (c->state == CONTEXT_STARTING || !k->is_ready || !k->is_stored);

	if (is_heap_full(k, exec_end)) {
		end.reason = EXEC_OOM;
		snprintf(end.message, sizeof(end.message), "%s", CONTEXT_HEAP_FULL);
	}
	uv_timer_stop(&c->timer);
	c->kernel = NULL;
	c->state = CONTEXT_ABSENT;
	context_spend(c, &end);
	if (was_starting && !c->is_leaving)
		fail_start(k, &end);
	else
		context_call_lost(c, &end);
	c->has_why = false;
	if (c->is_spent)
		context_fail_queue(c, &c->spent);
}

static void on_started(void *arg, uint32_t pid)
{
	struct kernel *k = arg;
	struct context *c = k->context;

	k->pid = pid;
	if (!kernel_is_heard(k) || k->marker || c->state != CONTEXT_STARTING)
		return;
	c->fact.generation = k->generation;
	c->fact.exec = k->number;
	k->is_stored = c->is_quiet;
	if (!c->is_quiet && context_save(c) < 0)
		kernel_end(c, CONTEXT_NOT_STARTED, "too much is being stored: try again");
	else
		check_ready(c);
}

void kernel_stored(struct context *c, int result, const struct err *err)
{
	if (c->state != CONTEXT_STARTING || !c->kernel || c->kernel->is_stored)
		return;
	c->kernel->is_stored = result == 0;
	if (result < 0)
		kernel_end(c, CONTEXT_NOT_STARTED, err->sentence);
	else
		check_ready(c);
}

static void on_exited(void *arg, const struct exec_end *end)
{
	struct kernel *k = arg;
	struct context *c = k->context;

	if (!c || c->kernel != k)
		return;
	k->is_over = true;
	/* The memory that it wanted is held by what it has started, as by a fork bomb: the next
	 * kernel would find none. */
	k->is_cleared = end->reason == EXEC_OOM;
	part(k, end);
	if (k->is_cleared)
		exec_kill(k->exec);
	context_step(c);
}

static void on_ended(void *arg, const struct exec_end *end)
{
	struct kernel *k = arg;
	struct context *c = k->context;

	exec_forget(k->sb, k->generation, k->number);
	k->exec = NULL;
	k->is_over = true;
	if (c && c->kernel == k)
		part(k, end);
	kernel_free(k);
	if (!c || c->is_dead)
		return;
	context_check_leaving(c);
	context_step(c);
	context_discard(c);
}

static const struct exec_ops kernel_ops = {
	.ended = on_ended,
	.stdin_ready = on_stdin_ready,
	.started = on_started,
	.pull = on_pull,
	.has_reports = true,
	.drained = on_drained,
	.exited = on_exited,
};

static struct kernel *kernel_new(struct context *c)
{
	struct kernel *k = calloc(1, sizeof(*k));

	if (!k)
		return NULL;
	k->context = c;
	k->sb = c->sb;
	k->generation = c->sb->generation;
	buf_init(&k->line, KERNEL_LINE_MAX - 1);
	list_append(&c->sb->kernels, &k->link);
	return k;
}

/* Whoever waits in it is told on the loop, and not before the call that made it wait returns. */
static void fail_soon(struct context *c, const struct err *err)
{
	snprintf(c->why_text, sizeof(c->why_text), "%.*s", (int)sizeof(c->why_text) - 1,
		 err->sentence);
	c->why_code = err->code;
	c->state = CONTEXT_STARTING;
	uv_timer_start(&c->timer, context_on_timer, 0, 0);
}

void kernel_start(struct context *c)
{
	struct exec_request request = {
		.argv = command_of(c->language),
		.env = c->fact.env,
		.cwd = c->fact.cwd,
		.user = c->fact.user,
		.has_stdin = true,
		.is_kept = true,
		.is_quiet = true,
	};
	struct kernel *k = kernel_new(c);
	struct arena arena;
	struct err err;

	err_set(&err, -ENOMEM, ERR_INTERNAL, "out of memory");
	arena_init(&arena, ENV_ARENA_MAX);
	if (k && handle_env(&arena, c->sb, &request, &err) == 0)
		k->exec = exec_new(c->sb, &request, &kernel_ops, k, &err);
	arena_close(&arena);
	if (!k || !k->exec) {
		if (k)
			kernel_free(k);
		fail_soon(c, &err);
		return;
	}
	k->number = exec_number(k->exec);
	c->kernel = k;
	c->is_fresh = true;
	c->state = CONTEXT_STARTING;
	uv_timer_start(&c->timer, context_on_timer, START_MS, 0);
}

void kernel_adopt(struct context *c)
{
	struct kernel *k = kernel_new(c);
	struct err err;

	if (!k)
		return;
	k->number = c->fact.exec;
	k->is_ready = k->is_stored = true;
	k->marker = ++c->sb->last_call;
	k->exec = exec_adopt(c->sb, k->number, &kernel_ops, k, &err);
	if (k->exec) {
		c->kernel = k;
		c->state = CONTEXT_STARTING;
		return;
	}
	log_error("sandbox=%s a context cannot be adopted: %s", c->sb->id.text, err.sentence);
	kernel_free(k);
}

/*
 * What it runs has nobody who listens. A call of ours waits behind it, and behind the half of an
 * order that its berthd may have written; if that takes long, what runs is interrupted.
 */
void kernel_recover(struct kernel *k)
{
	char order[64];
	int n = snprintf(order, sizeof(order), "\x18\n{\"call\":%llu,\"code\":\"\"}\n",
			 (unsigned long long)k->marker);

	if (!exec_stdin_is_open(k->exec)) {
		kernel_end(k->context, CONTEXT_LOST, "");
		return;
	}
	exec_stdin(k->exec, (struct str){order, (size_t)n});
	uv_timer_start(&k->context->timer, context_on_timer, RECOVER_MS, 0);
}

/* See fail_soon(). */
static void fail_now(struct context *c)
{
	struct context_end end = {
		.reason = CONTEXT_NOT_STARTED, .exit_code = 126, .code = c->why_code};

	snprintf(end.message, sizeof(end.message), "%s", c->why_text);
	c->state = CONTEXT_ABSENT;
	context_fail_start(c, &end);
	context_step(c);
}

void kernel_late(struct context *c)
{
	struct kernel *k = c->kernel;

	if (!k) {
		fail_now(c);
	} else if (k->marker && !k->is_asked) {
		k->is_asked = true;
		kernel_interrupt(k);
		uv_timer_start(&c->timer, context_on_timer, GRACE_MS, 0);
	} else if (k->marker) {
		kernel_end(c, CONTEXT_LOST, "");
	} else {
		kernel_end(c, CONTEXT_NOT_STARTED,
			   "its interpreter was not ready in time: try again, or look at what the "
			   "image has of it");
	}
}
