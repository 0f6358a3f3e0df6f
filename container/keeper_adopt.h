/* Sandboxes that an earlier keeper left running. */
#ifndef BERTH_CONTAINER_KEEPER_ADOPT_H
#define BERTH_CONTAINER_KEEPER_ADOPT_H

#include <sys/types.h>

#include "base/err.h"

/* The init of any of them, before we are in their user namespace; 0 when none runs. */
int keeper_adopt_find_init(const char *run_dir, pid_t *ret, struct err *err);

#endif
