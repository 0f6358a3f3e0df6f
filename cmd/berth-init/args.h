/*
 * argv and env of an exec: pointers into the received frame, or into a mapping of the memfd that
 * came with it. Valid until args_close(), or until the frame is overwritten.
 */
#ifndef BERTH_INIT_ARGS_H
#define BERTH_INIT_ARGS_H

#include <stddef.h>

#include "proto/agent.h"

#define ARGS_FIXED   1024          /* pointers that need no mapping of their own */
#define ARGS_WORKER  "berth-files" /* the argv of a file worker, whatever was asked for */
#define ARGS_SESSION AGENT_SESSION /* argv[0] of a session's feeder */

struct args {
	char **argv, **envp;
	void *lists, *pointers; /* mappings, or NULL */
	size_t lists_size, pointers_size;
	char *fixed[ARGS_FIXED];
};

/*
 * -EINVAL for lists that are none, an empty argv, an env entry that is not NAME=value, or a memfd
 * that is not sealed; -E2BIG past AGENT_ARGS_MAX. After a failure there is nothing to close.
 */
int args_init(struct args *args, const struct agent_exec *request, int memfd);
void args_close(struct args *args);

/* One more variable, at most once; `entry` stays the caller's. */
void args_add_env(struct args *args, char *entry);

/* The value of a variable of the exec's own environment, or NULL. */
const char *args_getenv(const struct args *args, const char *name);

#endif
