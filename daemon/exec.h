/*
 * One foreground exec: from a running sandbox to exactly one end.
 *
 *	spawning ──STARTED──> running ──EXITED──> draining ──pipes read until empty──> ended
 *	    │                    │                                                      ^
 *	    └── REFUSED ─────────┼── timeout, kill: the whole tree is ended, proven ────┤
 *	                         └── init or the container is gone: lost ───────────────┘
 *
 * Output is handed on as it comes, with backpressure to the process. After the end, what survivors
 * print is read and dropped, so that they do not die of a closed pipe.
 */
#ifndef BERTH_DAEMON_EXEC_H
#define BERTH_DAEMON_EXEC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "daemon/agent.h"
#include "daemon/sandbox.h"
#include "proto/exec_request.h"

struct exec;

struct exec_ops {
	void (*output)(void *arg, bool is_stderr, struct str bytes);
	/* The one end. The exec must not be touched after it. */
	void (*ended)(void *arg, const struct exec_end *end);
	/* Stdin has room again, or is closed for good. */
	void (*stdin_ready)(void *arg);
};

/*
 * Each exec holds up to four descriptors, also when only survivors are left of it. So a sandbox may
 * have only so many, and fewer where few files may be open; and a quarter of these stays free of
 * execs, so that somebody can still connect and delete what holds them.
 */
#define SANDBOX_EXECS_MAX   1024
#define SANDBOX_EXECS_LEAST 16
#define FILES_PER_EXEC      16 /* of RLIMIT_NOFILE, for each that a sandbox may have */

/*
 * The sandbox runs. NULL and `err` if it cannot even be asked for (ERR_CAPACITY_EXCEEDED: too many
 * already); else `ended` will come.
 */
struct exec *exec_new(struct sandbox *sb, const struct exec_request *request,
		      const struct exec_ops *ops, void *arg, struct err *err);

/* Backpressure: no more output until resumed, but for what was read already. */
void exec_pause(struct exec *exec);
void exec_resume(struct exec *exec);

/* True: that is enough for now, wait for stdin_ready. */
bool exec_stdin(struct exec *exec, struct str bytes);
void exec_stdin_end(struct exec *exec);

/* Ends the whole tree; `ended` comes with EXEC_KILLED. */
void exec_kill(struct exec *exec);
/* The client is gone: nothing is called any more, and the tree is ended. */
void exec_abandon(struct exec *exec);

/* For the sandbox: what init says, and that it will say no more. */
void exec_event(struct sandbox *sb, const struct agent_event *event);
/* why: NULL if somebody asked for its end; then they were killed. */
void exec_lose_all(struct sandbox *sb, const char *why);

#endif
