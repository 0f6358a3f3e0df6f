/*
 * A process that lifts all limits of io when the keeper hangs.
 *
 * Whoever removes a file in ext4 holds a handle of its journal while it reads what it needs for
 * that, slowed down by a limit of io. The journal's commit waits for all handles, and every change
 * in that file system for the commit: the keeper's own, too, which could lift the limits. So that
 * is done by somebody who changes nothing there, and knows by the keeper's pulse that it hangs.
 *
 *	keeper                                       guard
 *	its loop: *pulse = since when it is busy ──> looks at it
 *	keeper_io.c: sets them again <── told_fd ─── lifts them
 */
#ifndef BERTH_CONTAINER_IO_GUARD_H
#define BERTH_CONTAINER_IO_GUARD_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "container/cgroup.h"

/* Memory that the keeper shares with its children; NULL: there is none. */
_Atomic uint64_t *io_guard_pulse_new(void);

/* A child that lives until it is killed, or the keeper dies. `told_fd`: an eventfd. Its pidfd. */
int io_guard_start(const struct cgroup_host *cg, const _Atomic uint64_t *pulse, int told_fd,
		   pid_t *ret_pid);

#endif
