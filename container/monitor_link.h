/*
 * What the monitor and the keeper tell each other over their socket pair: records of one size.
 *
 *	monitor                          keeper
 *	EXIT per kept status  ──────>                       at its start, and whenever a child ends
 *	SYNCED                ──────>                       its start only: those were all
 *	                      <──────    READY              keeper.sock serves
 *	                      <──────    KEEP               the status belongs to this sandbox
 *	                      <──────    SEEN               nobody will ask for it again
 *
 * The monitor keeps what it has reaped until SEEN, so that a killed keeper loses no exit status.
 */
#ifndef BERTH_CONTAINER_MONITOR_LINK_H
#define BERTH_CONTAINER_MONITOR_LINK_H

#include <stdint.h>
#include <sys/types.h>

#include "proto/sandbox_id.h"

enum monitor_record_kind {
	MONITOR_EXIT = 1,
	MONITOR_SYNCED,
	MONITOR_READY,
	MONITOR_KEEP,
	MONITOR_SEEN,
};

/* One process is a pid and its start time. */
struct monitor_record {
	uint32_t kind;
	int32_t pid;
	uint64_t start;
	uint32_t status; /* as wait() gives it */
	uint32_t is_known;
	struct sandbox_id id; /* "" until KEEP has named it */
	uint64_t generation;
	uint64_t oom_kills;
};

/* Who made the pair, before it forked: the monitor, also when it has ended since. 0: unknown. */
pid_t monitor_link_pid(int fd);

/* 0, -EAGAIN when the peer must read first, or another negative errno. */
int monitor_link_send(int fd, const struct monitor_record *record);
/* 0, -EAGAIN, -EPIPE at the end, or -EBADMSG. */
int monitor_link_receive(int fd, struct monitor_record *ret);

#endif
