/*
 * Files and directories below a directory fd. Names are resolved beneath it and through no symlink,
 * so that whoever can write there (a sandbox's root in its own disk) cannot lead us elsewhere.
 */
#ifndef BERTH_CONTAINER_DIR_H
#define BERTH_CONTAINER_DIR_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/str.h"

/* openat2() with RESOLVE_BENEATH, NO_SYMLINKS and, unless `may_cross`, NO_XDEV. O_CLOEXEC is added.
 */
int dir_open_file(int dir, const char *path, int flags, mode_t mode);
int dir_open_here(int dir, const char *path);
int dir_open(int dir, const char *path);
/* As dir_open_here(), for who need not read it: O_PATH. */
int dir_find_here(int dir, const char *path);

/* Makes it if it is not there, gives it exactly this mode, opens it. */
int dir_make(int dir, const char *name, mode_t mode);

/* A small file as text with a NUL; its length, or -EFBIG. */
ssize_t dir_read(int dir, const char *path, char *text, size_t size);
/* A number alone in its file. */
int dir_read_number(int dir, const char *path, uint64_t *ret);

/* Into a file that is there (a cgroup's, one in /proc). */
int dir_write(int dir, const char *path, const char *text);
int dir_write_number(int dir, const char *path, uint64_t number);

/* A whole file, by a temporary one and rename(). */
int dir_replace(int dir, const char *name, struct str bytes, mode_t mode);

int dir_write_all(int fd, struct str bytes);

/* The value behind "key " in lines of "key value". -ENOENT if there is no such line. */
int dir_read_key(int dir, const char *path, const char *key, uint64_t *ret);

#endif
