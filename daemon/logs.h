/*
 * Where the journals of all processes are: <state>/berthd/logs/<sandbox>/<process>/. What is
 * removed is out of the way at once, and deleted by and by on another thread.
 */
#ifndef BERTH_DAEMON_LOGS_H
#define BERTH_DAEMON_LOGS_H

#include <limits.h>

#include <uv.h>

#include "base/err.h"
#include "proto/sandbox_id.h"

struct logs;

/* Makes the directory, which is `dir`, if need be; what was not deleted in time goes now. */
int logs_open(struct logs **ret, uv_loop_t *loop, const char *dir, struct err *err);
/* What is being deleted keeps the loop until it is. */
void logs_close(struct logs *logs);

#define LOGS_PATH_SIZE PATH_MAX

/* The journal's path; with the sandbox's directory made, so that journal_open() can be called. */
int logs_make(struct logs *logs, const struct sandbox_id *sandbox, const struct sandbox_id *process,
	      char ret[LOGS_PATH_SIZE], struct err *err);
/* `process` NULL: all of the sandbox. */
void logs_remove(struct logs *logs, const struct sandbox_id *sandbox,
		 const struct sandbox_id *process);

#endif
