/*
 * What has happened since berthd came, for GET /metrics. The registry has one; whoever does
 * something counts it, on the loop.
 */
#ifndef BERTH_DAEMON_COUNTS_H
#define BERTH_DAEMON_COUNTS_H

#include <stddef.h>
#include <stdint.h>

#include "proto/event_type.h"
#include "proto/run_record.h"

struct counts {
	uint64_t events[EVENT_TYPE_COUNT]; /* also those that could not be stored */
	uint64_t oom_kills;                /* that were seen */
	uint64_t runs[RUN_STATUS_COUNT];   /* that are over, by how they ended */
	uint64_t execs;                    /* that init was asked for; file workers too */
	/* And what is now: held of reports of kernels that have no end yet. */
	size_t unread_bytes;
};

#endif
