/* Sees to it that a berth-keeper serves the run directory, before privileges are dropped. */
#ifndef BERTH_CMD_BERTHD_KEEPER_START_H
#define BERTH_CMD_BERTHD_KEEPER_START_H

#include "base/err.h"
#include "cmd/berthd/privileges.h"
#include "daemon/config.h"

/* Returns at once if one answers already; else starts berth-keeper from beside our own program and
 * waits until it says `ready`. */
int keeper_start_up(const struct config *config, const struct privileges *p, struct err *err);

#endif
