#include "cmd/berth/top_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "proto/json.h"

#define CELL_MAX   32
#define STATES_MAX 8

void top_table_close(struct top_table *table)
{
	free(table->rows);
	*table = (struct top_table){NULL, 0, 0};
}

int top_table_add(struct top_table *table, const struct top_row *row)
{
	if (table->len == table->size) {
		size_t size = table->size ? 2 * table->size : 64;
		struct top_row *rows = reallocarray(table->rows, size, sizeof(*rows));

		if (!rows)
			return -ENOMEM;
		table->rows = rows;
		table->size = size;
	}
	table->rows[table->len++] = *row;
	return 0;
}

int top_order_parse(struct str word, enum top_order *ret)
{
	static const char *const words[] = {
		[TOP_BY_CPU] = "cpu",
		[TOP_BY_MEMORY] = "mem",
		[TOP_BY_PIDS] = "pids",
		[TOP_BY_ID] = "id",
	};

	for (size_t i = 0; i < array_len(words); i++) {
		if (str_eq(word, str_of(words[i]))) {
			*ret = (enum top_order)i;
			return 0;
		}
	}
	return -EINVAL;
}

/* --- comparing --- */

static int by_id(const void *a, const void *b)
{
	const struct top_row *x = a, *y = b;

	return strcmp(x->id, y->id);
}

static int64_t tenths_between(const struct top_row *before, const struct top_row *row)
{
	int64_t ms = row->at_ms - before->at_ms;

	if (!before->at_ms || !row->at_ms || before->generation != row->generation ||
	    before->cpu_ms < 0 || row->cpu_ms < 0)
		return -1;
	if (ms <= 0)
		return before->cpu_tenths; /* it was not measured anew, or a clock was set */
	/* Where init counts, what it misses for a moment makes the sum fall. */
	return row->cpu_ms > before->cpu_ms ? (row->cpu_ms - before->cpu_ms) * 1000 / ms : 0;
}

void top_table_compare(struct top_table *table, const struct top_table *before)
{
	for (size_t i = 0; i < table->len; i++) {
		struct top_row *row = &table->rows[i];
		const struct top_row *same =
			before->len ? bsearch(row, before->rows, before->len, sizeof(*row), by_id)
				    : NULL;

		row->cpu_tenths = same ? tenths_between(same, row) : -1;
	}
}

static int descending(int64_t a, int64_t b)
{
	return (a < b) - (a > b);
}

static int by_cpu(const void *a, const void *b)
{
	const struct top_row *x = a, *y = b;
	int order = descending(x->cpu_tenths, y->cpu_tenths);

	return order ? order : by_id(a, b);
}

static int by_memory(const void *a, const void *b)
{
	const struct top_row *x = a, *y = b;
	int order = descending(x->memory, y->memory);

	return order ? order : by_id(a, b);
}

static int by_pids(const void *a, const void *b)
{
	const struct top_row *x = a, *y = b;
	int order = descending(x->pids, y->pids);

	return order ? order : by_id(a, b);
}

void top_table_sort(struct top_table *table, enum top_order order)
{
	static int (*const ways[])(const void *a, const void *b) = {
		[TOP_BY_CPU] = by_cpu,
		[TOP_BY_MEMORY] = by_memory,
		[TOP_BY_PIDS] = by_pids,
		[TOP_BY_ID] = by_id,
	};

	if (table->len)
		qsort(table->rows, table->len, sizeof(*table->rows), ways[order]);
}

/* --- text --- */

struct cell {
	char text[CELL_MAX];
};

static struct cell cell_number(int64_t n)
{
	struct cell ret = {"-"};

	if (n >= 0)
		snprintf(ret.text, sizeof(ret.text), "%" PRId64, n);
	return ret;
}

static struct cell cell_percent(int64_t tenths)
{
	struct cell ret = {"-"};

	if (tenths >= 0)
		snprintf(ret.text, sizeof(ret.text), "%" PRId64 ".%" PRId64, tenths / 10,
			 tenths % 10);
	return ret;
}

/* "61.3M" */
static struct cell cell_size(int64_t bytes)
{
	static const char units[] = "BKMGTPE";
	double value = (double)bytes;
	struct cell ret = {"-"};
	size_t unit = 0;

	if (bytes < 0)
		return ret;
	while (value >= 1024 && units[unit + 1]) {
		value /= 1024;
		unit++;
	}
	if (value == (double)(int64_t)value || value >= 100)
		snprintf(ret.text, sizeof(ret.text), "%.0f%c", value, units[unit]);
	else
		snprintf(ret.text, sizeof(ret.text), "%.1f%c", value, units[unit]);
	return ret;
}

static struct cell cell_memory(const struct top_row *row)
{
	struct cell used = cell_size(row->memory), limit = cell_size(row->memory_limit);

	if (row->memory >= 0 && row->memory_limit > 0)
		snprintf(used.text + strlen(used.text), sizeof(used.text) - strlen(used.text),
			 "/%.10s", limit.text);
	return used;
}

static int width(int least, const char *text)
{
	int len = (int)strlen(text);

	return len > least ? len : least;
}

int top_table_print(const struct top_table *table, struct buf *out)
{
	int ids = 2, activities = 8, r;

	for (size_t i = 0; i < table->len; i++) {
		ids = width(ids, table->rows[i].id);
		activities = width(activities, table->rows[i].activity);
	}
	r = buf_printf(out, "%-*s  %-10s  %-*s  %6s  %13s  %7s  %5s\n", ids, "ID", "STATE",
		       activities, "ACTIVITY", "CPU%", "MEM/LIMIT", "DISK", "PIDS");
	for (size_t i = 0; r >= 0 && i < table->len; i++) {
		const struct top_row *row = &table->rows[i];

		r = buf_printf(out, "%-*s  %-10s  %-*s  %6s  %13s  %7s  %5s\n", ids, row->id,
			       row->state, activities, row->activity,
			       cell_percent(row->cpu_tenths).text, cell_memory(row).text,
			       cell_size(row->disk).text, cell_number(row->pids).text);
	}
	return r < 0 ? r : 0;
}

int top_table_sum(const struct top_table *table, struct buf *out)
{
	struct {
		const char *state;
		unsigned count;
	} sums[STATES_MAX] = {{NULL, 0}};
	int r = buf_printf(out, "%zu sandbox%s", table->len, table->len == 1 ? "" : "es");

	for (size_t i = 0; i < table->len; i++) {
		size_t n = 0;

		while (n + 1 < STATES_MAX && sums[n].state &&
		       strcmp(sums[n].state, table->rows[i].state) != 0)
			n++;
		sums[n].state = table->rows[i].state;
		sums[n].count++;
	}
	for (size_t n = 0; r >= 0 && n < STATES_MAX && sums[n].state; n++)
		r = buf_printf(out, "%s%u %s", n ? ", " : ": ", sums[n].count, sums[n].state);
	return r < 0 ? r : 0;
}

/* --- JSON --- */

static void write_figure(struct json_writer *w, const char *key, int64_t value)
{
	json_key(w, key);
	if (value < 0)
		json_null(w);
	else
		json_int(w, value);
}

static void write_row(struct json_writer *w, const struct top_row *row)
{
	json_object(w);
	json_key(w, "id");
	json_text(w, row->id);
	json_key(w, "state");
	json_text(w, row->state);
	json_key(w, "activity");
	json_text(w, row->activity);
	json_key(w, "generation");
	json_int(w, (int64_t)row->generation);
	json_key(w, "cpu_percent");
	if (row->cpu_tenths < 0)
		json_null(w);
	else
		json_double(w, (double)row->cpu_tenths / 10);
	write_figure(w, "cpu_ms", row->cpu_ms);
	write_figure(w, "memory_bytes", row->memory);
	write_figure(w, "memory_limit_bytes", row->memory_limit);
	write_figure(w, "disk_bytes", row->disk);
	write_figure(w, "pids", row->pids);
	json_object_end(w);
}

int top_table_json(const struct top_table *table, struct buf *out)
{
	cleanup(json_writer_close) struct json_writer w;
	int r;

	json_writer_init(&w, false);
	json_object(&w);
	json_key(&w, "sandboxes");
	json_array(&w);
	for (size_t i = 0; i < table->len; i++)
		write_row(&w, &table->rows[i]);
	json_array_end(&w);
	json_object_end(&w);
	r = json_writer_end(&w, out);
	return r < 0 ? r : buf_append(out, "\n", 1);
}

/* --- the screen --- */

int top_paint(struct str text, unsigned cols, unsigned rows, struct buf *out)
{
	int r = buf_printf(out, "\x1b[H");

	for (unsigned i = 0; r >= 0 && i < rows && text.len; i++) {
		struct str line = str_cut(&text, '\n');

		/* In the last column a terminal waits with the cursor, and would erase it. */
		if (line.len > cols - 1)
			line.len = cols - 1;
		r = buf_printf(out, "%s%.*s\x1b[K", i ? "\r\n" : "", STR_ARGS(line));
	}
	if (r >= 0)
		r = buf_printf(out, "\x1b[J");
	return r < 0 ? r : 0;
}
