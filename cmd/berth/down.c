#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/cleanup.h"
#include "cmd/berth/client.h"
#include "cmd/berth/running.h"
#include "cmd/berth/screen.h"
#include "cmd/berth/stop_all.h"

#define TIMEOUT_DEFAULT_S 60
#define TIMEOUT_MAX_S     86400
#define SILENT_TIMEOUT_S  5 /* for one that cannot be asked, if no time was given */

enum { DOWN_TIMEOUT, DOWN_STOP_ALL };

/* The daemon as it described itself, and who holds the socket that it answered on. */
struct target {
	pid_t pid, peer;
	char instance[128];
};

/* What was asked for, and until when. */
struct job {
	struct globals globals;
	struct paths paths;
	int timeout_s;
	int64_t deadline_ms;
};

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int ask(const struct job *job, struct target *ret, struct err *err)
{
	struct wanted wanted = {.state_dir = job->globals.state_dir};
	int64_t left_ms = job->deadline_ms - now_ms();
	struct globals globals = job->globals;
	struct answer answer;
	struct arena arena;
	struct info info;
	int r;

	answer_init(&answer);
	arena_init(&arena, INFO_ARENA_MAX);
	if (left_ms < globals.timeout_ms)
		globals.timeout_ms = left_ms > 1 ? (int)left_ms : 1;
	r = client_get(&globals, "/v1/info", &answer, err);
	if (r == 0)
		r = info_parse(&arena, &answer, &info, err);
	if (r == 0)
		r = running_compare(&info, &wanted, err);
	/* Also when it does not answer: the socket still says who should have. */
	ret->peer = answer.peer;
	if (r == 0) {
		ret->pid = info.pid <= INT_MAX ? (pid_t)info.pid : 0;
		snprintf(ret->instance, sizeof(ret->instance), "%.*s", STR_ARGS(info.instance));
	}
	arena_close(&arena);
	answer_close(&answer);
	return r;
}

/* 0 when the process is gone, -ETIMEDOUT when it is still there. */
static int await_end(int pidfd, int64_t deadline_ms)
{
	int64_t left;

	while ((left = deadline_ms - now_ms()) > 0) {
		struct pollfd p = {.fd = pidfd, .events = POLLIN};
		int n = poll(&p, 1, (int)left);

		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
	}
	return -ETIMEDOUT;
}

/*
 * A pid says nothing by itself: it is held by a pidfd, and only then asked once more, so that the
 * process that gets the signal is the one that answered. One that answers no more is leaving.
 */
static int hold(const struct job *job, const struct target *target, bool *ret_leaving,
		struct err *err)
{
	cleanup_fd int pidfd = -1;
	struct target again = {0};
	int r;

	pidfd = (int)syscall(SYS_pidfd_open, target->pid, 0);
	if (pidfd < 0)
		return err_set(err, -errno, ERR_INTERNAL, "cannot take hold of berthd (pid %d): %m",
			       (int)target->pid);
	r = ask(job, &again, err);
	*ret_leaving = client_is_absent(r);
	if (*ret_leaving)
		return take_fd(&pidfd);
	if (r < 0)
		return r;
	if (again.pid != target->pid || again.peer != target->peer ||
	    strcmp(again.instance, target->instance) != 0)
		return err_set(err, -EAGAIN, ERR_CONFLICT,
			       "another berthd took over meanwhile (pid %d instead of %d)",
			       (int)again.pid, (int)target->pid);
	return take_fd(&pidfd);
}

static int refuse_foreign(const struct target *target, const char *path, struct err *err)
{
	if (target->pid > 0 && target->peer == target->pid)
		return 0;
	if (target->peer == 0)
		return err_set(err, -EPERM, ERR_UNSUPPORTED,
			       "berthd on %s runs in another pid namespace: stop it there", path);
	return err_set(err, -EPERM, ERR_UNSUPPORTED,
		       "berthd (pid %d) got %s from pid %d, a service manager that would start it "
		       "again: stop it with `systemctl stop berth.socket berth.service`",
		       (int)target->pid, path, (int)target->peer);
}

static int stop(const struct job *job, pid_t *ret_pid, struct err *err)
{
	struct target target = {0};
	cleanup_fd int pidfd = -1;
	bool is_leaving;
	int r;

	r = ask(job, &target, err);
	if (r == -EEXIST)
		return r;
	if (r < 0 && !client_is_absent(r) && target.peer > 1)
		return err_wrap(err, r, "berthd (pid %d) cannot be asked, end it with `kill %d`",
				(int)target.peer, (int)target.peer);
	if (r < 0)
		return r;
	*ret_pid = target.pid;
	r = refuse_foreign(&target, job->paths.socket, err);
	if (r < 0)
		return r;
	pidfd = hold(job, &target, &is_leaving, err);
	if (pidfd < 0)
		return pidfd;
	if (!is_leaving && syscall(SYS_pidfd_send_signal, pidfd, SIGTERM, NULL, 0) < 0 &&
	    errno != ESRCH)
		return err_set(err, -errno, ERR_FORBIDDEN, "you may not stop berthd (pid %d): %m",
			       (int)target.pid);
	r = await_end(pidfd, job->deadline_ms);
	if (r < 0)
		return err_set(err, r, ERR_TIMEOUT,
			       "berthd (pid %d) was told to stop and is still finishing after %d s",
			       (int)target.pid, job->timeout_s);
	return 0;
}

/*
 * Nobody answers, but the state directory is in use: by a daemon that was told to stop before, or
 * that lost its socket. The lock is looked at again once the pid is held: it names who has it.
 */
static int await_holder(const struct job *job, const struct holder *holder, struct err *err)
{
	cleanup_fd int pidfd = (int)syscall(SYS_pidfd_open, holder->pid, 0);
	struct holder again;

	if (pidfd < 0 || !holder_find(job->paths.state_dir, &again) || again.pid != holder->pid)
		return 0;
	if (await_end(pidfd, job->deadline_ms) == 0)
		return 0;
	return err_set(err, -ETIMEDOUT, ERR_TIMEOUT,
		       "berthd (pid %d) uses %s but does not answer: it is still stopping, or end "
		       "it with `kill %d`",
		       (int)holder->pid, job->paths.state_dir, (int)holder->pid);
}

static int stop_holder(struct job *job, const struct holder *holder, pid_t *ret_pid,
		       struct err *err)
{
	int r;

	if (holder->socket[0] && strcmp(holder->socket, job->paths.socket) != 0) {
		job->globals.socket = holder->socket;
		memcpy(job->paths.socket, holder->socket, sizeof(job->paths.socket));
		r = stop(job, ret_pid, err);
		if (!client_is_absent(r) || *ret_pid)
			return r;
	}
	*ret_pid = holder->pid;
	return await_holder(job, holder, err);
}

static int stop_any(struct job *job, bool is_hurried, pid_t *ret_pid, struct err *err)
{
	struct holder holder;
	int r;

	r = stop(job, ret_pid, err);
	if (!client_is_absent(r) || *ret_pid || !client_holder(&job->globals, &job->paths, &holder))
		return r;
	if (!is_hurried)
		job->deadline_ms = now_ms() + SILENT_TIMEOUT_S * 1000;
	return stop_holder(job, &holder, ret_pid, err);
}

static int parse_timeout(const char *text, int *ret)
{
	char *end;
	long value;

	*ret = TIMEOUT_DEFAULT_S;
	if (!text)
		return 0;
	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || *end || value < 1 || value > TIMEOUT_MAX_S)
		return -EINVAL;
	*ret = (int)value;
	return 0;
}

static void report(const struct globals *globals, const char *path, bool is_absent, pid_t pid)
{
	if (globals->json && is_absent)
		printf("{\"stopped\":false,\"pid\":null}\n");
	else if (globals->json)
		printf("{\"stopped\":true,\"pid\":%d}\n", (int)pid);
	else if (is_absent)
		printf("no berthd runs on %s\n", path);
	else
		printf("berthd (pid %d) has stopped\n", (int)pid);
}

static int run(const struct call *call)
{
	struct job job = {.globals = *call->globals};
	pid_t pid = 0;
	struct err err;
	int r;

	if (call->globals->url)
		return usage_error("berth down stops a daemon on this machine: use --socket");
	if (parse_timeout(call->values[DOWN_TIMEOUT], &job.timeout_s) < 0)
		return usage_error("--timeout wants seconds, from 1 to %d", TIMEOUT_MAX_S);
	r = client_paths(&job.globals, &job.paths, &err);
	/* A daemon that is to take its sandboxes along stays until they are down. */
	if (r == 0 && call->values[DOWN_STOP_ALL] && stop_all(call->globals) != EXIT_OK)
		return EXIT_FAILED;
	job.deadline_ms = now_ms() + (int64_t)job.timeout_s * 1000;
	if (r == 0)
		r = stop_any(&job, call->values[DOWN_TIMEOUT] != NULL, &pid, &err);
	/* A daemon that went away between two questions has stopped as well. */
	if (r < 0 && !client_is_absent(r)) {
		screen_error("%s", err.sentence);
		return EXIT_FAILED;
	}
	report(call->globals, job.paths.socket, pid == 0, pid);
	return EXIT_OK;
}

/* clang-format off */
static const struct flag flags[] = {
	[DOWN_TIMEOUT]  = { "--timeout",  "SECONDS", "how long to wait for its end (60)" },
	[DOWN_STOP_ALL] = { "--stop-all", NULL,      "first cancel all runs and stop all sandboxes; their disks stay" },
	{ NULL },
};

static const struct example examples[] = {
	{ "berth down",                             "stop the daemon of this user" },
	{ "berth down --stop-all",                  "and all runs and sandboxes before it" },
	{ "berth down --state-dir /tmp/b --run-dir /tmp/b/run",        "stop another one" },
	{ "berth down --timeout 300",               "give its requests more time to finish" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_down = {
	.name = "down",
	.summary = "stop the daemon",
	.arguments = "",
	.description =
		"Tells the daemon to stop and waits until it is gone: requests that it works\n"
		"on are finished first, for as long as its setting `drain` says (10 s). If none\n"
		"runs, says so and succeeds. Sandboxes run on\n"
		"without it, and the next daemon finds them again, unless --stop-all is given.",
	.flags = flags,
	.examples = examples,
	.run = run,
};
