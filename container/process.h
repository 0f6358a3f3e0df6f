/* Processes by their pidfds, and the end of children. */
#ifndef BERTH_CONTAINER_PROCESS_H
#define BERTH_CONTAINER_PROCESS_H

#include <stdint.h>
#include <sys/types.h>

/*
 * SIGKILLs all children of `parent`, our own, for which `is_kept` says no, and waits up to
 * `timeout_ms` until they are gone. How many it found, or -ETIMEDOUT; -ESRCH: `parent` has ended,
 * and who is our parent now has children that are not ours to kill.
 */
int process_kill_children(pid_t parent, int (*is_kept)(void *arg, pid_t pid, uint64_t start),
			  void *arg, unsigned timeout_ms);

/*
 * In a child that looks at what may hang: nobody waits for its end, not even
 * process_kill_children(), by whom it is killed too.
 */
void process_be_look(void);

int process_pidfd_open(pid_t pid);
int process_pidfd_kill(int pidfd, int number);

#endif
