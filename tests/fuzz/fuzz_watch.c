/*
 * What a watcher says to berthd, while clients come and go and its process ends at any moment. The
 * input is a script: each step is a byte that says what happens, and for output a second one, how
 * many of the bytes behind it come at once. Whatever is said, each watch hears `ready` once and
 * first, `ended` once and last, nothing after either end; and nothing is left of it all.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "daemon/activity.h"
#include "daemon/exec.h"
#include "daemon/registry.h"
#include "daemon/watch.h"

#define CLIENTS   4
#define STEPS_MAX 256 /* of one input: more say nothing new */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* --- execs that do what the script says --- */

struct exec {
	const struct exec_ops *ops;
	void *arg;
};

static struct exec *last; /* NULL: it has ended, or nobody wants it any more */
static unsigned execs;
static uv_loop_t loop;

uv_loop_t *registry_loop(const struct registry *registry)
{
	return &loop;
}

void activity_touch(struct sandbox *sb)
{
}

struct exec *exec_new(struct sandbox *sb, const struct exec_request *request,
		      const struct exec_ops *ops, void *arg, struct err *err)
{
	last = malloc(sizeof(*last));
	assert(last);
	*last = (struct exec){ops, arg};
	execs++;
	return last;
}

void exec_pause(struct exec *exec)
{
	assert(exec->ops);
}

void exec_resume(struct exec *exec)
{
	assert(exec->ops);
}

bool exec_stdin(struct exec *exec, struct str bytes)
{
	assert(exec->ops && bytes.len);
	return false;
}

void exec_stdin_end(struct exec *exec)
{
	assert(exec->ops);
}

static void forget(struct exec *exec)
{
	if (last == exec)
		last = NULL;
	free(exec);
	execs--;
}

void exec_abandon(struct exec *exec)
{
	forget(exec);
}

static void end_exec(unsigned how)
{
	struct exec *exec = last;
	struct exec_end end = {.reason = how % EXEC_REASON_COUNT};

	if (!exec)
		return;
	exec->ops->ended(exec->arg, &end);
	forget(exec);
}

/* --- clients --- */

struct client {
	struct watch *watch;
	bool is_ready;
	bool drops; /* with the first that it hears */
};

static struct client clients[CLIENTS];

static void leave(struct client *c)
{
	if (c->watch)
		watch_drop(take(c->watch));
}

static void on_ready(void *arg, uint32_t directories)
{
	struct client *c = arg;

	assert(c->watch && !c->is_ready);
	c->is_ready = true;
	if (c->drops)
		leave(c);
}

/* All of it can be read. */
static void check_path(struct str path)
{
	char copy[FILE_PATH_MAX];

	assert(path.len <= sizeof(copy));
	if (path.len)
		memcpy(copy, path.at, path.len);
}

static void on_event(void *arg, const struct watch_event *event)
{
	struct client *c = arg;

	assert(c->watch && c->is_ready && event->kind && event->kind < WATCH_KIND_COUNT);
	check_path(event->path);
	check_path(event->from);
	if (event->is_directory)
		leave(c);
}

static void on_overflow(void *arg)
{
	const struct client *c = arg;

	assert(c->watch && c->is_ready);
}

static void on_ended(void *arg, const char *reason, const struct err *err)
{
	struct client *c = arg;

	assert(c->watch && (reason || err) && (c->is_ready || !reason));
	c->watch = NULL;
}

static void enter(struct sandbox *sb, struct client *c, bool drops)
{
	static const struct watch_ops ops = {on_ready, on_event, on_overflow, on_ended};
	struct watch_add add = {.path = STR("/workspace")};
	struct err err;

	leave(c);
	*c = (struct client){.drops = drops};
	c->watch = watch_new(sb, &add, &ops, c, &err);
	assert(c->watch && sb->watcher);
}

/* --- the script --- */

static void print(const uint8_t **at, const uint8_t *end)
{
	size_t len = *at < end ? *(*at)++ : 0;
	cleanup_free char *exact = NULL;

	len = len < (size_t)(end - *at) ? len : (size_t)(end - *at);
	/* Of its exact size, so that a sanitizer sees a read past the end. */
	exact = malloc(len ? len : 1);
	assert(exact);
	memcpy(exact, *at, len);
	*at += len;
	if (last && len)
		last->ops->output(last->arg, false, (struct str){exact, len});
}

static void play(struct sandbox *sb, const uint8_t *at, const uint8_t *end)
{
	for (int i = 0; i < STEPS_MAX && at < end; i++) {
		unsigned step = *at++, number = step >> 3;

		switch (step & 7) {
		case 0:
			enter(sb, &clients[number % CLIENTS], number & CLIENTS);
			break;
		case 1:
			leave(&clients[number % CLIENTS]);
			break;
		case 2:
			end_exec(number);
			break;
		case 3:
			uv_run(&loop, UV_RUN_NOWAIT);
			break;
		default:
			print(&at, end);
			break;
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sandbox sb = {.state = SANDBOX_RUNNING};

	if (!loop.data) /* one for all of them: it costs more than the rest */
		assert(uv_loop_init(&loop) == 0);
	loop.data = &loop;
	last = NULL;
	memset(clients, 0, sizeof(clients));
	play(&sb, data, data + size);
	for (struct client *c = clients; c < clients + CLIENTS; c++)
		leave(c);
	assert(!sb.watcher);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert(!uv_loop_alive(&loop) && !execs);
	return 0;
}
