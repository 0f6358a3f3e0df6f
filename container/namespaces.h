/* Mount namespaces: one that monitor and keeper share, and one of each keeper's own in it. */
#ifndef BERTH_CONTAINER_NAMESPACES_H
#define BERTH_CONTAINER_NAMESPACES_H

#include <stdbool.h>

#include "base/err.h"

/*
 * Enters a new one: what the host mounts arrives in it, what we mount does not leave it. Where the
 * host has cgroups of both versions, the v2 mount is hidden in it, because crun works with either
 * but not with both. `ret_cgroup2_fd` is its directory, opened before; -1 where there is none.
 * Root's devices that sandboxes share are read-only in it, so that none of them can be given away.
 */
int namespaces_enter_mounts(bool is_rootless, int *ret_cgroup2_fd, struct err *err);

/*
 * A copy of it for one keeper: what that has mounted goes when it is killed, and the next one finds
 * every place bare.
 */
int namespaces_copy_mounts(struct err *err);

#endif
