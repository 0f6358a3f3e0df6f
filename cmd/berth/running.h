/* A daemon that runs already, held against what was asked for. */
#ifndef BERTH_CMD_RUNNING_H
#define BERTH_CMD_RUNNING_H

#include <sys/types.h>

#include "cmd/berth/info.h"

/* NULL: not asked for. Paths are absolute. */
struct wanted {
	const char *state_dir, *run_dir, *listen, *preview, *preview_url, *runtime;
	const char *config, *token_file, *socket_group, *log_level, *user;
	char *const *allow_bind; /* "DIR[:ro]" each; ends with NULL */
};

/* -EEXIST and a sentence that names the first thing that differs. */
int running_compare(const struct info *info, const struct wanted *wanted, struct err *err);

/* Has its program been replaced since it was started? False also if we may not know. */
bool running_is_outdated(pid_t pid);

#endif
