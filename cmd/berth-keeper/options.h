/* The flags of berth-keeper. */
#ifndef BERTH_CMD_BERTH_KEEPER_OPTIONS_H
#define BERTH_CMD_BERTH_KEEPER_OPTIONS_H

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/log.h"
#include "proto/mounts_allowed.h"

enum options_action { OPTIONS_RUN, OPTIONS_HELP, OPTIONS_VERSION };

struct options {
	const char *state_dir, *run_dir;            /* absolute */
	const char *runtime;                        /* NULL: crun, else runc */
	const char *cgroup;                         /* NULL: none was delegated */
	const char *allow_bind[MOUNTS_ALLOWED_MAX]; /* DIR[:ro] */
	unsigned allow_bind_count;
	char init_path[PATH_MAX];
	uid_t daemon_uid;
	gid_t daemon_gid;
	int ready_fd;
	uint64_t idle_ms;
	enum log_level log_level;
};

int options_parse(int argc, char **argv, struct options *ret, enum options_action *ret_action,
		  struct err *err);
void options_print_help(FILE *out);

#endif
