/* Regular files, opened and replaced. */
#ifndef BERTH_INIT_WORK_FILE_H
#define BERTH_INIT_WORK_FILE_H

#include "cmd/berth-init/work_path.h"

/*
 * For reading; never waits. -EISDIR and -EOPNOTSUPP for what is no regular file, with its stat,
 * which stays as it was when nothing was found.
 */
int file_open(const char *path, struct stat *ret_st, int *ret_fd);

/* 1: of a file system whose sizes say nothing. */
int file_has_no_size(int fd);

/* 0: a regular file that the user may write; 1: nothing is there. */
int file_check_target(const struct place *place, struct stat *ret_st);

#endif
