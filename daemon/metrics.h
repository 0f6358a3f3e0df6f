/*
 * Figures as text that Prometheus reads (its format 0.0.4): families, each with its samples behind
 * it.
 *
 *	metrics_family(m, "berth_connections", METRIC_GAUGE, "Connections that are open.");
 *	metrics_sample(m, 3, "server=\"%s\"", "api");
 */
#ifndef BERTH_DAEMON_METRICS_H
#define BERTH_DAEMON_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

#define METRICS_TYPE      "text/plain; version=0.0.4; charset=utf-8"
#define METRICS_MAX       (4 * 1024 * 1024) /* of text */
#define METRICS_PORTS_MAX 1000              /* that are told one by one */
#define METRICS_USAGE_MAX 1000              /* the same of sandboxes */

struct registry;

enum metric_type { METRIC_COUNTER, METRIC_GAUGE };

struct metrics {
	struct buf text;
	const char *family;
	bool is_cut; /* something did not fit, or there was no memory */
};

void metrics_init(struct metrics *m);
void metrics_close(struct metrics *m);

/* `name` stays the caller's. `help`: one line without a backslash. */
void metrics_family(struct metrics *m, const char *name, enum metric_type type, const char *help);
/*
 * Of that family. `labels`: name="value" with commas between them, or "". What comes from outside
 * must hold neither quotes nor backslashes nor line breaks; IDs do not.
 */
__attribute__((format(printf, 3, 4))) void metrics_sample(struct metrics *m, uint64_t value,
							  const char *labels, ...);

/* The same of a time, as seconds with three digits behind the point. */
__attribute__((format(printf, 3, 4))) void metrics_sample_ms(struct metrics *m, uint64_t ms,
							     const char *labels, ...);

/* metrics_port.c: what went through each exposed port; of those beyond METRICS_PORTS_MAX the sum,
 * with "*" for their labels. */
void metrics_ports(struct metrics *m, struct registry *registry);

/* metrics_usage.c: what each sandbox uses that has a container, as it was last measured; how many
 * there are beyond METRICS_USAGE_MAX. */
void metrics_usage(struct metrics *m, struct registry *registry);

#endif
