/* The keeper's directories, and the lock that makes it the only one. */
#ifndef BERTH_CMD_BERTH_KEEPER_PLACES_H
#define BERTH_CMD_BERTH_KEEPER_PLACES_H

#include "base/err.h"
#include "cmd/berth-keeper/options.h"

/*
 * Makes the state and the run directory if they are missing. They must be ours, nobody else may
 * write to them, and berthd's user must be able to pass through them.
 */
int places_make(const struct options *options, struct err *err);

/*
 * `ret_fd` holds <state>/lock as long as a copy of it is open. -EBUSY: another keeper has it. One
 * that has just been killed may leave it behind for a moment: that is waited for.
 */
int places_lock(const struct options *options, int *ret_fd, struct err *err);

/* <run>/.state leads to the state directory, for whoever comes and means another one; and
 * <run>/.allow-bind is the digest of the folders that may be mounted, for the same. */
int places_tell(const struct options *options, struct err *err);

#endif
