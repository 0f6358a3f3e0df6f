/*
 * What berthd puts on itself before it hears the first stranger: Landlock for what it may reach
 * (landlock.h), a filter for what it may ask of the kernel (filter.h). Neither can be taken off.
 */
#ifndef BERTH_CMD_BERTHD_CONFINE_H
#define BERTH_CMD_BERTHD_CONFINE_H

#include "base/err.h"
#include "daemon/berthd.h"
#include "daemon/config.h"

/*
 * To be called when everything is bound, the keeper runs and privileges are dropped, and before the
 * first thread: threads that there are already would stay free. What this kernel does not have is
 * logged and left out, as `ret` says. SQLite's temporary files go to our own directory from then
 * on.
 */
int confine_apply(const struct config *config, struct confinement *ret, struct err *err);

/* Its part that is Landlock; landlock_restrict()'s answer. */
int confine_reach(const struct config *config);

#endif
