/* A run that is looked at while it runs: begun, followed, and cancelled if need be. */
#ifndef BERTH_CMD_RUN_FOLLOW_H
#define BERTH_CMD_RUN_FOLLOW_H

#include "cmd/berth/run_info.h"
#include "proto/sandbox_id.h"

/*
 * Asks for one with the haul's body, which must say "async", and returns as soon as there is one.
 * Ctrl-C meanwhile leaves none behind. 0, or negative for haul_finish(), as all of these.
 */
int run_begin(struct haul *haul, struct sandbox_id *ret);

/* What it says, each where it was said, until it is over. With --json an event in each line. */
int run_follow(struct haul *haul, const char *run);

/* Also after Ctrl-C, and whatever is pressed meanwhile; a failure is said. */
void run_cancel(struct haul *haul, const char *run);

#endif
