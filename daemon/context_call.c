/* Calls of a context: one at a time is given to its kernel, and has exactly one end. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "daemon/context_state.h"
#include "daemon/ping.h"
#include "daemon/registry.h"
#include "daemon/sandbox_sleep.h"

#define GRACE_MS    1000        /* after each of two signals */
#define FEED_MAX    (64 * 1024) /* of an order at once */
#define DRAIN_MS    100
#define UNREAD_MS   10000 /* that others wait for a client that does not read, and has no timeout */
#define PAUSED_MS   1000  /* so often while others wait for a client that does not read */
#define PAUSED_MAX  (1024 * 1024)
#define CROWD_MS    100 /* so often, and so many times, until what was interrupted is gone */
#define CROWD_LOOKS 20
#define LOOK_MS     10 /* so often, and so many times, until what it had reported is read */
#define LOOKS       20
#define DEAF_MS     1000 /* from its closed stdin to its end, which comes by another way */

/* --- its end --- */

/* Whatever it had belongs to the next one. */
static void clear(struct context *c)
{
	uv_timer_stop(&c->timer);
	buf_close(&c->order);
	c->has_call = c->is_error = c->is_done = c->is_timed_out = c->is_interrupted = false;
	c->is_signal_due = c->is_dropping = c->has_why = c->is_unsent = c->is_deaf = false;
	c->signals = c->crowd_looks = c->looks_left = 0;
	if (!c->is_paused)
		return;
	c->is_paused = false;
	if (c->kernel && c->kernel->exec)
		exec_resume(c->kernel->exec);
}

void context_call_end(struct context *c, struct context_end *end)
{
	struct context_call *call = take(c->call);

	end->duration_ms = (uv_hrtime() - c->began_ns) / 1000000;
	end->is_fresh = c->is_fresh;
	c->is_fresh = false;
	if (c->is_dropping && call && !end->message[0])
		snprintf(end->message, sizeof(end->message), "%s",
			 "some of what it printed is missing: the client did not keep up until the "
			 "call's time was over");
	clear(c);
	if (!call)
		return;
	call->context = NULL;
	call->ops->ended(call, end);
}

/* Code that catches the interrupt, and ends in peace, was interrupted all the same; but not code
 * that had ended before that was sent. */
static void set_done(const struct context *c, struct context_end *end)
{
	end->is_error = c->is_error;
	if (c->is_timed_out && c->signals)
		end->reason = CONTEXT_TIMEOUT;
	else if (c->done == KERNEL_DONE_INTERRUPTED || (c->is_interrupted && c->signals))
		end->reason = CONTEXT_INTERRUPTED;
	else
		end->reason = CONTEXT_COMPLETED;
}

/* Its kernel is done, and all that it had printed by then was handed on. */
static void finish(struct context *c)
{
	struct context_end end = {0};
	/* One that was heeded has come; any other may yet, and must not hit the next call. */
	bool is_late = c->signals > (c->done == KERNEL_DONE_INTERRUPTED ? 1 : 0);

	set_done(c, &end);
	c->state = CONTEXT_READY;
	if (is_late)
		context_bar(c);
	context_call_end(c, &end);
	context_step(c);
}

/* What the code has started goes on after an interrupt, if it likes, but not a fork bomb: that
 * would leave nobody else in the sandbox a process, nor a moment. */
static void finish_alone(struct context *c)
{
	if (!c->signals || !exec_crowds(c->kernel->exec))
		finish(c);
	else if (++c->crowd_looks < CROWD_LOOKS)
		uv_timer_start(&c->timer, context_on_timer, CROWD_MS, 0);
	else
		kernel_end(c, CONTEXT_INTERRUPTED,
			   "what it has started leaves the sandbox no processes, so that was ended "
			   "with its interpreter: the next call gets a fresh one");
}

/* Its code is done, but not its client, who has had the time that it may have. */
static bool is_read_too_slowly(const struct context *c)
{
	uint64_t now = uv_hrtime(), timeout_ms = c->call ? c->call->timeout_ms : 0;
	uint64_t since_done_ms = (now - c->done_ns) / 1000000;

	if (!c->is_paused)
		return false;
	if (!timeout_ms)
		return since_done_ms >= UNREAD_MS && !list_is_empty(&c->queue);
	return since_done_ms >= GRACE_MS && (now - c->began_ns) / 1000000 >= timeout_ms;
}

/* What it says must come, whoever listens. It may be its end. */
static void unpause(struct context *c)
{
	if (!c->is_paused)
		return;
	c->is_dropping = true;
	c->is_paused = false;
	exec_resume(c->kernel->exec);
}

/* Somebody inside may take what we saw in the pipe: it is looked at again. The end may come with
 * the last line here. */
static void finish_drained(struct context *c)
{
	if (exec_drain(c->kernel->exec)) {
		finish_alone(c);
		return;
	}
	uv_timer_start(&c->timer, context_on_timer, DRAIN_MS, 0);
	if (is_read_too_slowly(c))
		unpause(c);
}

void context_call_drained(struct context *c)
{
	if (c->state == CONTEXT_BUSY && c->is_done)
		finish_alone(c);
}

/* By somebody outside. */
static void say_killed(const struct context *c, struct context_end *ret)
{
	const char *sentence = "the sandbox was stopped meanwhile: the next call starts it, with a "
			       "fresh interpreter";

	if (c->is_leaving)
		sentence = "the context was deleted meanwhile";
	else if (sandbox_is_leaving(c->sb))
		sentence = "the sandbox was deleted meanwhile";
	snprintf(ret->message, sizeof(ret->message), "%s", sentence);
}

/* It was ended by us, or as its exec says. */
static void set_lost(const struct context *c, const struct exec_end *end, struct context_end *ret)
{
	if (c->has_why && end->reason == EXEC_KILLED) {
		ret->reason = c->why;
		snprintf(ret->message, sizeof(ret->message), "%s", c->why_text);
		return;
	}
	context_end_of(end, ret);
	if (ret->reason == CONTEXT_KILLED && !ret->message[0])
		say_killed(c, ret);
}

void context_spend(struct context *c, const struct exec_end *end)
{
	if (!c->is_quiet || (c->is_fresh && !c->has_call))
		return;
	c->is_spent = true;
	set_lost(c, end, &c->spent);
}

void context_call_lost(struct context *c, const struct exec_end *end)
{
	struct context_end ret = {.is_replaced = true};

	if (!c->has_call)
		return;
	if (c->is_done) {
		set_done(c, &ret);
		if (c->has_why)
			snprintf(ret.message, sizeof(ret.message), "%s", c->why_text);
	} else {
		set_lost(c, end, &ret);
	}
	context_call_end(c, &ret);
}

/* --- signals --- */

static void on_pong(void *arg, bool has_answered)
{
	struct context *c = arg;

	c->waits--;
	c->is_barred = false;
	if (c->is_dead)
		context_release(c);
	else
		context_step(c);
}

void context_bar(struct context *c)
{
	if (c->is_barred || ping_send(c->sb, on_pong, c) < 0)
		return;
	c->is_barred = true;
	c->waits++;
}

static void send_signal(struct context *c)
{
	uv_timer_stop(&c->timer);
	c->is_signal_due = c->sb->state != SANDBOX_RUNNING;
	if (c->is_signal_due) {
		sandbox_wake(c->sb);
		return;
	}
	c->signals++;
	kernel_interrupt(c->kernel);
	uv_timer_start(&c->timer, context_on_timer, GRACE_MS, 0);
}

void context_call_signal(struct context *c)
{
	if (c->state == CONTEXT_BUSY && c->is_signal_due)
		send_signal(c);
}

static bool is_looked_at(const struct context *c)
{
	return c->looks_left && c->state == CONTEXT_BUSY;
}

/* Its end may come with what is read here, and then another call may have begun. And its client
 * may have paused it since the last look: whoever is not read cannot heed a signal. */
static void look(struct context *c)
{
	bool is_read = exec_pull_reports(c->kernel->exec);

	if (is_looked_at(c))
		unpause(c);
	if (!is_looked_at(c))
		return;
	c->looks_left = is_read ? 0 : c->looks_left - 1;
	if (c->looks_left)
		uv_timer_start(&c->timer, context_on_timer, LOOK_MS, 0);
	else
		send_signal(c);
}

/*
 * What it says must come, whoever listens: its end is in it. It may be there already, if only the
 * pause of a slow client, or what else we had to do, has held it back: then it was in time.
 */
static void interrupt(struct context *c)
{
	if (c->state != CONTEXT_BUSY || c->is_done || c->signals || c->is_signal_due ||
	    c->looks_left || c->is_unsent)
		return;
	c->looks_left = LOOKS;
	exec_mark_reports(c->kernel->exec);
	if (c->kernel->is_taking) { /* we are in the middle of what would be read */
		uv_timer_start(&c->timer, context_on_timer, 0, 0);
		return;
	}
	unpause(c);
	if (is_looked_at(c))
		look(c);
}

/*
 * Others wait, and the call has no time limit of its own: it may have ended, and only its client
 * does not read what it has printed. Its end is behind all its reports, so these are read, and
 * overtake what it has printed: one pipe full of them, and no more until its client reads again.
 */
static void look_for_end(struct context *c)
{
	if (!c->is_paused || list_is_empty(&c->queue) ||
	    c->kernel->reported - c->reported_before >= PAUSED_MAX)
		return;
	uv_timer_start(&c->timer, context_on_timer, PAUSED_MS, 0);
	exec_pull_paused_reports(c->kernel->exec);
}

static bool is_without_end(const struct context *c)
{
	return c->state == CONTEXT_BUSY && c->is_paused && !c->is_done && c->call &&
	       !c->call->timeout_ms && !c->signals && !c->is_signal_due && !c->looks_left &&
	       !c->is_deaf;
}

static void await_end(struct context *c)
{
	if (is_without_end(c) && !list_is_empty(&c->queue))
		uv_timer_start(&c->timer, context_on_timer, PAUSED_MS, 0);
}

static void end_deaf(struct context *c)
{
	kernel_end(c, CONTEXT_BAD_REPORT,
		   "the code closed what its interpreter takes orders from: the next call gets a "
		   "fresh one");
}

void context_call_late(struct context *c)
{
	struct context_end end = {.reason = CONTEXT_NOT_STARTED, .code = ERR_PAYLOAD_TOO_LARGE};

	if (c->is_unsent) {
		snprintf(end.message, sizeof(end.message),
			 "the code is too long: with all that belongs to it it may be %d bytes",
			 KERNEL_LINE_MAX);
		c->state = CONTEXT_READY;
		context_call_end(c, &end);
		context_step(c);
	} else if (c->is_done) {
		finish_drained(c);
	} else if (c->looks_left) {
		look(c);
	} else if (c->is_deaf && !c->signals) {
		end_deaf(c);
	} else if (!c->signals && !(c->call && c->call->timeout_ms)) {
		look_for_end(c);
	} else if (!c->signals) {
		c->is_timed_out = true;
		interrupt(c);
	} else if (c->signals == 1) {
		send_signal(c);
	} else {
		kernel_end(c, c->is_timed_out ? CONTEXT_TIMEOUT : CONTEXT_INTERRUPTED,
			   "it did not heed the interrupt, so its interpreter was ended: the next "
			   "call gets a fresh one");
	}
}

/* --- what its kernel says --- */

void context_call_output(struct context *c, bool is_stderr, struct str bytes)
{
	if (c->call && c->has_call && !c->is_dropping)
		c->call->ops->output(c->call, is_stderr, bytes);
}

int context_call_report(struct context *c, const struct kernel_report *report)
{
	if (c->state != CONTEXT_BUSY || c->is_done || report->call != c->number)
		return -EBADMSG;
	if (report->kind == KERNEL_DONE) {
		uv_timer_stop(&c->timer);
		c->looks_left = 0;
		c->is_done = true;
		c->done_ns = uv_hrtime();
		c->done = report->done;
		c->is_error = c->is_error || report->done == KERNEL_DONE_ERROR;
		finish_drained(c);
		return 0;
	}
	c->is_error = c->is_error || report->kind == KERNEL_ERROR;
	/* What it has printed before comes before it. */
	exec_drain(c->kernel->exec);
	if (c->call && !c->is_dropping)
		c->call->ops->report(c->call, report);
	return 0;
}

/* --- its beginning --- */

/* Nobody reads its stdin: the code has closed it, or it has just died, perhaps with all of its
 * sandbox. How it ended is for its end to say, if that comes. */
static void be_deaf(struct context *c)
{
	if (c->is_done)
		end_deaf(c);
	else if (!c->is_deaf && !c->signals && !c->is_signal_due)
		uv_timer_start(&c->timer, context_on_timer, DEAF_MS, 0);
	c->is_deaf = true;
}

void context_call_feed(struct context *c)
{
	bool is_full = false;

	if (c->is_feeding || c->state != CONTEXT_BUSY)
		return;
	c->is_feeding = true; /* room that is made while we write needs no second call */
	while (buf_len(&c->order) && !is_full) {
		size_t n = buf_len(&c->order) < FEED_MAX ? buf_len(&c->order) : FEED_MAX;

		is_full = exec_stdin(c->kernel->exec, (struct str){buf_at(&c->order), n});
		buf_consume(&c->order, n);
	}
	c->is_feeding = false;
	if (!buf_len(&c->order))
		buf_close(&c->order);
	if (!exec_stdin_is_open(c->kernel->exec))
		be_deaf(c);
}

/* Errors name the file: without one it is the first, second, ... of its context. */
static int write_order(struct context *c, const struct context_call *call)
{
	static const char *const endings[KERNEL_LANGUAGE_COUNT] = {"py", "js", "ts", "sh"};
	struct kernel_order order = call->order;
	char name[40];

	if (!order.file.len && order.kind == KERNEL_CODE) {
		snprintf(name, sizeof(name), "cell-%llu.%s", (unsigned long long)c->calls,
			 endings[c->language]);
		order.file = str_of(name);
	}
	buf_init(&c->order, KERNEL_LINE_MAX);
	return kernel_order_write(&order, &c->order);
}

void context_call_begin(struct context *c)
{
	struct context_call *call = list_entry(c->queue.next, struct context_call, link);
	int r;

	list_remove(&call->link);
	c->queue_len--;
	exec_drain(c->kernel->exec); /* what was printed between two calls is dropped */
	exec_forget_oom(c->kernel->exec);
	c->kernel->is_heap_full = false;
	c->state = CONTEXT_BUSY;
	c->call = call;
	c->has_call = true;
	c->calls++;
	c->number = call->order.call = ++c->sb->last_call;
	call->order.language = c->language;
	c->began_ns = call->began_ns = uv_hrtime();
	r = write_order(c, call);
	c->is_unsent = r < 0;
	if (r < 0) {
		uv_timer_start(&c->timer, context_on_timer, 0, 0);
		return;
	}
	if (call->timeout_ms)
		uv_timer_start(&c->timer, context_on_timer, call->timeout_ms, 0);
	call->ops->began(call);
	context_call_feed(c);
}

/* --- for its owner --- */

int context_enter(struct context *context, struct context_call *call, struct err *err)
{
	if (context->is_leaving)
		return err_set(err, -EBUSY, ERR_CONFLICT, "the context is being deleted");
	if (context->is_spent)
		return err_set(err, -EPIPE, ERR_CONFLICT, "its interpreter has ended");
	if (context->queue_len >= CONTEXT_QUEUE_MAX)
		return err_set(err, -EAGAIN, ERR_CAPACITY_EXCEEDED,
			       "%d calls wait in the context already: no more may",
			       CONTEXT_QUEUE_MAX);
	list_append(&context->queue, &call->link);
	context->queue_len++;
	call->context = context;
	await_end(context);
	context_step(context);
	return 0;
}

static bool is_running(const struct context_call *call)
{
	return call->context && call->context->call == call;
}

static bool leave_queue(struct context_call *call)
{
	struct context *c = call->context;

	if (!c || is_running(call))
		return false;
	list_remove(&call->link);
	c->queue_len--;
	call->context = NULL;
	return true;
}

void context_interrupt(struct context_call *call)
{
	struct context_end end = {.reason = CONTEXT_INTERRUPTED};
	struct context *c = call->context;

	if (leave_queue(call)) {
		call->ops->ended(call, &end);
		context_step(c);
	} else if (c) {
		c->is_interrupted = true;
		interrupt(c);
	}
}

bool context_interrupt_running(struct context *context)
{
	if (!context->call)
		return false;
	context_interrupt(context->call);
	return true;
}

void context_abandon(struct context_call *call)
{
	struct context *c = call->context;

	if (leave_queue(call)) {
		context_step(c);
		return;
	}
	if (!c)
		return;
	c->call = NULL;
	call->context = NULL;
	c->is_interrupted = c->is_dropping = true;
	if (c->is_paused) {
		c->is_paused = false;
		if (c->kernel)
			exec_resume(c->kernel->exec);
	}
	interrupt(c);
}

void context_pause(struct context_call *call)
{
	struct context *c = call->context;

	if (!is_running(call) || c->is_dropping || c->is_paused || !c->kernel || c->signals)
		return;
	c->is_paused = true;
	c->reported_before = c->kernel->reported;
	exec_pause(c->kernel->exec);
	await_end(c);
}

void context_resume(struct context_call *call)
{
	struct context *c = call->context;

	if (!is_running(call) || !c->is_paused)
		return;
	c->is_paused = false;
	if (c->kernel && c->kernel->exec)
		exec_resume(c->kernel->exec);
}
