/* How many connections there is room for in the files that berthd may have open. */
#ifndef BERTH_CMD_BERTHD_FILE_LIMIT_H
#define BERTH_CMD_BERTHD_FILE_LIMIT_H

#include <stdbool.h>

#include "base/err.h"
#include "daemon/server.h"

/*
 * Raises RLIMIT_NOFILE as far as it goes and lowers the limits to one of `shares` equal parts of
 * it. `is_asked`: somebody wants exactly so many, and is told. -EMFILE: there is too little room.
 */
int file_limit_fit(struct server_limits *limits, unsigned shares, bool is_asked, struct err *err);

#endif
