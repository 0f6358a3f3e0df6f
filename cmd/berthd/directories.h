/*
 * The directories that berthd and the keeper share, with the owners that DESIGN's table gives them:
 * the keeper's own are closed to berthd, and berthd's own are closed to everybody else.
 */
#ifndef BERTH_CMD_BERTHD_DIRECTORIES_H
#define BERTH_CMD_BERTHD_DIRECTORIES_H

#include "base/err.h"
#include "base/paths.h"
#include "cmd/berthd/privileges.h"

/* <state>, <run>: ours; <state>/berthd, <run>/berthd: the daemon's. A parent that the daemon's user
 * cannot pass through is an error now, not later. */
int directories_make(const struct paths *paths, const struct privileges *p, struct err *err);

#endif
