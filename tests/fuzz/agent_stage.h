/*
 * What stands around berthd's side of an agent channel: a sandbox, a keeper and owners that do what
 * the script of fuzz_agent.c says, and hold what they hear to the contract.
 */
#ifndef BERTH_TESTS_AGENT_STAGE_H
#define BERTH_TESTS_AGENT_STAGE_H

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "daemon/activity.h"
#include "daemon/counts.h"
#include "daemon/exec.h"
#include "daemon/ping.h"
#include "daemon/port_connect.h"
#include "daemon/registry.h"
#include "daemon/sandbox_sleep.h"
#include "daemon/sandbox_still.h"
#include "daemon/vigil.h"

#define EXECS    4
#define CONNECTS 4
#define CALLS    16
#define ENDS     16 /* of pipes that were handed out: as the process inside has them */

struct owner {
	struct exec *exec; /* NULL: it has ended, or nobody wants it any more */
	uint64_t number;   /* of the last one: init may go on about it */
	bool is_kept, is_hasty;
	bool has_begun; /* it has said something, or was told to run */
};

static struct {
	uv_loop_t loop;
	struct sandbox sb;
	struct counts counts;
	struct owner owners[EXECS];
	struct port_connect connects[CONNECTS];
	struct keeper_call *calls[CALLS];
	unsigned pings;
	int line; /* init's end */
	int ends[ENDS];
	unsigned ends_len;
	bool has_groups, is_lost;
	const uint8_t *at, *end; /* of the script */
} t;

static unsigned next_byte(void)
{
	return t.at < t.end ? *t.at++ : 0;
}

/* --- what stands around it --- */

uv_loop_t *registry_loop(const struct registry *registry)
{
	return &t.loop;
}

struct keeper *registry_keeper(const struct registry *registry)
{
	return NULL;
}

struct counts *registry_counts(struct registry *registry)
{
	return &t.counts;
}

void hold_begin(struct hold *hold, struct sandbox *sb, enum hold_kind kind)
{
}

void hold_end(struct hold *hold)
{
}

void activity_touch(struct sandbox *sb)
{
}

void sandbox_wake(struct sandbox *sb)
{
}

int64_t sandbox_oom_kills(const struct sandbox *sb)
{
	return 0;
}

int64_t vigil_look(struct sandbox *sb)
{
	return 1;
}

void vigil_begin(struct sandbox *sb)
{
}

void sandbox_still_spoil(struct sandbox *sb, const char *why)
{
}

/* A directory without cgroup.events, as one that the keeper has removed. */
struct sandbox_group sandbox_group_take(struct sandbox *sb)
{
	static uint32_t number;

	if (!t.has_groups)
		return (struct sandbox_group){-1, 0};
	return (struct sandbox_group){open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC),
				      ++number};
}

int sandbox_group_open(const struct sandbox *sb, struct sandbox_group group, const char *file)
{
	int fd = openat(group.fd, file, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

void sandbox_group_give(struct sandbox *sb, struct sandbox_group group)
{
	close_fdp(&group.fd);
}

/* What is still to be said by it is heard, as until the keeper has ended it. */
void sandbox_condemn(struct sandbox *sb, const struct err *why)
{
	assert(why->code != ERR_NONE && *why->sentence);
	sb->state = SANDBOX_STOPPING;
	sb->is_condemned = true;
}

/* --- a keeper that answers when the script says so --- */

static void ask(struct keeper_call *call)
{
	for (unsigned i = 0; i < CALLS; i++) {
		if (!t.calls[i]) {
			t.calls[i] = call;
			list_init(&call->link);
			return;
		}
	}
}

void keeper_group_end(struct keeper *keeper, struct keeper_call *call,
		      const struct keeper_group_ref *group)
{
	ask(call);
}

void keeper_group_open(struct keeper *keeper, struct keeper_call *call,
		       const struct keeper_group_ref *group)
{
	ask(call);
}

void keeper_group_drop(struct keeper *keeper, const struct keeper_group_ref *group)
{
}

void keeper_cancel(struct keeper *keeper, struct keeper_call *call)
{
	for (unsigned i = 0; i < CALLS; i++) {
		if (t.calls[i] == call)
			t.calls[i] = NULL;
	}
}

static void answer_call(unsigned how)
{
	static const enum err_code codes[] = {ERR_NONE, ERR_NOT_FOUND, ERR_UNAVAILABLE, ERR_NONE};
	struct keeper_call *call = NULL;
	struct channel_frame frame = {.fds_len = 0};
	struct keeper_answer answer = {.frame = &frame};

	for (unsigned i = 0; i < CALLS && !call; i++)
		call = take(t.calls[i]);
	if (!call)
		return;
	if (codes[how % 4] != ERR_NONE)
		answer.result = err_set(&answer.err, -EIO, codes[how % 4], "no");
	if (how % 4 == 0)
		frame.fds[frame.fds_len++] = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
	call->done(call, &answer);
	if (frame.fds_len)
		close_fdp(&frame.fds[0]);
}

/* --- owners of execs, connections and pings --- */

static void leave(struct owner *o)
{
	if (o->exec && o->is_kept)
		exec_leave(take(o->exec));
	else if (o->exec)
		exec_abandon(take(o->exec));
}

static void on_output(void *arg, bool is_stderr, struct str bytes)
{
	struct owner *o = arg;

	assert(o->exec && bytes.len);
	o->has_begun = true;
	if (o->is_hasty)
		leave(o);
}

static void on_ended(void *arg, const struct exec_end *end)
{
	struct owner *o = arg;

	assert(o->exec && end->reason < EXEC_REASON_COUNT);
	assert((end->exit_code == -1) == (end->reason == EXEC_LOST));
	assert(end->exit_code <= 255 && !(o->has_begun && end->reason == EXEC_NOT_STARTED));
	o->exec = NULL;
}

static void on_stdin_ready(void *arg)
{
	const struct owner *o = arg;

	assert(o->exec);
}

static void on_started(void *arg, uint32_t pid)
{
	struct owner *o = arg;

	assert(o->exec && !o->has_begun);
	o->has_begun = true;
	if (o->is_hasty)
		exec_kill(o->exec);
}

static ssize_t on_pull(void *arg, enum exec_stream stream, int fd)
{
	const struct owner *o = arg;
	char bytes[512];
	ssize_t n;

	assert(o->exec);
	if (o->is_hasty)
		return -ENOSPC;
	/* As splice() with SPLICE_F_NONBLOCK: what is a pipe may still wait, and must not. */
	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	n = read(fd, bytes, sizeof(bytes));
	return n < 0 ? -errno : n;
}

static void on_exited(void *arg, const struct exec_end *end)
{
	const struct owner *o = arg;

	assert(o->exec && end->reason < EXEC_REASON_COUNT);
}

static const struct exec_ops plain_ops = {
	.output = on_output,
	.ended = on_ended,
	.stdin_ready = on_stdin_ready,
};

static const struct exec_ops kept_ops = {
	.ended = on_ended,
	.stdin_ready = on_stdin_ready,
	.started = on_started,
	.pull = on_pull,
	.exited = on_exited,
};

static void on_connect(struct port_connect *c, int result, const struct port_listening *listening)
{
	assert(c->done && (!listening || result == 0));
	assert(!listening || listening->len <= PORT_LISTENING_MAX);
	if (result > 0)
		port_connect_close(result);
	c->done = NULL;
}

static void on_ping(void *arg, bool has_answered)
{
	assert(t.pings);
	t.pings--;
}

#endif
