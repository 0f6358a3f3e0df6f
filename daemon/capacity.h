/*
 * How much of the machine sandboxes may have: how many exist, how many have a container, and how
 * much memory stays free. Whoever is about to start asks here first.
 *
 *	cold ──capacity_admit()──> there is room: it starts
 *	          │
 *	          ├──> a frozen one that nobody needs gives way: it waits until that one is stopped
 *	          └──> nobody can: ERR_CAPACITY_EXCEEDED, at once
 *
 * Of those that are frozen, the one that was not used for the longest time goes first. No more are
 * stopped than there are starts that wait. While memory is short, frozen ones are stopped too, one
 * after the other. Belongs to the registry.
 */
#ifndef BERTH_DAEMON_CAPACITY_H
#define BERTH_DAEMON_CAPACITY_H

#include <stdint.h>

#include "base/err.h"
#include "daemon/sandbox.h"
#include "proto/json.h"

struct capacity;
struct registry;

struct capacity_limits {
	unsigned sandboxes, running; /* 0: any number */
	uint64_t memory_floor;       /* in bytes; 0: none */
};

/* A twentieth of the memory there is, but not more than half a gibibyte. */
uint64_t capacity_floor_default(uint64_t memory_bytes);

/* NULL without memory. */
struct capacity *capacity_new(struct registry *registry, const struct capacity_limits *limits);
/* Nobody is started or stopped any more. */
void capacity_stop(struct capacity *capacity);
void capacity_free(struct capacity *capacity);
/* They hold for what starts from now on. */
void capacity_set(struct capacity *capacity, const struct capacity_limits *limits);

/* Whether one more may exist. */
int capacity_check_new(const struct capacity *capacity, struct err *err);
/* Whether one may start that nobody waits for. */
bool capacity_has_spare(const struct capacity *capacity);
/*
 * A cold one wants to start. 1: it may; 0: sandbox_room() follows; negative: it cannot.
 */
int capacity_admit(struct sandbox *sb, struct err *err);
/* It has left this state for the one that it has now. */
void capacity_moved(struct sandbox *sb, enum sandbox_state from);
/* One that was about to give way is needed after all. */
void capacity_reclaimed(struct sandbox *sb);

/* As an object: the limits, and how much of them is used. */
void capacity_write(const struct capacity *capacity, struct json_writer *w);

#endif
