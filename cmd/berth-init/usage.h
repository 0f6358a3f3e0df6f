/* The processor time of processes, as proc counts it: in ticks. */
#ifndef BERTH_INIT_USAGE_H
#define BERTH_INIT_USAGE_H

#include <stdint.h>

/* Of a text of /proc/<pid>/stat: what the process used itself, and all those that it waited for. */
void usage_parse(const char *text, uint64_t *ret_user_us, uint64_t *ret_system_us);

/*
 * Of all that runs or ever ran under init, in microseconds; init's own work is left out, or asking
 * would be something to hear of. Whoever is reaped while this looks may be missed, or seen twice,
 * until it is asked again. Children of one that ignores SIGCHLD are gone with all they used: the
 * sum can fall.
 */
uint64_t usage_read(int proc_fd);

#endif
