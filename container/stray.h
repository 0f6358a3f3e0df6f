/*
 * An init that its runtime has started and nobody has put on record: keeper and monitor were killed
 * in between. As root its cgroup leads to it; without cgroups only what the runtime wrote down
 * does.
 */
#ifndef BERTH_CONTAINER_STRAY_H
#define BERTH_CONTAINER_STRAY_H

#include <sys/types.h>

#include "proto/sandbox_id.h"

/* Its pidfd, and its pid; -ESRCH when there is none, another error when that cannot be seen. */
int stray_open(int run_fd, const struct sandbox_id *id, pid_t *ret_pid);

#endif
