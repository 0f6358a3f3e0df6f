/* The two ways of `berth debug`: under node's inspector, and with a profile of it all. */
#ifndef BERTH_CMD_DEBUG_H
#define BERTH_CMD_DEBUG_H

#include "cmd/berth/command.h"

/*
 * Is the script there that the command names, as node itself would look for it? EXIT_OK, or with a
 * sentence what `berth exec` gives for a program that is not.
 */
int debug_find_script(const struct command *command);

/*
 * Runs what the command says, a script and its arguments, to its end under the inspector, which
 * is a port of this machine meanwhile, and tells which. Gives the exit code.
 */
int debug_inspect(struct command *command);

/*
 * Runs it to its end, and fetches a CPU profile and a heap snapshot into a directory here, which is
 * made if need be, and says which they are. After `limit_ms`, if not 0, the script is made to exit.
 * Gives the exit code.
 */
int debug_profile(struct command *command, const char *dir, uint64_t limit_ms);

#endif
