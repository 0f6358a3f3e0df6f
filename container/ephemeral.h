/*
 * A disk in memory, for one life of a sandbox: a tmpfs that holds "upper" and "work" as any other
 * disk does. It is attached below <run> only while the overlay is made, which then holds it alone.
 */
#ifndef BERTH_CONTAINER_EPHEMERAL_H
#define BERTH_CONTAINER_EPHEMERAL_H

#include "container/container.h"
#include "container/host_state.h"

/* Its fd. `limits` are complete. Ends with ephemeral_detach(), whatever comes between. */
int ephemeral_attach(const struct container_host *host, const struct container_limits *limits,
		     struct err *err);
void ephemeral_detach(const struct container_host *host);

#endif
