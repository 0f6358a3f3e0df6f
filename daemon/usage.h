/*
 * What a sandbox uses. Processor time, memory and processes are measured by the keeper, which reads
 * its cgroup; where there is none, its init tells the processor time, and the rest is not known.
 * Its disk is counted by a walk over all its files, in a child of the keeper.
 *
 * Neither wakes a sandbox, nor keeps one awake. Each is under way once at most for a sandbox: who
 * asks meanwhile shares it.
 */
#ifndef BERTH_DAEMON_USAGE_H
#define BERTH_DAEMON_USAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "daemon/keeper.h"
#include "proto/json.h"

#define USAGE_WAIT_MS  1000 /* for a measure; who waits then gets what was known before */
#define USAGE_FRESH_MS 100  /* for so long a measure is as good as another */
#define USAGE_DISK_MS  1000 /* the same of a count */

struct measuring;
struct sandbox;

/* Each negative: not known. */
struct usage_figures {
	int64_t at_ms; /* by the wall's clock; 0: it was never measured */
	uint64_t generation;
	int64_t cpu_us, memory_bytes, memory_peak_bytes, pids, oom_kills;
	int64_t held_bytes, limit_bytes; /* of memory; a limit that is none is not known */
};

struct usage_disk {
	int64_t at_ms; /* 0: it was never counted */
	uint64_t took_ms;
	int64_t bytes, files;
};

/* In the sandbox. */
struct usage {
	struct usage_figures figures;
	struct usage_disk disk;
	uint64_t rx_bytes, tx_bytes; /* to and from its ports, since berthd came */
	uint64_t measured_ms;        /* by the loop's clock, as the next two */
	uint64_t count_began_ms, counted_ms;
	struct measuring *measuring; /* NULL: none is under way */
	struct keeper_call count;
	bool is_counting;
	struct list count_waits;
};

struct usage_wait {
	struct list link;
	/* Called once, never before the call that made it wait returns. err: NULL, or why its disk
	 * could not be counted. The sandbox may be about to be freed. */
	void (*done)(struct usage_wait *wait, const struct err *err);
};

void usage_init(struct sandbox *sb);
/* Who waits is told. */
void usage_close(struct sandbox *sb);

/* 1: there is nothing to wait for; 0: `wait` is called. */
int usage_measure(struct sandbox *sb, struct usage_wait *wait);
int usage_count_disk(struct sandbox *sb, struct usage_wait *wait);
void usage_cancel(struct usage_wait *wait);

/* Its figures, as far as they are of the container that it has now; NULL: none are. */
const struct usage_figures *usage_figures(const struct sandbox *sb);

/* Its processor time, read from its cgroup now; negative: that cannot be done here. */
int usage_read_cpu(const struct sandbox *sb, uint64_t *ret_us);

/* As "usage". */
void usage_write(const struct sandbox *sb, struct json_writer *w);

/* For the sandbox: its init has told its processor time. */
void usage_told(struct sandbox *sb, uint64_t cpu_us);

#endif
