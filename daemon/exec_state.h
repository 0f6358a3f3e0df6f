/*
 * What the files of an exec share: exec.c begins it and hears what init says, exec_end.c ends it,
 * exec_kept.c is for what a kept one has besides. Nobody else looks inside.
 */
#ifndef BERTH_DAEMON_EXEC_STATE_H
#define BERTH_DAEMON_EXEC_STATE_H

#include "daemon/activity.h"
#include "daemon/exec.h"
#include "daemon/exec_pipe.h"

/* SETTLING: a kept exec whose main process has exited, and whose owner knows. */
enum exec_state { EXEC_SPAWNING, EXEC_RUNNING, EXEC_DRAINING, EXEC_SETTLING, EXEC_ENDED };

struct exec_kept {
	struct exec_end end;     /* of the main process, when SETTLING */
	struct keeper_call open; /* of an adopted one's group */
	uv_poll_t poll;          /* of the group's events */
	uv_timer_t retry;        /* if that cannot be had now */
	uv_timer_t pace;         /* while its output is not read, for there was so much of it */
	bool is_paced;
	int events_fd;       /* -1: not polled */
	bool is_settled;     /* nothing of the tree is left, or nobody can know */
	bool is_tree_lost;   /* the latter */
	bool is_draining;    /* the owner waits for `drained` */
	bool is_marked;      /* so the last of its output is in the pipes, and counted */
	uint32_t cols, rows; /* of a terminal that does not run yet; 0: as it is */
};

struct exec {
	struct list link; /* sandbox's execs */
	struct sandbox *sb;
	uint64_t number;
	enum exec_state state;
	const struct exec_ops *ops;
	void *arg;

	struct exec_pipe output[EXEC_STREAMS];
	struct exec_pipe input;
	struct sandbox_group group;
	struct hold hold;        /* while it runs, unless it is kept or quiet */
	struct keeper_call call; /* ending its group */
	int64_t oom_kills;       /* of the sandbox, when it started, or exec_forget_oom() */
	bool is_starved;         /* the sandbox ended for want of memory, with all that is in it */
	uv_timer_t timer; /* the time-out, then that of ending it, then looking at survivors */
	uint64_t started_ns;
	unsigned check_ms;
	unsigned handles; /* that must close before it can be freed */

	struct exec_shell *shell; /* it is a command of this one, and has not exited */
	struct exec_end over;     /* a command that has: what its session says of that */
	bool is_kept;
	bool has_streams;  /* all but sessions */
	bool is_adopting;  /* init has yet to tell of it */
	bool is_started;   /* something was or is in its group */
	bool is_end_late;  /* it is being ended, and its main process had exited by itself */
	bool is_flushing;  /* there will be no other time to pull */
	bool is_paused;    /* the client does not keep up */
	bool is_dropping;  /* ... while it is being ended: it gets no more output */
	bool is_ending;    /* its tree is being ended */
	bool is_proven;    /* ... and nothing of it is left */
	bool is_unproven;  /* ... and only the end of the sandbox can tell so */
	bool is_end_asked; /* it is not being ended yet, but its end will have to be proven */
	bool is_kill_sent; /* ... and whoever can has been asked to */
	bool is_lost;      /* ... but how it ended nobody will tell */
	bool is_sys_sent;  /* SIGSYS, by a client: it proves nothing then */
	bool is_stopped;   /* its main process exited while its sandbox was being stopped */
	bool is_abandoned;
	bool is_closed;
	enum exec_reason end_reason; /* why it is being ended */
	char words[3][80];           /* user, directory and program, for a refusal; may be cut */
	struct agent_exited exited;
	struct exec_kept kept;
};

/* For init this is where its tree is; without one it has a supervisor. */
static inline bool exec_has_group(const struct exec *e)
{
	return (uint32_t)e->number != 0 && !e->shell && !e->over.in_session;
}

/* exec.c: the main process was reaped; is that all, and how did it end? */
void exec_check_drained(struct exec *e);

/* Of its pipes, timers and polls one is closed; the last of them frees it. */
void exec_release(struct exec *e);
void exec_on_pipe_closed(struct exec_pipe *pipe);
/* Before init has heard of it: takes it off the sandbox, and frees it on the loop. */
void exec_close(struct exec *e);

/* Its output ends with what is in its pipes now. */
void exec_mark_output(struct exec *e);
/* The one end that a client hears of; then survivors are watched until they are gone too. */
void exec_finish(struct exec *e, struct exec_end *end);
void exec_finish_exited(struct exec *e);
/* It needs its shell no more: the next command may have it. */
void exec_leave_shell(struct exec *e);
/* Its sandbox is being stopped, because somebody wanted that. */
bool exec_is_asked_to_stop(const struct exec *e);
/* How its main process exited. */
struct exec_end exec_judge_exit(const struct exec *e);
/* Without a status: by what was done to it. */
void exec_finish_ended(struct exec *e);
/* ... or that nobody knows. */
void exec_finish_lost(struct exec *e, const char *why);
/* If it has ended: are there survivors still? */
void exec_check_survivors(struct exec *e);
/* Nothing lives in its group any more. */
bool exec_group_is_empty(const struct exec *e);
/* Some of what its pipes hold; true: all of it was read. */
bool exec_drain_output(struct exec *e);
/* What the pipes hold now, at once: nobody will read them again. */
void exec_flush_output(struct exec *e);

void exec_on_timeout(uv_timer_t *timer);
/* Ends what nobody can hear: it is lost. */
void exec_give_up(struct exec *e);
/* Init has started it; if it is to be ended already, now it can be. */
void exec_kill_started(struct exec *e);

/* exec_kept.c */
void exec_kept_init(struct exec *e);
void exec_kept_close(struct exec *e);
/* For its pipes: moves what they hold to where it is kept, but not faster than all can bear. */
ssize_t exec_kept_pull(struct exec_pipe *pipe, int fd);
/* Init has handed out its pipes: it ran then. */
void exec_kept_started(struct exec *e, uint32_t pid);
/* The main process has exited, and all that it printed is pulled. */
void exec_kept_exited(struct exec *e);
/* Init says that nothing is left; or, `is_lost`, that this cannot be known. */
void exec_kept_settled(struct exec *e, bool is_lost);
/* Is anything left of its tree, or in its pipes? */
void exec_kept_check(struct exec *e);
/* What was asked for by exec_drain() may be pulled by now. */
void exec_kept_drained(struct exec *e);
/* Whether nothing of the tree is left, says whoever can prove it. */
void exec_on_proven(struct exec *e);
void exec_on_unproven(struct exec *e);

#endif
