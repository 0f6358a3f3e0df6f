/*
 * All descendants of the calling process, which must be a child subreaper: whoever loses its
 * parent becomes its child, so nothing gets out of sight. Found by proc's lists of children.
 */
#ifndef BERTH_INIT_TREE_H
#define BERTH_INIT_TREE_H

#include <stddef.h>
#include <sys/types.h>

#define TREE_PIDS_MAX 32768

struct tree {
	int proc_fd;
	size_t count;
	pid_t pids[TREE_PIDS_MAX]; /* of the last round */
	_Alignas(8) char text[32768];
};

/*
 * One round: stops everything until nothing of it runs, or for some tries if that is not to be had
 * (a process that waits for a stopped one does not stop), then kills it. The stopped reap nobody,
 * so the pids stay theirs. The caller reaps, and calls again while it has children.
 */
void tree_kill(struct tree *tree);

/* To all that are there now, but for `but`. Whoever is forked meanwhile may be missed. */
void tree_signal(struct tree *tree, pid_t but, int signal);

/* The same for all processes of a cgroup, whose directory this is. */
void tree_signal_group(int group_fd, pid_t but, int signal);

#endif
