/* Sees to it that a berth-keeper serves the run directory, before privileges are dropped. */
#ifndef BERTH_CMD_BERTHD_KEEPER_START_H
#define BERTH_CMD_BERTHD_KEEPER_START_H

#include "base/err.h"
#include "cmd/berthd/privileges.h"
#include "daemon/config.h"

/*
 * Connects to the one that is there, waiting a while for one that is just being started again; else
 * starts berth-keeper from beside our own program. The connection is the caller's: as long as it is
 * open, the keeper stays.
 */
int keeper_start_up(const struct config *config, const struct privileges *p, int *ret_fd,
		    struct err *err);

#endif
