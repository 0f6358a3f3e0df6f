/* Sandboxes that an earlier keeper left running. */
#ifndef BERTH_CONTAINER_KEEPER_ADOPT_H
#define BERTH_CONTAINER_KEEPER_ADOPT_H

#include <sys/types.h>

/* The init of any of them, before we are in their user namespace; 0 when none runs. */
pid_t keeper_adopt_find_init(const char *run_dir);

#endif
