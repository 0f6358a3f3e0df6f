/*
 * What the files of an exec share: exec.c begins it and hears what init says, exec_end.c ends it.
 * Nobody else looks inside.
 */
#ifndef BERTH_DAEMON_EXEC_STATE_H
#define BERTH_DAEMON_EXEC_STATE_H

#include "daemon/exec.h"
#include "daemon/exec_pipe.h"

enum exec_state { EXEC_SPAWNING, EXEC_RUNNING, EXEC_DRAINING, EXEC_ENDED };

struct exec {
	struct list link; /* sandbox's execs */
	struct sandbox *sb;
	uint64_t number;
	enum exec_state state;
	const struct exec_ops *ops;
	void *arg;

	struct exec_pipe output[2]; /* stdout, stderr */
	struct exec_pipe input;
	struct sandbox_group group;
	struct keeper_call call; /* ending its group */
	int64_t oom_kills;       /* of the sandbox, when it started */
	uv_timer_t timer; /* the time-out, then that of ending it, then looking at survivors */
	uint64_t started_ns;
	unsigned check_ms;
	unsigned handles; /* that must close before it can be freed */

	bool is_paused;    /* the client does not keep up */
	bool is_dropping;  /* ... while it is being ended: it gets no more output */
	bool is_ending;    /* its tree is being ended */
	bool is_proven;    /* ... and nothing of it is left */
	bool is_kill_sent; /* ... and whoever can has been asked to */
	bool is_abandoned;
	bool is_closed;
	enum exec_reason end_reason; /* why it is being ended */
	char words[3][80];           /* user, directory and program, for a refusal; may be cut */
	struct agent_exited exited;
};

/* exec.c: the main process was reaped; is that all, and how did it end? */
void exec_check_drained(struct exec *e);

/* A pipe of an exec, or its timer, is closed; the last of them frees it. */
void exec_on_pipe_closed(struct exec_pipe *pipe);
/* Before init has heard of it: takes it off the sandbox, and frees it on the loop. */
void exec_close(struct exec *e);

/* Its output ends with what is in its pipes now. */
void exec_mark_output(struct exec *e);
/* The one end that a client hears of; then survivors are watched until they are gone too. */
void exec_finish(struct exec *e, struct exec_end *end);
void exec_finish_exited(struct exec *e);
/* Without a status: by what was done to it. */
void exec_finish_ended(struct exec *e);
/* ... or that nobody knows. */
void exec_finish_lost(struct exec *e, const char *why);
/* If it has ended: are there survivors still? */
void exec_check_survivors(struct exec *e);

void exec_on_timeout(uv_timer_t *timer);
/* Ends what nobody can hear: it is lost. */
void exec_give_up(struct exec *e);
/* Init has started it; if it is to be ended already, now it can be. */
void exec_kill_started(struct exec *e);
/* Whether nothing of the tree is left, says whoever can prove it. */
void exec_on_proven(struct exec *e);
void exec_on_unproven(struct exec *e);

#endif
