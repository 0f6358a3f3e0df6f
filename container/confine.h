/*
 * What the keeper gives up for good, once its namespaces stand: every capability that neither it
 * nor the runtime, its child, makes use of. The bounding set is what the runtime has, being root.
 *
 *	SYS_ADMIN                           mounts, quotas, namespaces
 *	CHOWN DAC_OVERRIDE FOWNER FSETID    disks and bundles, which belong to ids of sandboxes
 *	SETUID SETGID SETFCAP               maps of ids, also those that have 0 in them
 *	SETPCAP                             less of all this for sandboxes
 *	KILL                                processes of other ids
 *	SYS_RESOURCE                        limits, and oom_score_adj
 *	NET_ADMIN                           rules for devices on cgroup v2, which are BPF programs
 *	NET_BIND_SERVICE                    only so that sandboxes can have it (caps.h)
 *
 * In a user namespace that it makes, the runtime begins with a full set anew: what it does there,
 * such as changing the root, needs nothing of this.
 *
 * Gone are modules, raw I/O, the clock, devices (MKNOD), tracing, packets, audit, the log,
 * reboot and the rest.
 */
#ifndef BERTH_CONTAINER_CONFINE_H
#define BERTH_CONTAINER_CONFINE_H

#include "base/err.h"

/* Also sets no_new_privs: newuidmap, the last program that gains any, has run by then. */
int confine_keeper(struct err *err);

#endif
