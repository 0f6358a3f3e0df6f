/*
 * Starts one program: vfork, all that lies between a clone and execve, and the way in which it
 * failed. Everything is checked and taken on by the child, which shares init's memory meanwhile.
 */
#ifndef BERTH_INIT_LAUNCH_H
#define BERTH_INIT_LAUNCH_H

#include <sys/resource.h>
#include <sys/types.h>

#include "cmd/berth-init/args.h"
#include "cmd/berth-init/number.h"
#include "cmd/berth-init/user.h"
#include "cmd/berth-init/watchdog.h"
#include "proto/agent.h"

#define LAUNCH_STACK_SIZE (64 * 1024)
#define LAUNCH_STREAMS    4 /* stdin, stdout, stderr, reports */

/* What all launches of a process share; one at a time. Large, and mostly never touched. */
struct launcher {
	int proc_fd;                     /* the sandbox's /proc, as it was when init started */
	int pts_fd;                      /* its /dev/pts, then; -1: there was none */
	bool is_strict;                  /* see filter.h */
	char oom_score_adj[NUMBER_SIZE]; /* for execs: above init's own */
	struct rlimit old_files;         /* what init itself was given */
	struct watchdog watchdog;
	struct user user;
	char passwd[USER_FILE_MAX], group[USER_FILE_MAX];
	char home[sizeof("HOME=") + USER_HOME_MAX];
	_Alignas(16) char stack[LAUNCH_STACK_SIZE];
};

struct launch {
	struct launcher *launcher;
	struct args *args;
	char cwd[AGENT_CWD_MAX + 1];
	struct str user;
	bool is_worker; /* the program is our own */
	bool is_terminal;
	uint32_t cols, rows; /* of the terminal */
	/* The child's ends; -1: init's own, which is /dev/null; of the last: there is none. */
	int fds[LAUNCH_STREAMS];
	int cgroup_fd; /* or -1 */
	/* Of the failure, when launch_run() says so. */
	uint32_t stage, error;
};

/* The child's pid and its pidfd, or -1 and `stage` and `error`. */
pid_t launch_run(struct launch *launch, int *ret_pidfd);

#endif
