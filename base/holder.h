/*
 * Who uses a state directory. berthd locks `<state>/berthd/lock` for as long as it lives and writes
 * two lines into it: its pid, and the socket that it serves on. So it can be found also by somebody
 * who looks for another socket, or after its socket has been removed.
 */
#ifndef BERTH_BASE_HOLDER_H
#define BERTH_BASE_HOLDER_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

struct holder {
	pid_t pid;             /* 0: not written (yet) */
	char socket[PATH_MAX]; /* "": not written */
};

#define HOLDER_TEXT_MAX (PATH_MAX + 32)

/* What is written in the lock file, whether or not it is locked. */
void holder_read(int fd, struct holder *ret);

/* False when nobody holds the lock, or when we may not look. */
bool holder_find(const char *state_dir, struct holder *ret);

#endif
