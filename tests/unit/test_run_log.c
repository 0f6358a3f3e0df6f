#include "daemon/run_log.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "tests/unit/tap.h"

static char *text_of(struct run_log *log)
{
	struct buf out;
	char *text;

	buf_init(&out, RUN_LOG_MAX + 3);
	check(run_log_write(log, &out) == 0);
	check(buf_append(&out, "", 1) == 0);
	text = strdup(buf_at(&out));
	buf_close(&out);
	return text;
}

static void check_log(struct run_log *log, const char *expected)
{
	char *text = text_of(log);

	check_str(text, expected);
	free(text);
}

static void test_lines(void)
{
	struct run_log *log = run_log_new();

	check_log(log, "[]");
	run_log_add(log, STR("warn"), STR("a\nb"), 1000);
	run_log_output(log, false, STR("one\r\ntw"), 1000);
	run_log_output(log, true, STR("\xff!\n"), 1000);
	run_log_output(log, false, STR("o"), 1000);
	run_log_flush(log, 1000);
	check_log(log, "[{\"level\":\"warn\",\"message\":\"a\\nb\",\"timestamp\":"
		       "\"1970-01-01T00:00:01.000Z\"},{\"level\":\"stdout\",\"message\":\"one\","
		       "\"timestamp\":\"1970-01-01T00:00:01.000Z\"},{\"level\":\"stderr\","
		       "\"message\":\"\xef\xbf\xbd!\",\"timestamp\":\"1970-01-01T00:00:01.000Z\"},"
		       "{\"level\":\"stdout\",\"message\":\"two\",\"timestamp\":"
		       "\"1970-01-01T00:00:01.000Z\"}]");
	run_log_release(log);
	tap_ok("messages and lines, in order");
}

/* A line that is cut is cut between two characters. */
static void test_long(void)
{
	static char line[2 * RUN_LINE_MAX];
	struct run_log *log = run_log_new();
	char *text;

	line[0] = 'x';
	for (size_t i = 1; i + 1 < sizeof(line); i += 2)
		memcpy(line + i, "\xc3\xa9", 2);
	line[sizeof(line) - 1] = '\n';
	run_log_output(log, false, (struct str){line, sizeof(line)}, 1000);
	text = text_of(log);
	check(!strstr(text, "\xef\xbf\xbd") && !log->dropped);
	free(text);
	run_log_release(log);
	tap_ok("long lines");
}

static void test_bound(void)
{
	struct run_log *log = run_log_new();
	char *text;

	for (int i = 0; i < 100000; i++)
		run_log_output(log, false, STR("0123456789\n"), 1000);
	check(log->dropped > 80000 && log->dropped < 99000);
	text = text_of(log);
	check(strlen(text) <= RUN_LOG_MAX + 2 && text[strlen(text) - 2] == '}');
	free(text);
	run_log_release(log);
	tap_ok("what is beyond the bound is counted");
}

/* Whoever prints nothing but ends of lines costs little once it is full, and all are counted. */
static void test_full(void)
{
	static char lines[64 * 1024];
	struct run_log *log = run_log_new();
	struct run_log_reader reader = {0};
	struct str entry;
	uint64_t dropped;
	clock_t start;

	memset(lines, '\n', sizeof(lines));
	run_log_output(log, false, (struct str){lines, sizeof(lines)}, 1000);
	while (run_log_read(log, &reader, &entry))
		;
	check(log->dropped && log->dropped + reader.cursor == sizeof(lines));
	dropped = log->dropped;
	start = clock();
	for (int i = 0; i < 256; i++)
		run_log_output(log, i & 1, (struct str){lines, sizeof(lines)}, 1000);
	check(clock() - start < CLOCKS_PER_SEC);
	check(log->dropped == dropped + 256 * sizeof(lines));
	run_log_output(log, false, STR("a\nb"), 1000);
	run_log_output(log, false, STR("c"), 1000);
	run_log_output(log, true, STR("d"), 1000);
	run_log_output(log, true, STR("\n"), 1000);
	run_log_flush(log, 1000);
	run_log_add(log, STR("info"), STR("e"), 1000);
	check(log->dropped == dropped + 256 * sizeof(lines) + 4);
	run_log_release(log);
	tap_ok("lines beyond the bound are counted at little cost");
}

static void check_next(const struct run_log *log, struct run_log_reader *reader,
		       const char *message)
{
	struct str entry;

	check(run_log_read(log, reader, &entry));
	check(entry.at[0] == '{' && entry.at[entry.len - 1] == '}');
	check(memmem(entry.at, entry.len, message, strlen(message)));
	check(!memmem(entry.at + 1, entry.len - 1, "{\"level", 7));
}

/* Messages that look like the seam between two; one reader that keeps up, one that comes later. */
static void test_reader(void)
{
	struct run_log *log = run_log_new(), *kept;
	struct run_log_reader early = {0}, late;
	struct str entry;
	char *text;

	check(!run_log_read(log, &early, &entry) && run_log_seek(log, &late, 0) == 0);
	run_log_add(log, STR("info"), STR("one\"},{\"level\":\"x"), 1000);
	check_next(log, &early, "one");
	check(!run_log_read(log, &early, &entry) && early.cursor == 1);
	run_log_add(log, STR("info"), STR("two},{"), 1000);
	run_log_add(log, STR("info"), STR(""), 1000);
	check_next(log, &early, "two");
	check_next(log, &early, "\"\"");
	check(!run_log_read(log, &early, &entry) && early.cursor == 3);
	text = text_of(log);
	kept = run_log_of(str_of(text), 7);
	free(text);
	check(kept->dropped == 7 && run_log_seek(kept, &late, 1) == 0);
	check_next(kept, &late, "two");
	check(run_log_seek(kept, &late, 3) == 0 && !run_log_read(kept, &late, &entry));
	check(run_log_seek(kept, &late, 4) == -ENOENT && late.cursor == 3);
	run_log_release(kept);
	kept = run_log_of(STR(""), 0);
	check(run_log_seek(kept, &late, 1) == -ENOENT && late.cursor == 0);
	run_log_release(kept);
	run_log_release(run_log_hold(log));
	run_log_release(log);
	tap_ok("read one by one");
}

int main(void)
{
	test_lines();
	test_long();
	test_bound();
	test_full();
	test_reader();
	return tap_done();
}
