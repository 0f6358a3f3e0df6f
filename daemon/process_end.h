/* The end of a process, for process.c: what is shared with it, and of nobody else's concern. */
#ifndef BERTH_DAEMON_PROCESS_END_H
#define BERTH_DAEMON_PROCESS_END_H

#include "daemon/process.h"

/* Stores that it runs, or how it ended; those who wait for that are told then. */
void process_save_run(struct process *p);
void process_save_end(struct process *p);

/* Its sandbox has ended: if somebody waits for the proof that nothing is left of it, here it is. */
void process_proven(struct process *p);

#endif
