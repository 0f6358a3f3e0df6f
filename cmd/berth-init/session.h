/*
 * A session: a shell that runs commands one by one, each with streams of its own. Between init and
 * the shell stands its feeder: berth-init under another name, a process of the session's own user,
 * in the session's group or under its supervisor. It is dumpable, and holds nothing but what its
 * session may have: so the shell can open /proc/<feeder>/fd/N, and no descriptor of ours is ever
 * inherited by a command, no file is made.
 *
 *	init ══ orders, notes ══ feeder ── script: a pipe of one page ──> stdin of `sh -s`
 *	                            ^                                      │
 *	                            └──────── status: "number code" <──────┘
 *
 * A pipe of one page is writable exactly when all of it was read. So once the line of a command is
 * read, an empty line behind it tells when the shell has come back for more: if it has not told the
 * status then, it never will (`set -n`, a function called `command`), and is replaced.
 *
 * What the feeder says is the sandbox's: init believes it only about its own session.
 */
#ifndef BERTH_INIT_SESSION_H
#define BERTH_INIT_SESSION_H

#include <sys/types.h>

#include "cmd/berth-init/init.h"
#include "proto/agent.h"

#define SESSION_FDS_MAX 4 /* of an order: the command's streams, the memfd of its text */

enum session_order_kind { SESSION_RUN, SESSION_SIGNAL };

enum session_order_flags {
	SESSION_HAS_STDIN = 1,
	SESSION_IN_FD = 2, /* text and env stand in the memfd that comes last */
};

/* Behind it: text, env and directory, or the directory alone. */
struct session_order {
	enum session_order_kind kind;
	uint32_t flags;
	uint64_t number;
	uint32_t signal;
	uint32_t text_size; /* with its NUL */
	uint32_t env_size;  /* a frame list */
	uint32_t cwd_size;  /* 0: where the session is */
};

enum session_note_kind {
	SESSION_READY,   /* the shell answers */
	SESSION_REFUSED, /* the shell, or the command `number`, cannot be */
	SESSION_STARTED, /* the command is the shell's */
	SESSION_DONE,    /* the command has ended with `code` */
	SESSION_OVER,    /* the shell has ended, with a wait status; the last note */
};

struct session_note {
	enum session_note_kind kind;
	uint64_t number;
	uint32_t stage, error; /* REFUSED */
	uint32_t uid, gid;     /* READY */
	int status;            /* DONE, OVER: as wait() gives it */
	uint64_t user_us, system_us;
};

/* --- init's side --- */

/* The feeder's line to us; launch->fds[0] is its end. */
int session_connect(struct init *init, struct exec *exec);
/* Without a supervisor. The exec is STARTING until the shell answers. */
int session_start(struct init *init, struct exec *exec);
/* Its process runs, or is heard to. */
void session_launched(struct init *init, struct exec *exec, pid_t pid, int pidfd);
/* A command, whose pipes are made: launch->fds are those of the shell's side. */
int session_run(struct init *init, struct exec *exec, const struct agent_exec *request, int memfd);
void session_signal(struct init *init, const struct exec *command, uint32_t signal);
/* False when there is none now or ever. */
bool session_take_note(struct init *init, struct exec *exec);
/* How the feeder ended; then its commands end, too. */
void session_exited(struct init *init, struct exec *exec, int status, const struct rusage *usage);
void session_lost(struct init *init, struct exec *exec);
/* Whoever has asked for the end of a command hears of it. */
void session_tree_ended(struct init *init, const struct exec *exec, bool is_proven);

/* --- the feeder --- */

/* argv[1] and so on: the shells to try, in this order. The exit code. */
int session_feed(char **argv);

#endif
