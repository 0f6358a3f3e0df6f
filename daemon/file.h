/* Small files that berthd is told to read. Sentences do not name the path: the caller knows why. */
#ifndef BERTH_DAEMON_FILE_H
#define BERTH_DAEMON_FILE_H

#include <stddef.h>
#include <sys/stat.h>

#include "base/err.h"

/* A regular file only, so that nothing can keep us waiting. 0, `ret_fd` and its `ret_stat`. */
int file_open(const char *path, int *ret_fd, struct stat *ret_stat, struct err *err);

/* All of it into `bytes`; -EFBIG when it does not fit with one byte to spare. */
int file_read(int fd, char *bytes, size_t size, size_t *ret_len, struct err *err);

#endif
