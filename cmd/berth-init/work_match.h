/* What a pack leaves out, and a watch tells of. */
#ifndef BERTH_INIT_WORK_MATCH_H
#define BERTH_INIT_WORK_MATCH_H

#include <stdbool.h>

#include "base/str.h"

/*
 * `patterns` is a frame list. A pattern without a slash matches a name anywhere, one with a slash
 * in it the whole path from the root of the tree; a slash at its end: directories only. `*` and `?`
 * stand for anything but a slash, `**` for anything, `[a-z]` and `[!a-z]` for one byte, and a
 * backslash takes the next byte as it is.
 */
bool match_any(struct str patterns, const char *path, bool is_directory);

#endif
