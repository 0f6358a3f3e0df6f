/*
 * One berthd per state directory. The lock is on `<state>/berthd/lock`, which holds the pid of its
 * owner and the socket that it serves on (base/holder.h); the kernel releases it when the owner
 * ends, however it ends.
 */
#ifndef BERTH_DAEMON_LOCK_H
#define BERTH_DAEMON_LOCK_H

#include "base/err.h"

/*
 * Makes `<state>/berthd` (0700) if it is missing. `ret_fd` holds the lock until it is closed.
 * ERR_CONFLICT and -EBUSY when another process has it.
 */
int lock_take(int *ret_fd, const char *state_dir, const char *socket, struct err *err);

#endif
