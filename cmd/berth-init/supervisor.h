/*
 * Where a sandbox has no cgroups, a process of ours stands between init and an exec's command, as
 * the child subreaper of all that the command starts: that is what can be ended, and proven empty.
 * It reports to init by notes, and does what init asks. When init closes its end, it goes away and
 * leaves what still runs to init. An exec on a terminal always has one, in its cgroup if there is
 * one: it holds the pty.
 */
#ifndef BERTH_INIT_SUPERVISOR_H
#define BERTH_INIT_SUPERVISOR_H

#include <sys/resource.h>

#include "cmd/berth-init/launch.h"

#define SUPERVISOR_END_MS 5000 /* then it says that it could not */

enum supervisor_event {
	SUPERVISOR_STARTED,
	SUPERVISOR_REFUSED,
	SUPERVISOR_EXITED,
	SUPERVISOR_ENDED
};

/* STARTED brings the main process's pidfd along. */
struct supervisor_note {
	enum supervisor_event event;
	pid_t pid;             /* STARTED */
	uint32_t stage, error; /* REFUSED */
	int status;            /* EXITED */
	bool is_proven;        /* ENDED */
	struct rusage usage;   /* EXITED */
};

/* The two ends of their socket. */
int supervisor_connect(int *ret_ours, int *ret_theirs);

/* The supervisor's pid, or a negative errno. */
pid_t supervisor_start(struct launch *launch, int theirs);

/* 1: a note, and STARTED's pidfd or -1; 0: none now; -EPIPE: there will be no more. */
int supervisor_receive(int fd, struct supervisor_note *ret, int *ret_pidfd);

int supervisor_end_tree(int fd);
/* To all but the main process, which init signals itself. */
int supervisor_signal_tree(int fd, uint32_t signal);
/* Its terminal, if it has one. */
int supervisor_hang_up(int fd);
/* Of its terminal. */
int supervisor_resize(int fd, uint32_t cols, uint32_t rows);

#endif
