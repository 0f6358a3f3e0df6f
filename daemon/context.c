#include "daemon/context.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/context_state.h"
#include "daemon/handle_sandbox.h"
#include "daemon/registry.h"
#include "daemon/sandbox_sleep.h"

#define CALL_BITS 30 /* of the first number: for a kernel's threads all of them have 31 */

struct warm {
	struct list link;
	context_done_fn *done;
	void *arg;
};

/* --- its memory --- */

void context_release(struct context *c)
{
	if (!c->is_dead || c->waits || !c->is_timer_closed)
		return;
	free(c->texts);
	free(c);
}

static void on_timer_closed(uv_handle_t *handle)
{
	struct context *c = handle->data;

	c->is_timer_closed = true;
	context_release(c);
}

/* Nothing waits in it any more, and nothing runs. */
static void context_free(struct context *c)
{
	struct kernel *k;

	while ((k = kernel_after(c, &c->sb->kernels)))
		k->context = NULL;
	hold_end(&c->hold);
	list_remove(&c->link);
	c->sb->contexts_len -= !c->is_quiet;
	c->is_dead = true;
	buf_close(&c->order);
	uv_close((uv_handle_t *)&c->timer, on_timer_closed);
}

static struct context *make(struct sandbox *sb, const struct context_fact *fact,
			    enum kernel_language language, bool is_quiet)
{
	struct context *c = calloc(1, sizeof(*c));

	if (c)
		c->texts = context_fact_copy(&c->fact, fact);
	if (!c || !c->texts) {
		free(c);
		return NULL;
	}
	c->sb = sb;
	c->fact.sandbox = sb->id;
	c->language = language;
	c->is_quiet = is_quiet;
	list_init(&c->queue);
	list_init(&c->warms);
	buf_init(&c->order, KERNEL_LINE_MAX);
	uv_timer_init(registry_loop(sb->registry), &c->timer);
	c->timer.data = c;
	list_append(&sb->contexts, &c->link);
	sb->contexts_len += !is_quiet;
	return c;
}

void context_discard(struct context *c)
{
	if (!c->is_dead && !c->is_stored && !c->is_quiet && c->state == CONTEXT_ABSENT &&
	    !c->waits && list_is_empty(&c->queue) && list_is_empty(&c->warms) && !c->is_leaving &&
	    !kernel_after(c, &c->sb->kernels))
		context_free(c);
}

/* --- who waits --- */

void context_tell_warm(struct context *c, const struct err *err)
{
	struct list now;

	list_init(&now);
	while (!list_is_empty(&c->warms))
		list_move(&now, c->warms.next);
	while (!list_is_empty(&now)) {
		struct warm *warm = list_entry(now.next, struct warm, link);

		list_remove(&warm->link);
		warm->done(warm->arg, err);
		free(warm);
	}
}

void context_fail_queue(struct context *c, const struct context_end *end)
{
	while (!list_is_empty(&c->queue)) {
		struct context_call *call = list_entry(c->queue.next, struct context_call, link);

		list_remove(&call->link);
		c->queue_len--;
		call->context = NULL;
		call->ops->ended(call, end);
	}
}

void context_fail_start(struct context *c, const struct context_end *end)
{
	struct err err;

	err_set(&err, -ENOEXEC, end->code, "%s", end->message);
	context_fail_queue(c, end);
	context_tell_warm(c, &err);
	context_discard(c);
}

/* --- its steps --- */

static bool is_wanted(const struct context *c)
{
	return !list_is_empty(&c->queue) || !list_is_empty(&c->warms);
}

/* While something runs or waits in it, and while an adopted one is not done with what ran. */
static void update_hold(struct context *c)
{
	bool is_held = is_wanted(c) || c->has_call || (c->kernel && c->kernel->marker);

	if (!is_held || c->is_dead)
		hold_end(&c->hold);
	else if (!c->hold.of)
		hold_begin(&c->hold, c->sb, HOLD_EXEC);
}

/* Has it memory for a kernel? Until then its callers wait. */
static bool is_clear(const struct context *c)
{
	struct list *node = &c->sb->kernels;
	struct kernel *k;

	for (; (k = kernel_after(c, node)); node = &k->link) {
		if (k->is_cleared)
			return false;
	}
	return true;
}

void context_step(struct context *c)
{
	if (c->is_dead)
		return;
	update_hold(c);
	if (c->sb->state != SANDBOX_RUNNING) {
		if (is_wanted(c) || c->is_signal_due)
			sandbox_wake(c->sb); /* somebody waits in one that was frozen */
		return;
	}
	context_call_signal(c);
	if (c->is_leaving)
		return;
	if (c->state == CONTEXT_READY && !c->is_barred && !list_is_empty(&c->queue))
		context_call_begin(c);
	else if (c->state == CONTEXT_ABSENT && is_wanted(c) && !c->is_spent && is_clear(c))
		kernel_start(c);
	if (!c->is_dead)
		update_hold(c);
}

void context_on_timer(uv_timer_t *timer)
{
	struct context *c = timer->data;

	if (c->state == CONTEXT_STARTING)
		kernel_late(c);
	else if (c->state == CONTEXT_BUSY)
		context_call_late(c);
}

/* --- its record --- */

static void on_stored(void *arg, int result, const struct err *err)
{
	struct context *c = arg;

	c->waits--;
	if (c->is_dead) {
		context_release(c);
		return;
	}
	c->is_stored = c->is_stored || result == 0;
	kernel_stored(c, result, err);
	context_step(c);
}

int context_save(struct context *c)
{
	int r = registry_is_stopping(c->sb->registry)
			? -ESHUTDOWN
			: store_context_save(registry_store(c->sb->registry), &c->fact, on_stored,
					     c);

	c->waits += r == 0;
	return r;
}

/* --- all of them --- */

struct context *context_find(struct sandbox *sb, struct str id)
{
	list_for_each (node, &sb->contexts) {
		struct context *c = list_entry(node, struct context, link);

		if (str_eq(c->fact.id, id) && !c->is_quiet)
			return c;
	}
	return NULL;
}

struct context *context_quiet(struct sandbox *sb, enum kernel_language language)
{
	list_for_each (node, &sb->contexts) {
		struct context *c = list_entry(node, struct context, link);

		if (c->is_quiet && c->language == language && !c->is_leaving)
			return c;
	}
	return NULL;
}

struct context *context_next(struct sandbox *sb, struct context *context)
{
	struct list *next = context ? context->link.next : sb->contexts.next;

	return next == &sb->contexts ? NULL : list_entry(next, struct context, link);
}

struct context_view context_view(const struct context *c)
{
	static const char *const states[] = {
		[CONTEXT_ABSENT] = "absent", [CONTEXT_STARTING] = "starting",
		[CONTEXT_READY] = "ready",   [CONTEXT_BUSY] = "busy",
		[CONTEXT_ENDING] = "busy",
	};

	return (struct context_view){
		.id = c->fact.id,
		.language = c->language,
		.cwd = c->fact.cwd,
		.user = c->fact.user,
		.state = states[c->state],
		.is_default = c->fact.is_default,
		.waiting = c->queue_len,
		.created_at_ms = c->fact.created_at_ms,
		.calls = c->calls,
		.pid = c->kernel ? c->kernel->pid : 0,
		.is_listed = c->is_stored && !c->is_quiet,
	};
}

const struct context_end *context_spent(const struct context *context)
{
	return context->is_spent ? &context->spent : NULL;
}

int64_t context_memory(const struct context *context)
{
	const struct kernel *k = context->kernel;

	return k && k->exec ? exec_memory(k->exec) : -1;
}

struct context *context_new(struct sandbox *sb, const struct context_settings *settings,
			    struct err *err)
{
	struct context_fact fact = {
		.id = settings->id,
		.language = str_of(kernel_language_name(settings->language)),
		.cwd = settings->cwd.len ? settings->cwd : STR("/workspace"),
		.user = settings->user,
		.env = settings->env,
		.is_default = settings->is_default,
		.created_at_ms = registry_now_ms(),
	};
	struct sandbox_id made;
	struct context *c;

	if (fact.id.len && context_find(sb, fact.id)) {
		err_set(err, -EEXIST, ERR_CONFLICT,
			"a context of that ID is there already; DELETE removes it");
		return NULL;
	}
	if (!settings->is_quiet && sb->contexts_len >= CONTEXTS_MAX) {
		err_set(err, -EMFILE, ERR_CONFLICT, "the sandbox has %d contexts: delete one first",
			CONTEXTS_MAX);
		return NULL;
	}
	err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	if (!fact.id.len) {
		if (handle_make_id(&made) < 0)
			return NULL;
		fact.id = str_of(made.text);
	}
	c = make(sb, &fact, settings->language, settings->is_quiet);
	return c;
}

struct context *context_default(struct sandbox *sb, enum kernel_language language, struct err *err)
{
	struct context_settings settings = {.language = language, .is_default = true};
	char name[32];

	list_for_each (node, &sb->contexts) {
		struct context *c = list_entry(node, struct context, link);

		if (c->fact.is_default && c->language == language && !c->is_leaving)
			return c;
	}
	snprintf(name, sizeof(name), "default-%s", kernel_language_name(language));
	settings.id = str_of(name);
	if (context_find(sb, settings.id))
		settings.id = STR(""); /* somebody has taken that name */
	return context_new(sb, &settings, err);
}

int context_warm(struct context *context, context_done_fn *done, void *arg, struct err *err)
{
	struct warm *warm = calloc(1, sizeof(*warm));

	if (!warm)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	if (context->is_leaving) {
		free(warm);
		return err_set(err, -EBUSY, ERR_CONFLICT, "the context is being deleted");
	}
	warm->done = done;
	warm->arg = arg;
	list_append(&context->warms, &warm->link);
	if (context->state == CONTEXT_READY || context->state == CONTEXT_BUSY)
		context_tell_warm(context, NULL);
	else
		context_step(context);
	return 0;
}

/* --- for the registry and the sandbox --- */

void context_init_all(struct sandbox *sb)
{
	uint64_t first = 0;

	list_init(&sb->contexts);
	list_init(&sb->kernels);
	if (getrandom(&first, sizeof(first), 0) < 0)
		first = uv_hrtime();
	sb->last_call = first >> (64 - CALL_BITS);
}

void context_restore(struct sandbox *sb, const struct context_fact *fact)
{
	int language = kernel_language_find(fact->language);
	struct context *c = NULL;

	if (language >= 0)
		c = make(sb, fact, (enum kernel_language)language, false);
	if (c)
		c->is_stored = true;
}

void context_adopt_all(struct sandbox *sb)
{
	list_for_each (node, &sb->contexts) {
		struct context *c = list_entry(node, struct context, link);

		if (c->fact.exec && c->fact.generation == sb->generation && !c->kernel)
			kernel_adopt(c);
	}
}

void context_adopted_all(struct sandbox *sb)
{
	list_for_each (node, &sb->contexts) {
		struct context *c = list_entry(node, struct context, link);

		if (c->kernel && c->kernel->marker && c->state == CONTEXT_STARTING)
			kernel_recover(c->kernel);
	}
}

void context_step_all(struct sandbox *sb)
{
	list_for_each_safe (node, &sb->contexts)
		context_step(list_entry(node, struct context, link));
}

static void lose(struct context *c, enum context_reason reason, const char *why)
{
	struct context_end end = {.reason = reason};
	struct err err;

	snprintf(end.message, sizeof(end.message), "%s", why);
	err_set(&err, -EAGAIN, ERR_UNAVAILABLE, "%s", why);
	context_fail_queue(c, &end);
	context_tell_warm(c, &err);
}

/* Those who are told may make others, or take some away. */
void context_lose_all(struct sandbox *sb, const struct err *why)
{
	enum context_reason reason = !why                         ? CONTEXT_KILLED
				     : why->code == ERR_CPU_LIMIT ? CONTEXT_CPU_LIMIT
								  : CONTEXT_LOST;

	list_for_each_safe (node, &sb->contexts) {
		struct context *c = list_entry(node, struct context, link);

		if (c->state == CONTEXT_STARTING && !c->kernel)
			c->state = CONTEXT_ABSENT; /* one that could not even be asked for */
		lose(c, reason, "the sandbox stopped before the call's turn came: send it again");
		if (!c->is_dead)
			context_step(c);
		context_discard(c);
	}
}

void context_free_all(struct sandbox *sb)
{
	struct context_end end = {.reason = CONTEXT_LOST, .is_replaced = true};

	snprintf(end.message, sizeof(end.message), "%s",
		 "berthd is stopping: what runs goes on without anybody who listens");
	while (!list_is_empty(&sb->contexts)) {
		struct context *c = list_entry(sb->contexts.next, struct context, link);

		c->kernel = NULL; /* its exec is left, or gone */
		lose(c, CONTEXT_KILLED, "berthd is stopping");
		if (c->has_call)
			context_call_end(c, &end);
		if (!c->is_dead)
			context_free(c);
	}
	while (!list_is_empty(&sb->kernels))
		kernel_free(list_entry(sb->kernels.next, struct kernel, link));
}

/* --- its end --- */

static void tell_deleted(struct context *c, const struct err *err)
{
	context_done_fn *done = c->deleted;
	void *arg = c->deleted_arg;

	if (err)
		c->is_leaving = false;
	else if (!c->is_dead)
		context_free(c);
	done(arg, err);
}

static void on_forgotten(void *arg, int result, const struct err *err)
{
	struct context *c = arg;
	bool was_dead = c->is_dead;

	c->waits--;
	c->is_forgetting = false;
	tell_deleted(c, result < 0 ? err : NULL);
	if (was_dead)
		context_release(c);
}

void context_check_leaving(struct context *c)
{
	struct err err;
	int r;

	if (!c->is_leaving || c->is_forgetting || kernel_after(c, &c->sb->kernels))
		return;
	if (!c->is_stored && !c->waits) {
		tell_deleted(c, NULL);
		return;
	}
	r = registry_is_stopping(c->sb->registry)
		    ? -ESHUTDOWN
		    : store_context_delete(registry_store(c->sb->registry), &c->fact, on_forgotten,
					   c);
	c->is_forgetting = r == 0;
	c->waits += r == 0;
	if (r == 0)
		return;
	err_set(&err, r, ERR_UNAVAILABLE, "too much is being stored: try again");
	tell_deleted(c, &err);
}

int context_delete(struct context *context, context_done_fn *done, void *arg, struct err *err)
{
	struct list *node = &context->sb->kernels;
	struct kernel *k;

	if (context->is_leaving)
		return err_set(err, -EBUSY, ERR_CONFLICT, "the context is being deleted");
	context->is_leaving = true;
	context->deleted = done;
	context->deleted_arg = arg;
	lose(context, CONTEXT_KILLED, "the context was deleted");
	for (; (k = kernel_after(context, node)); node = &k->link) {
		if (k->exec)
			exec_kill(k->exec);
	}
	context_check_leaving(context);
	return 0;
}
