/* What /proc says about one process. */
#ifndef BERTH_BASE_PROCESS_STAT_H
#define BERTH_BASE_PROCESS_STAT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct process_stat {
	char state; /* 'Z': a zombie */
	pid_t parent;
	uint64_t start; /* clock ticks after boot: with the pid, one process */
	bool is_killed; /* a SIGKILL waits for it, as for one that is frozen by v1 */
};

/* -ESRCH when there is no such process. */
int process_stat(pid_t pid, struct process_stat *ret);

#endif
