/* The two ways of `berth debug`: under node's inspector, and with a profile of it all. */
#ifndef BERTH_CMD_DEBUG_H
#define BERTH_CMD_DEBUG_H

#include "base/str.h"
#include "cmd/berth/command.h"

/* The program in debug_relay.cjs. */
extern const struct str debug_relay;

/*
 * Runs what the command says, a script and its arguments, to its end under the inspector, exposed
 * by a preview, and tells where that is. Gives the exit code.
 */
int debug_inspect(struct command *command);

/*
 * Runs it to its end, and fetches a CPU profile and a heap snapshot into a directory here, which is
 * made if need be. After `limit_ms`, if not 0, the script is made to exit. Gives the exit code.
 */
int debug_profile(struct command *command, const char *dir, uint64_t limit_ms);

#endif
