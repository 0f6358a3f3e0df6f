/* Directories that Berth makes for itself. */
#ifndef BERTH_BASE_DIRECTORY_H
#define BERTH_BASE_DIRECTORY_H

#include <sys/types.h>

#include "base/err.h"

/*
 * Makes the directory and those missing above it, all with `mode`. One that is there already keeps
 * its mode, but must be a directory that belongs to us or to root and that not everybody can write
 * to. The sentence names the part of the path that was in the way.
 */
int directory_make(const char *path, mode_t mode, struct err *err);

#endif
