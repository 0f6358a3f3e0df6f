/*
 * Starts berthd as a daemon: a session of its own, nothing of ours inherited, standard error into
 * the log. Returns when it printed the line that begins with "ready", or with its last words: the
 * line that begins with "failed", else the last of the log.
 */
#ifndef BERTH_CMD_LAUNCH_H
#define BERTH_CMD_LAUNCH_H

#include <sys/types.h>

#include "base/err.h"

#define LAUNCH_LINE_MAX 1024

struct launched {
	pid_t pid;
	char line[LAUNCH_LINE_MAX]; /* "ready ..." */
};

/*
 * argv[0] is only a name: berthd is looked for beside this program, then on PATH. -EINTR when we
 * were told to end meanwhile; berthd has then been ended too. -EDESTADDRREQ: it did not like its
 * flags or its configuration.
 */
int launch(char *const argv[], const char *log, struct launched *ret, struct err *err);

#endif
