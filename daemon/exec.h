/*
 * One exec: from a running sandbox to exactly one end.
 *
 *	spawning ──STARTED──> running ──EXITED──> draining ──pipes read until empty──> ended
 *	    │                    │                                                      ^
 *	    └── REFUSED ─────────┼── timeout, kill: the whole tree is ended, proven ────┤
 *	                         └── init or the container is gone: lost ───────────────┘
 *
 * Output is handed on as it comes, with backpressure to the process. After the end, what survivors
 * print is read and dropped, so that they do not die of a closed pipe.
 *
 * A kept exec (is_kept) outlives berthd: init keeps its pipes and its status until exec_forget().
 * It is its whole tree, and ends when nothing of that is left.
 *
 *	running ──EXITED──> draining ──> `exited` ──> settling ──nothing is left──> ended
 *	   ^
 *	adopting, when an earlier berthd started it (LIVE, and EXITED if it has)
 *
 * One on a terminal (is_terminal, kept too) has no stderr: all that it prints is its stdout.
 */
#ifndef BERTH_DAEMON_EXEC_H
#define BERTH_DAEMON_EXEC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"
#include "daemon/agent.h"
#include "daemon/sandbox.h"
#include "proto/exec_request.h"

struct exec;

/*
 * The shell of a session, in which a command runs instead of in a process of its own: the command
 * is an exec as any other, but its tree is the shell's. Belongs to daemon/session.c.
 */
struct exec_shell {
	uint64_t number;      /* of the shell's own exec */
	struct exec *command; /* the one that runs in it now */
	/* Ends the whole tree of the shell; exec_proven() of the command follows. */
	void (*end)(struct exec_shell *shell);
	/* The command is over, also if nobody listens any more, or its output is still being read.
	 * Says what the session has to say of that; `reason` is EXEC_NOT_STARTED if it was not. */
	void (*over)(struct exec_shell *shell, struct exec_end *end);
};

/* The `message` of one that was ended with its sandbox: nothing else proved that it is gone. */
#define EXEC_UNPROVEN                                                                              \
	"that nothing of it was left could not be proven, so the whole sandbox was stopped"

enum exec_stream { EXEC_STDOUT, EXEC_STDERR, EXEC_REPORTS, EXEC_STREAMS };

struct exec_ops {
	void (*output)(void *arg, bool is_stderr, struct str bytes);
	/* The one end. The exec must not be touched after it. */
	void (*ended)(void *arg, const struct exec_end *end);
	/* Stdin has room again, or is closed for good. */
	void (*stdin_ready)(void *arg);
	/* Before `output`, or NULL: may take some of stdout out of the pipe by itself, and says how
	 * much; never waits. */
	size_t (*move)(void *arg, int fd);

	/* Kept execs only. It runs, or ran when it is adopted: `pid` is its main process inside. */
	void (*started)(void *arg, uint32_t pid);
	/*
	 * Instead of `output`: moves what the pipe holds to where it is kept, without waiting
	 * (splice() with SPLICE_F_NONBLOCK; the file is a pipe, but whoever made it may hold it
	 * too). Bytes moved; 0 at the end of file; -EAGAIN: nothing is there now. Else it cannot
	 * be kept: the exec is paused until exec_resume(), or if it is being ended the rest is
	 * dropped. NULL for a session, which has no streams.
	 */
	ssize_t (*pull)(void *arg, enum exec_stream stream, int fd);
	/* It has reports: they are pulled, too. exec_signal() goes to its process group alone. */
	bool has_reports;
	/* What exec_drain() has left was pulled. */
	void (*drained)(void *arg);
	/*
	 * The main process was reaped, and its output up to then was pulled. `ended` follows with
	 * the same end when nothing of its tree is left; until then what survivors print is pulled
	 * too. One that is killed, or lost, or did not start, is ended without.
	 */
	void (*exited)(void *arg, const struct exec_end *end);
};

/*
 * Each exec holds up to five descriptors, also when only survivors are left of it. So a sandbox may
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
/*
 * False: it has none, was told that it ends, or does not read it any more; of an adopted one that
 * is known when it has `started`. (Of a berthd that died just then init may not have heard that
 * stdin ended: whoever knows better ends it again.)
 */
bool exec_stdin_is_open(const struct exec *exec);

/* Ends the whole tree; `ended` comes with EXEC_KILLED, or as its main process had exited. */
void exec_kill(struct exec *exec);
/* The client is gone: nothing is called any more, and the tree is ended. */
void exec_abandon(struct exec *exec);

/* Of its group; 0: it has none. */
uint32_t exec_group(const struct exec *exec);

/* --- kept execs --- */

/* To be stored, with the sandbox's generation. */
uint64_t exec_number(const struct exec *exec);
/*
 * One that an earlier berthd started in this generation. Only while the sandbox is being adopted,
 * see registry_config.adopting. `started` follows; or `ended` with EXEC_LOST if init does not know
 * it. Durations count from here.
 */
struct exec *exec_adopt(struct sandbox *sb, uint64_t number, const struct exec_ops *ops, void *arg,
			struct err *err);
/* From now on; 0: none. At the end of it the tree is ended: EXEC_TIMEOUT. */
void exec_set_timeout(struct exec *exec, uint64_t timeout_ms);
/* A terminal's; in cells, each at most AGENT_CELLS_MAX. */
void exec_resize(struct exec *exec, uint32_t cols, uint32_t rows);
/*
 * The same in a while: the caller gives it some time, and then calls exec_kill(). If nobody can
 * know before whether anything of it is left, it is not `ended` but with its sandbox.
 */
void exec_ask_end(struct exec *exec);
/* To everything of its tree that can be found, beginning with its main process, if it runs. */
void exec_signal(struct exec *exec, int signal);
/*
 * Pulls what it has printed up to now, but not its reports. False: some is left, for it is paused,
 * or there is much of it; `drained` follows.
 */
bool exec_drain(struct exec *exec);
/*
 * What it has reported up to now, and so much of that as may be pulled at once. False: some is
 * left, which comes as all else does, or with the next call of the latter.
 */
void exec_mark_reports(struct exec *exec);
bool exec_pull_reports(struct exec *exec);
/* Both, of one that is paused: so much of it as may be pulled at once. */
void exec_pull_paused_reports(struct exec *exec);
/* Kills for want of memory that were before this had nothing to do with its end. */
void exec_forget_oom(struct exec *exec);
/* Of all that is in its group, in bytes; negative: that cannot be known. */
int64_t exec_memory(const struct exec *exec);
/* Its sandbox can hardly have more processes, and most of them are in its group: as far as that can
 * be known, which it cannot without groups. */
bool exec_crowds(const struct exec *exec);
/* berthd stops, or the owner goes: nothing is called any more, the exec lives on with init. */
void exec_leave(struct exec *exec);
/* Its end is stored: init need not tell it again. Until then a kept exec takes init's room. */
void exec_forget(struct sandbox *sb, uint64_t generation, uint64_t number);

/* For a shell: nothing of its tree is left, so nothing of its command. */
void exec_proven(struct exec *exec);
/* To a command that runs, by its shell. */
void exec_interrupt(struct exec *exec);

/* For the sandbox: what init says, and that it will say no more. */
void exec_event(struct sandbox *sb, const struct agent_event *event);
/* why: NULL if somebody asked for its end; then they were killed. */
void exec_lose_all(struct sandbox *sb, const struct err *why);
/* Init has told of all that it knows: what is still to be adopted is lost. */
void exec_adopted_all(struct sandbox *sb);
/* What only init can tell and somebody waits for: that a command has ended, or whether it began. */
enum exec_await { EXEC_AWAIT_NOTHING, EXEC_AWAIT_END, EXEC_AWAIT_START };
enum exec_await exec_awaited(const struct sandbox *sb);
/* berthd stops: kept ones are left, others lost. */
void exec_leave_all(struct sandbox *sb);

#endif
