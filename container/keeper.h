/*
 * The keeper: does for berthd what needs privileges (proto/keeper.h), one thread, one loop. It runs
 * as the monitor's child and may be killed at any time: what it must not forget is on disk below
 * <run>/<id> (container/container.h) or with the monitor (container/monitor_link.h).
 */
#ifndef BERTH_CONTAINER_KEEPER_H
#define BERTH_CONTAINER_KEEPER_H

#include <stdint.h>

#include "base/err.h"
#include "container/host.h"

struct keeper_config {
	struct container_host_config host;
	const char *warning; /* what the caller could not set up, a sentence or "" */
	uint64_t idle_ms;    /* ends after so long without a berthd and without a sandbox */
	/* keeper.sock serves. */
	void (*on_ready)(void *arg);
	void *arg;
};

/* Until there is nothing left to keep, or SIGTERM: 0. */
int keeper_run(const struct keeper_config *config, int link_fd, struct err *err);

#endif
