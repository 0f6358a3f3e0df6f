/* The end of all that runs in sandboxes, before the daemon's own. */
#ifndef BERTH_CMD_STOP_ALL_H
#define BERTH_CMD_STOP_ALL_H

#include "cmd/berth/verb.h"

/*
 * Cancels the runs, empties the pool that is kept warm for them, and stops the other sandboxes,
 * whose disks stay. EXIT_OK, also when there is no daemon; else what failed was said.
 */
int stop_all(const struct globals *globals);

#endif
