/*
 * The execs that init knows of, from EXEC until FORGET, and what of each is still to be told. No
 * queue of frames exists: a frame is made from this table when the connection can take it, so that
 * a peer that does not read costs nothing.
 *
 *	STARTING ──> LIVE ──> EXITED ──FORGET──> free
 *	   │          └─────> LOST   ──FORGET──> free
 *	   └── refused: free, once that is told
 *
 * Of a kept exec the pipes stay here until FORGET, too, and where it is supervised, whether
 * anything of its tree is left.
 *
 * Only supervised execs are ever STARTING: others are LIVE or refused when launch_run() returns.
 */
#ifndef BERTH_INIT_EXECS_H
#define BERTH_INIT_EXECS_H

#include <sys/resource.h>
#include <sys/types.h>

#include "base/list.h"
#include "proto/agent.h"

#define EXECS_BUCKETS 256
#define EXEC_FDS_MAX  4

enum exec_state { EXEC_STARTING, EXEC_LIVE, EXEC_EXITED, EXEC_LOST };

/* In the order in which they are told. */
enum exec_due {
	DUE_REFUSED = 1,
	DUE_STARTED = 2,
	DUE_LIVE = 4,
	DUE_EXITED = 8,
	DUE_LOST = 16,
	DUE_SETTLED = 32,
	DUE_ENDED = 64,
};

struct exec {
	struct list number_link, pid_link, due_link;
	uint64_t number;
	enum exec_state state;
	uint32_t due;
	pid_t pid;     /* of its main process; 0 while STARTING */
	int pidfd;     /* of its main process, until that has ended */
	pid_t our_pid; /* the child of ours that stands for it: itself, or its supervisor */
	int fds[EXEC_FDS_MAX];
	unsigned
		fd_count; /* to be handed out with STARTED or LIVE; those of kept execs each time */
	uint32_t start_tag, end_tag;
	bool is_start_awaited, is_end_awaited; /* by the peer that is connected now */
	bool is_forgotten;
	bool is_kept, has_stdin;
	bool has_reports; /* kept, and signals are for those it waits for, not for all */
	bool is_tree_lost; /* kept, and its supervisor was killed */
	int group_fd;      /* kept, and in a cgroup: its directory; else -1 */
	struct agent_exited exited;
	struct agent_refused refused;
	/* Supervised execs. */
	bool is_supervised;
	int supervisor_fd; /* -1: it has ended, or is not wanted any more */
	bool is_tree_empty, is_end_pending, is_end_proven;
	uint64_t end_deadline_ms;
	bool is_resize_pending; /* its supervisor took no more words: later, and only the last */
	uint32_t cols, rows;
	/* Sessions, see cmd/berth-init/session.h. */
	bool is_session, is_ready;
	int session_fd;    /* to its feeder; -1: that has ended, or will */
	uint32_t uid, gid; /* whose pipes its commands' are */
	bool is_over;      /* the feeder has said how the shell ended */
	int over_status;
	/* Commands of a session: its number. */
	bool is_command;
	uint64_t session;
};

struct execs {
	struct list by_number[EXECS_BUCKETS], by_pid[EXECS_BUCKETS];
	struct list due;
	struct list free;
	unsigned count, kept, ends_pending, resizes_pending;
	int epoll_fd;     /* the loop's, which watches supervisors */
	unsigned touched; /* the entries from here on were never used */
	struct exec all[AGENT_EXECS_MAX];
};

void execs_init(struct execs *execs);

/* NULL when there are AGENT_EXECS_MAX already. */
struct exec *execs_add(struct execs *execs, uint64_t number);
void execs_remove(struct execs *execs, struct exec *exec);

/* Its supervisor is not heard any more. */
void execs_drop_supervisor(struct execs *execs, struct exec *exec);

/* Its feeder is not heard any more, and goes away. */
void execs_drop_session(struct execs *execs, struct exec *exec);

struct exec *execs_find(struct execs *execs, uint64_t number);
struct exec *execs_find_pid(struct execs *execs, pid_t our_pid);
void execs_set_pid(struct execs *execs, struct exec *exec, pid_t our_pid);

/* enum exec_due, one or more: to be told as soon as somebody listens. */
void execs_tell(struct execs *execs, struct exec *exec, uint32_t what);

/* A new peer: what it must be told is where each exec stands. Returns how many frames that makes.
 */
unsigned execs_tell_all(struct execs *execs);

/* Those that were not handed out, or are kept. */
void exec_close_fds(struct exec *exec);
/* No more input: the one who has the other duplicate will close it too. */
void exec_close_stdin(struct exec *exec);
/* Nothing of it is kept any more. */
void execs_unkeep(struct execs *execs, struct exec *exec);

/* The changes of state, each told. After refused, exited and lost, `exec` may be gone. */
void exec_started(struct execs *execs, struct exec *exec, pid_t pid, int pidfd);
void exec_refused(struct execs *execs, struct exec *exec, uint32_t stage, uint32_t error);
void exec_exited(struct execs *execs, struct exec *exec, int status, const struct rusage *usage);
void exec_lost(struct execs *execs, struct exec *exec);
void exec_ended(struct execs *execs, struct exec *exec, bool is_proven);
/* Its supervisor is gone: because nothing was left, or somebody killed it. */
void exec_unsupervised(struct execs *execs, struct exec *exec, bool is_empty);

#endif
