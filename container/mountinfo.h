/* /proc/<pid>/mountinfo: the mounts of a namespace, one a line. */
#ifndef BERTH_CONTAINER_MOUNTINFO_H
#define BERTH_CONTAINER_MOUNTINFO_H

#include "base/buf.h"

#define MOUNTINFO_MAX (4 * 1024 * 1024)

/* The whole file, into a buffer of MOUNTINFO_MAX. -EFBIG, or why it cannot be read. */
int mountinfo_read(const char *path, struct buf *buf);

#endif
