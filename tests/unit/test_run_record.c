#include "proto/run_record.h"

#include "base/cleanup.h"
#include "tests/unit/tap.h"

static char text[65536];

static void keep(struct buf *out)
{
	check(buf_len(out) < sizeof(text));
	memcpy(text, buf_at(out), buf_len(out));
	text[buf_len(out)] = '\0';
	buf_close(out);
}

static void test_status(void)
{
	for (int i = 0; i < RUN_STATUS_COUNT; i++)
		check(run_status_find(str_of(run_status_name(i))) == i);
	check(run_status_find(STR("ended")) < 0 && !run_status_is_over(RUN_RUNNING));
	check(run_status_is_over(RUN_LOST) && run_status_is_over(RUN_COMPLETED));
	tap_ok("names of states");
}

static void test_error(void)
{
	struct str lines[] = {STR("a"), STR("b")};
	struct json_strings traceback = {lines, 2};
	struct run_error e = {.code = RUN_CODE_ERROR,
			      .name = STR("E"),
			      .message = STR("m"),
			      .traceback = &traceback,
			      .file = STR("f.py"),
			      .line = 3};
	static char longer[RUN_ERROR_TEXT_MAX + 10];
	struct buf out;

	buf_init(&out, sizeof(text));
	check(run_error_write(&e, &out) == 0);
	keep(&out);
	check_str(text, "{\"code\":\"CODE_ERROR\",\"name\":\"E\",\"message\":\"m\",\"stack\":"
			"\"a\\nb\",\"position\":{\"file\":\"f.py\",\"line\":3,\"column\":null}}");
	e = (struct run_error){.code = RUN_SANDBOX_TIMEOUT, .message = STR("late")};
	check(run_error_write(&e, &out) == 0);
	keep(&out);
	check_str(text, "{\"code\":\"SANDBOX_TIMEOUT\",\"message\":\"late\"}");
	/* Two bytes each, and the limit falls between the two of the last. */
	for (size_t i = 1; i + 1 < sizeof(longer); i += 2)
		memcpy(longer + i, "\xc3\xa9", 2);
	longer[0] = 'x';
	e.message = (struct str){longer, sizeof(longer) - 1};
	check(run_error_write(&e, &out) == 0);
	check(buf_len(&out) < RUN_ERROR_TEXT_MAX + 64);
	buf_close(&out);
	tap_ok("errors");
}

static void test_longest_error(void)
{
	static char control[RUN_ERROR_TEXT_MAX + 10];
	struct str all = {control, sizeof(control)};
	struct json_strings traceback = {&all, 1};
	struct run_error e = {.code = RUN_SANDBOX_SECURITY_VIOLATION,
			      .name = all,
			      .message = all,
			      .traceback = &traceback,
			      .file = all,
			      .line = UINT64_MAX,
			      .column = UINT64_MAX};
	struct buf out;

	memset(control, '\x01', sizeof(control));
	buf_init(&out, RUN_ERROR_MAX);
	check(run_error_write(&e, &out) == 0 && buf_len(&out) > RUN_ERROR_MAX - 512);
	buf_close(&out);
	tap_ok("no error is longer than RUN_ERROR_MAX");
}

static void test_record(void)
{
	struct run_record r = {.id = {"run-a"},
			       .sandbox = {"run-b"},
			       .is_pooled = true,
			       .trust = TRUST_LOW,
			       .status = RUN_COMPLETED,
			       .language = KERNEL_BASH,
			       .created_at_ms = 1000,
			       .timeout_ms = 30000,
			       .metrics = {1, 2, -1, -1},
			       .result = STR("[1]"),
			       .metadata = STR("{}")};
	struct json_writer w;
	struct buf out;

	buf_init(&out, sizeof(text));
	json_writer_init(&w, false);
	run_record_write(&r, true, &w);
	check(json_writer_end(&w, &out) == 0);
	keep(&out);
	check_str(text, "{\"id\":\"run-a\",\"task_id\":null,\"status\":\"completed\",\"language\":"
			"\"bash\",\"result\":[1],\"logs\":[],\"logs_dropped\":0,"
			"\"truncated\":false,\"error\":null,\"tests\":[],\"metrics\":{\"duration_"
			"ms\":1,\"cold_start_ms\":2,\"cpu_ms\":"
			"null,\"memory_peak_bytes\":null,\"network_requests\":0,\"network_bytes\":0"
			"},\"timeout_ms\":30000,\"metadata\":{},\"sandbox\":\"run-b\",\"pooled\":"
			"true,\"trust\":\"low\",\"created_at\":\"1970-01-01T00:00:01.000Z\","
			"\"started_at\":null,\"ended_at\":null}");
	json_writer_close(&w);
	json_writer_init(&w, false);
	run_record_write(&r, false, &w);
	check(json_writer_end(&w, &out) == 0);
	keep(&out);
	check(!strstr(text, "\"result\"") && !strstr(text, "\"logs\":"));
	json_writer_close(&w);
	tap_ok("records");
}

int main(void)
{
	test_status();
	test_error();
	test_longest_error();
	test_record();
	return tap_done();
}
