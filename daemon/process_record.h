/* The durable record of a process, and how it looks to those who ask. */
#ifndef BERTH_DAEMON_PROCESS_RECORD_H
#define BERTH_DAEMON_PROCESS_RECORD_H

#include "daemon/process.h"

/* What it will be called; refused if the sandbox has too many of those that start with it. */
int process_record_name(struct sandbox *sb, const struct process_request *request,
			struct sandbox_id *ret, struct err *err);

/* What a request says of it. -ENOMEM. */
int process_record_describe(struct process *p, const struct process_request *request);
int process_record_restore(struct process *p, const struct process_fact *fact);

/*
 * Stores it as it is now; `done` is called with the process, which it must release. Not called when
 * berthd is stopping: then nobody is told, and the next one finds out. Nor after -EBUSY or -ENOMEM.
 */
int process_record_save(struct process *p, store_done_fn *done);

/* Of those that have ended only so many are kept: those that ended first go, by `drop`. */
void process_record_prune(struct sandbox *sb, int (*drop)(struct process *p));

#endif
