#include "cmd/berth/top_table.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "tests/unit/tap.h"

static struct top_row row_of(const char *id, int64_t at_ms, int64_t cpu_ms)
{
	struct top_row row = {.state = "running",
			      .activity = "awake",
			      .generation = 1,
			      .at_ms = at_ms,
			      .cpu_ms = cpu_ms,
			      .memory = -1,
			      .memory_limit = -1,
			      .disk = -1,
			      .pids = -1,
			      .cpu_tenths = -1};

	snprintf(row.id, sizeof(row.id), "%s", id);
	return row;
}

static void add(struct top_table *table, struct top_row row)
{
	check(top_table_add(table, &row) == 0);
}

static void test_compare(void)
{
	cleanup(top_table_close) struct top_table before = {NULL, 0, 0}, now = {NULL, 0, 0};
	static const int64_t expected[] = {500, 1333, -1, 0, 77, -1, -1, -1};
	struct top_row row = row_of("e", 9000, 5);

	add(&before, row_of("a", 1000, 100));
	add(&before, row_of("b", 1000, 0));
	add(&before, row_of("c", 1000, 7));
	add(&before, row_of("d", 1000, 100));
	row.cpu_tenths = 77;
	add(&before, row);
	add(&before, row_of("f", 0, -1));
	add(&before, row_of("g", 1000, -1));

	add(&now, row_of("a", 3000, 1100)); /* half of one */
	add(&now, row_of("b", 4000, 4000)); /* one and a third */
	row = row_of("c", 2000, 500);
	row.generation = 2;
	add(&now, row);
	add(&now, row_of("d", 2000, 50)); /* its sum has fallen */
	add(&now, row_of("e", 9000, 5));  /* nobody has looked again */
	add(&now, row_of("f", 2000, 50));
	add(&now, row_of("g", 2000, 50));
	add(&now, row_of("new", 2000, 50));
	top_table_compare(&now, &before);
	for (size_t i = 0; i < array_len(expected); i++)
		check(now.rows[i].cpu_tenths == expected[i]);
	top_table_close(&before);
	top_table_compare(&now, &before);
	check(now.rows[0].cpu_tenths == -1);
	tap_ok("what is used of a processor");
}

static void is_order(struct top_table *table, enum top_order order, const char *ids)
{
	top_table_sort(table, order);
	for (size_t i = 0; i < table->len; i++)
		check(table->rows[i].id[0] == ids[i]);
}

static void test_sort(void)
{
	cleanup(top_table_close) struct top_table table = {NULL, 0, 0};
	enum top_order order;

	for (int i = 0; i < 200; i++) {
		char id[] = {(char)('a' + i % 4), '\0'};
		struct top_row row = row_of(id, 0, 0);

		row.cpu_tenths = (const int64_t[]){-1, 5, 0, 5}[i % 4];
		row.memory = (const int64_t[]){1, 2, 3, -1}[i % 4];
		row.pids = 4;
		if (i < 4)
			add(&table, row);
	}
	top_table_sort(&(struct top_table){NULL, 0, 0}, TOP_BY_CPU);
	is_order(&table, TOP_BY_CPU, "bdca");
	is_order(&table, TOP_BY_MEMORY, "cbad");
	is_order(&table, TOP_BY_PIDS, "abcd");
	is_order(&table, TOP_BY_ID, "abcd");
	check(top_order_parse(STR("mem"), &order) == 0 && order == TOP_BY_MEMORY);
	check(top_order_parse(STR("memory"), &order) == -EINVAL);
	check(top_order_parse(STR(""), &order) == -EINVAL);
	tap_ok("orders");
}

static bool is_text(struct buf *text, const char *expected)
{
	bool ret = buf_len(text) == strlen(expected) &&
		   memcmp(buf_at(text), expected, buf_len(text)) == 0;

	if (!ret)
		printf("# %.*s\n", (int)buf_len(text), buf_at(text));
	buf_consume(text, buf_len(text));
	return ret;
}

static void test_text(void)
{
	cleanup(top_table_close) struct top_table table = {NULL, 0, 0};
	struct top_row row = row_of("web-server", 0, 0);
	struct buf text;

	buf_init(&text, 1 << 20);
	check(top_table_sum(&table, &text) == 0 && is_text(&text, "0 sandboxes"));
	row.cpu_tenths = 1234;
	row.memory = 64297635;
	row.memory_limit = 512 << 20;
	row.disk = 999;
	row.pids = 12;
	add(&table, row);
	row = row_of("b", 0, 0);
	snprintf(row.state, sizeof(row.state), "cold");
	snprintf(row.activity, sizeof(row.activity), "sleeps in 4m");
	row.memory_limit = 1 << 30;
	row.disk = 0;
	add(&table, row);
	check(top_table_print(&table, &text) == 0);
	check(is_text(&text,
		      "ID          STATE       ACTIVITY        CPU%      MEM/LIMIT     DISK  "
		      " PIDS\n"
		      "web-server  running     awake          123.4     61.3M/512M     999B  "
		      "   12\n"
		      "b           cold        sleeps in 4m       -              -       0B  "
		      "    -\n"));
	check(top_table_sum(&table, &text) == 0);
	check(is_text(&text, "2 sandboxes: 1 running, 1 cold"));
	table.len = 1;
	check(top_table_json(&table, &text) == 0);
	check(is_text(&text, "{\"sandboxes\":[{\"id\":\"web-server\",\"state\":\"running\","
			     "\"activity\":\"awake\",\"generation\":1,\"cpu_percent\":123.4,"
			     "\"cpu_ms\":0,\"memory_bytes\":64297635,\"memory_limit_bytes\":"
			     "536870912,\"disk_bytes\":999,\"pids\":12}]}\n"));
	buf_close(&text);
	tap_ok("tables");
}

static void test_paint(void)
{
	struct buf out;

	buf_init(&out, 1 << 16);
	check(top_paint(STR("one\n\nthree\nfour\n"), 80, 24, &out) == 0);
	check(is_text(&out, "\x1b[Hone\x1b[K\r\n\x1b[K\r\nthree\x1b[K\r\nfour\x1b[K\x1b[J"));
	check(top_paint(STR("one\n\nthree\nfour\n"), 4, 3, &out) == 0);
	check(is_text(&out, "\x1b[Hone\x1b[K\r\n\x1b[K\r\nthr\x1b[K\x1b[J"));
	check(top_paint(STR("one\n"), 1, 1, &out) == 0);
	check(is_text(&out, "\x1b[H\x1b[K\x1b[J"));
	buf_close(&out);
	tap_ok("screens");
}

int main(void)
{
	test_compare();
	test_sort();
	test_text();
	test_paint();
	return tap_done();
}
