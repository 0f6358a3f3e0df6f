/*
 * Kept execs between an init, a keeper, a sandbox and an owner that do what the test says, and
 * remember what was asked of them. For one program each.
 */
#ifndef BERTH_TESTS_EXEC_STAGE_H
#define BERTH_TESTS_EXEC_STAGE_H

#include "daemon/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "daemon/activity.h"
#include "daemon/counts.h"
#include "daemon/registry.h"
#include "daemon/sandbox_still.h"
#include "daemon/vigil.h"
#include "daemon/sandbox_sleep.h"
#include "tests/unit/tap.h"

#define HANG_S   60 /* SIGALRM then ends us */
#define SAID     32
#define ADOPTED  (UINT64_C(1) << 62 | UINT64_C(7) << 32)
#define GROUP    5
#define IN_GROUP (ADOPTED | (GROUP + 1))

static struct {
	uv_loop_t loop;
	struct sandbox sb;
	struct exec *exec;
	struct counts counts;
	/* What was said to init. */
	struct {
		uint16_t type;
		uint64_t exec;
		uint32_t value; /* EXEC: flags; SIGNAL: which */
	} said[SAID];
	unsigned said_len;
	bool is_condemned;
	/* What was asked of the keeper. */
	struct keeper_call *opened, *ended_call;
	unsigned drops, gives;
	/* Our ends of its pipes: as the process has them. */
	int in, out[2];
	/* What the owner has heard. */
	char pulled[2][256];
	size_t pulled_len[2];
	int pull_error;
	unsigned started, exited, ended, pid;
	struct exec_end exit, end;
} t;

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

/* Whether it holds is for the sandbox to know, which is none here. */
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
	return 0;
}

void vigil_begin(struct sandbox *sb)
{
}

void sandbox_still_spoil(struct sandbox *sb, const char *why)
{
}

struct sandbox_group sandbox_group_take(struct sandbox *sb)
{
	return (struct sandbox_group){-1, 0};
}

int sandbox_group_open(const struct sandbox *sb, struct sandbox_group group, const char *file)
{
	int fd = openat(group.fd, file, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

void sandbox_group_give(struct sandbox *sb, struct sandbox_group group)
{
	t.gives++;
}

void sandbox_condemn(struct sandbox *sb, const struct err *why)
{
	t.is_condemned = true;
}

int agent_send(struct agent *agent, const struct channel_message *message)
{
	const struct agent_signal *signal = message->value; /* number first, as all of them */
	const struct agent_exec *exec = message->value;

	check(t.said_len < SAID);
	t.said[t.said_len].type = message->head.type;
	t.said[t.said_len].exec = signal->exec;
	if (message->head.type == AGENT_SIGNAL)
		t.said[t.said_len].value = signal->signal;
	else if (message->head.type == AGENT_EXEC)
		t.said[t.said_len].value = exec->flags;
	t.said_len++;
	return 0;
}

void keeper_group_end(struct keeper *keeper, struct keeper_call *call,
		      const struct keeper_group_ref *group)
{
	check(group->group == GROUP);
	t.ended_call = call;
}

void keeper_group_open(struct keeper *keeper, struct keeper_call *call,
		       const struct keeper_group_ref *group)
{
	check(group->group == GROUP && group->generation == 3);
	t.opened = call;
}

void keeper_group_drop(struct keeper *keeper, const struct keeper_group_ref *group)
{
	check(group->group == GROUP);
	t.drops++;
}

void keeper_cancel(struct keeper *keeper, struct keeper_call *call)
{
}

/* --- the owner --- */

static void on_ended(void *arg, const struct exec_end *end)
{
	t.ended++;
	t.end = *end;
}

static void on_stdin_ready(void *arg)
{
}

static void on_started(void *arg, uint32_t pid)
{
	t.started++;
	t.pid = pid;
}

static ssize_t on_pull(void *arg, enum exec_stream stream, int fd)
{
	size_t *len = &t.pulled_len[stream == EXEC_STDERR];
	ssize_t n;

	if (t.pull_error)
		return t.pull_error;
	check(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
	n = read(fd, t.pulled[stream == EXEC_STDERR] + *len, sizeof(t.pulled[0]) - 1 - *len);
	if (n < 0)
		return -errno;
	*len += (size_t)n;
	return n;
}

static void on_exited(void *arg, const struct exec_end *end)
{
	t.exited++;
	t.exit = *end;
}

static const struct exec_ops ops = {
	.ended = on_ended,
	.stdin_ready = on_stdin_ready,
	.started = on_started,
	.pull = on_pull,
	.exited = on_exited,
};

/* --- the stage --- */

static inline void begin(void)
{
	memset(&t, 0, sizeof(t));
	t.in = t.out[0] = t.out[1] = -1;
	check(uv_loop_init(&t.loop) == 0);
	t.sb = (struct sandbox){.generation = 3, .id = {"one"}, .state = SANDBOX_RUNNING};
	t.sb.agent = (struct agent *)&t;
	list_init(&t.sb.execs);
	list_init(&t.sb.strangers);
	alarm(HANG_S);
}

static inline void close_all(void)
{
	close_fdp(&t.in);
	close_fdp(&t.out[0]);
	close_fdp(&t.out[1]);
	t.in = t.out[0] = t.out[1] = -1;
}

static inline void end(const char *name)
{
	exec_leave_all(&t.sb);
	close_all();
	uv_run(&t.loop, UV_RUN_DEFAULT);
	check(t.sb.execs_len == 0 && list_is_empty(&t.sb.execs));
	check(uv_loop_close(&t.loop) == 0);
	tap_ok(name);
}

static inline void turn(void)
{
	for (int i = 0; i < 4; i++)
		uv_run(&t.loop, UV_RUN_NOWAIT);
}

static inline void tell(struct agent_event event, struct channel_frame *frame)
{
	event.frame = frame;
	exec_event(&t.sb, &event);
	for (unsigned i = 0; frame && i < frame->fds_len; i++)
		close_fdp(&frame->fds[i]);
}

/* STARTED or LIVE with its pipes. */
static inline void tell_pipes(enum agent_type type, uint64_t number, bool has_stdin)
{
	struct channel_frame frame = {.fds_len = 0};
	int pair[2];

	if (has_stdin) {
		check(pipe2(pair, O_CLOEXEC) == 0);
		t.in = pair[0];
		frame.fds[frame.fds_len++] = pair[1];
	}
	for (int i = 0; i < 2; i++) {
		check(pipe2(pair, O_CLOEXEC) == 0);
		t.out[i] = pair[1];
		frame.fds[frame.fds_len++] = pair[0];
	}
	tell((struct agent_event){.type = type, .exec = number, .pid = 42}, &frame);
}

static inline void tell_exited(uint64_t number, uint32_t status)
{
	tell((struct agent_event){.type = AGENT_EXITED, .exec = number, .exited = {number, status}},
	     NULL);
}

static inline void tell_ref(enum agent_type type, uint64_t number)
{
	tell((struct agent_event){.type = type, .exec = number, .ended = {number, 1}}, NULL);
}

static inline void print(int stream, const char *text)
{
	check(write(t.out[stream], text, strlen(text)) == (ssize_t)strlen(text));
}

static inline bool has_said(enum agent_type type, uint64_t number)
{
	for (unsigned i = 0; i < t.said_len; i++) {
		if (t.said[i].type == type && t.said[i].exec == number)
			return true;
	}
	return false;
}

static inline uint64_t start(bool has_stdin)
{
	struct exec_request request = {.is_kept = true, .has_stdin = has_stdin, .cwd = STR("/")};
	struct err err;
	uint64_t number;

	t.exec = exec_new(&t.sb, &request, &ops, NULL, &err);
	check(t.exec && t.said[0].type == AGENT_EXEC);
	check(t.said[0].value & AGENT_EXEC_KEPT && t.said[0].value & AGENT_EXEC_SUPERVISED);
	number = exec_number(t.exec);
	check(number & UINT64_C(1) << 62 && !(number & UINT64_C(1) << 63));
	tell_pipes(AGENT_STARTED, number, has_stdin);
	check(t.started == 1 && t.pid == 42);
	return number;
}

static inline void adopt(uint64_t number)
{
	struct err err;

	t.sb.state = SANDBOX_STARTING;
	t.sb.is_adopting = true;
	t.exec = exec_adopt(&t.sb, number, &ops, NULL, &err);
	check(t.exec && exec_number(t.exec) == number);
	check(!exec_adopt(&t.sb, number, &ops, NULL, &err)); /* twice */
	check(!exec_adopt(&t.sb, 7, &ops, NULL, &err));      /* not kept */
	check(t.sb.last_exec == 7 && t.sb.execs_len == 1);
}

static inline void told_all(void)
{
	t.sb.state = SANDBOX_RUNNING;
	t.sb.is_adopting = false;
	exec_adopted_all(&t.sb);
}

#endif
