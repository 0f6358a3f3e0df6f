#include "daemon/run_log.h"

#include <stdlib.h>

#include "tests/unit/tap.h"

static char *text_of(struct run_log *log)
{
	struct buf out;
	char *text;

	buf_init(&out, RUN_LOG_MAX + 2);
	check(run_log_write(log, &out) == 0);
	text = strndup(buf_at(&out), buf_len(&out));
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
	struct run_log log;

	run_log_init(&log);
	check_log(&log, "[]");
	run_log_add(&log, STR("warn"), STR("a\nb"), 1000);
	run_log_output(&log, false, STR("one\r\ntw"), 1000);
	run_log_output(&log, true, STR("\xff!\n"), 1000);
	run_log_output(&log, false, STR("o"), 1000);
	run_log_flush(&log, 1000);
	check_log(&log, "[{\"level\":\"warn\",\"message\":\"a\\nb\",\"timestamp\":"
			"\"1970-01-01T00:00:01.000Z\"},{\"level\":\"stdout\",\"message\":\"one\","
			"\"timestamp\":\"1970-01-01T00:00:01.000Z\"},{\"level\":\"stderr\","
			"\"message\":\"\xef\xbf\xbd!\",\"timestamp\":\"1970-01-01T00:00:01.000Z\"},"
			"{\"level\":\"stdout\",\"message\":\"two\",\"timestamp\":"
			"\"1970-01-01T00:00:01.000Z\"}]");
	run_log_close(&log);
	tap_ok("messages and lines, in order");
}

/* A line that is cut is cut between two characters. */
static void test_long(void)
{
	static char line[2 * RUN_LINE_MAX];
	struct run_log log;
	char *text;

	run_log_init(&log);
	line[0] = 'x';
	for (size_t i = 1; i + 1 < sizeof(line); i += 2)
		memcpy(line + i, "\xc3\xa9", 2);
	line[sizeof(line) - 1] = '\n';
	run_log_output(&log, false, (struct str){line, sizeof(line)}, 1000);
	text = text_of(&log);
	check(!strstr(text, "\xef\xbf\xbd") && !log.dropped);
	free(text);
	run_log_close(&log);
	tap_ok("long lines");
}

static void test_bound(void)
{
	struct run_log log;
	char *text;

	run_log_init(&log);
	for (int i = 0; i < 100000; i++)
		run_log_output(&log, false, STR("0123456789\n"), 1000);
	check(log.dropped > 80000 && log.dropped < 99000);
	text = text_of(&log);
	check(strlen(text) <= RUN_LOG_MAX + 2 && text[strlen(text) - 2] == '}');
	free(text);
	run_log_close(&log);
	tap_ok("what is beyond the bound is counted");
}

int main(void)
{
	test_lines();
	test_long();
	test_bound();
	return tap_done();
}
