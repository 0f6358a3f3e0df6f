/* The journal of a process's output: while it runs, its end is stored, or somebody reads. */
#ifndef BERTH_DAEMON_PROCESS_OUTPUT_H
#define BERTH_DAEMON_PROCESS_OUTPUT_H

#include "daemon/process.h"

int process_output_open(struct process *p, struct err *err);
/* If nobody needs it any more. */
void process_output_close(struct process *p);
/* For exec_ops: `arg` is the process. */
ssize_t process_output_pull(void *arg, enum exec_stream stream, int fd);

#endif
