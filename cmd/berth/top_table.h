/*
 * What `berth top` shows: a row for each sandbox, in the order that was asked for. How much of a
 * processor one uses is told by two tables, an earlier and a later one.
 */
#ifndef BERTH_CMD_TOP_TABLE_H
#define BERTH_CMD_TOP_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

enum top_order { TOP_BY_CPU, TOP_BY_MEMORY, TOP_BY_PIDS, TOP_BY_ID };

/* Each negative: not known. */
struct top_row {
	char id[64], state[16], activity[40];
	uint64_t generation;
	int64_t at_ms; /* when it was measured; 0: it was not */
	int64_t cpu_ms, memory, memory_limit, disk, pids;
	int64_t cpu_tenths; /* of a percent of one processor */
};

struct top_table {
	struct top_row *rows; /* by ID, as they were added */
	size_t len, size;
};

void top_table_close(struct top_table *table);
/* They come in the order of their IDs. -ENOMEM */
int top_table_add(struct top_table *table, const struct top_row *row);

/* "cpu", "mem", "pids", "id"; -EINVAL */
int top_order_parse(struct str word, enum top_order *ret);

/* What each has used of a processor since the earlier table; that of another start does not count.
 */
void top_table_compare(struct top_table *table, const struct top_table *before);
/* Only now its rows are not by ID any more: compare first. */
void top_table_sort(struct top_table *table, enum top_order order);

/* Lines of text, each with its end: a heading, then the rows. */
int top_table_print(const struct top_table *table, struct buf *out);
/* "12 sandboxes: 3 running, 9 cold" */
int top_table_sum(const struct top_table *table, struct buf *out);
/* {"sandboxes": [...]} in one line */
int top_table_json(const struct top_table *table, struct buf *out);

/*
 * The text on a screen of that size, from its upper left corner on: lines and columns that do not
 * fit are left out, and whatever was there is overwritten.
 */
int top_paint(struct str text, unsigned cols, unsigned rows, struct buf *out);

#endif
