#include "proto/run_request.h"

#include <errno.h>

#include "base/cleanup.h"
#include "tests/unit/tap.h"

static struct arena arena;
static struct err err;

static int parse(const char *text, struct run_request *ret)
{
	arena_close(&arena);
	err = (struct err){0};
	return run_request_parse(&arena, str_of(text), ret, &err);
}

static void test_bodies(void)
{
	struct run_request q;

	check(parse("{\"code\":\"1\",\"language\":\"python\"}", &q) == 0);
	check(str_eq(q.code, STR("1")) && q.language == KERNEL_PYTHON && !q.input.len);
	check(q.timeout_ms == 30000 && q.trust == TRUST_UNSAID && !q.limits.output_bytes);
	run_limits_fill(&q.limits);
	check(q.limits.output_bytes == RUN_OUTPUT_DEFAULT &&
	      q.limits.disk_bytes == RUN_DISK_DEFAULT);
	check(!q.has_tests && !q.is_async && !q.metadata.len && !q.task_id.len && !q.request.len);
	check(parse("{\"code\":\"x\",\"language\":\"js\",\"input\":[1, 2],\"env\":{\"A\":\"b\"},"
		    "\"timeout_ms\":5,\"metadata\":{\"a\":[null]},\"task_id\":\"t\",\"async\":true,"
		    "\"limits\":{\"memory\":\"64M\",\"output_bytes\":65536},"
		    "\"network\":{\"mode\":\"none\"}}",
		    &q) == 0);
	check(q.language == KERNEL_JAVASCRIPT && str_eq(q.input, STR("[1, 2]")) && q.is_async);
	check(q.env.len == 1 && q.timeout_ms == 5 && str_eq(q.metadata, STR("{\"a\":[null]}")));
	check(q.limits.memory_bytes == 64 << 20 && q.limits.output_bytes == 65536);
	check(parse("{\"code\":\"x\",\"language\":\"js\",\"input\":null}", &q) == 0);
	check(str_eq(q.input, STR("null")));
	tap_ok("bodies");
}

static void test_tests(void)
{
	struct run_request q;

	check(parse("{\"code\":\"x\",\"language\":\"py\",\"tests\":[{\"input\":[1],\"expected\":2},"
		    "{\"expected\":null}]}",
		    &q) == 0);
	check(q.has_tests && q.tests_len == 2 && str_eq(q.tests[0].expected, STR("2")));
	check(str_eq(q.tests[0].input, STR("[1]")) && q.tests[0].input_given);
	check(str_eq(q.tests[1].expected, STR("null")) && !q.tests[1].input_given);
	check(parse("{\"code\":\"x\",\"language\":\"py\",\"tests\":[]}", &q) == 0);
	check(q.has_tests && !q.tests_len);
	tap_ok("tests");
}

static void test_refusals(void)
{
	/* clang-format off */
	static const struct { const char *text, *sentence; } bad[] = {
		{"", "must be a JSON object"},
		{"{\"language\":\"python\"}", "code"},
		{"{\"code\":\"\",\"language\":\"python\"}", "code must not be empty"},
		{"{\"code\":\"1\"}", "language"},
		{"{\"code\":\"1\",\"language\":\"cobol\"}", "language must be python"},
		{"{\"code\":\"1\",\"language\":\"js\",\"timeout_ms\":-1}", "timeout_ms must not be negative"},
		{"{\"code\":\"1\",\"language\":\"js\",\"timeout_ms\":9999999999999}", "timeout_ms must be from 1"},
		{"{\"code\":\"1\",\"language\":\"js\",\"request\":[]}", "request must be an object"},
		{"{\"code\":\"1\",\"language\":\"js\",\"request\":{},\"input\":1}", "exclude each other"},
		{"{\"code\":\"1\",\"language\":\"js\",\"tests\":[],\"input\":1}", "exclude each other"},
		{"{\"code\":\"1\",\"language\":\"js\",\"tests\":[{\"input\":1}]}", "tests[0].expected"},
		{"{\"code\":\"1\",\"language\":\"bash\",\"tests\":[]}", "bash has no result"},
		{"{\"code\":\"1\",\"language\":\"bash\",\"request\":{}}", "bash has no handler"},
		{"{\"code\":\"1\",\"language\":\"js\",\"env\":{\"\":\"\"}}", "a name in env"},
		{"{\"code\":\"1\",\"language\":\"js\",\"limits\":{\"pids\":1}}", "limits.pids"},
		{"{\"code\":\"1\",\"language\":\"js\",\"nope\":1}", "unknown field \"nope\""},
	};
	static const char *const later[] = {"packages", "bindings", "callback"};
	/* clang-format on */
	struct run_request q;
	char text[128];

	for (size_t i = 0; i < array_len(bad); i++) {
		check(parse(bad[i].text, &q) < 0 && err.code == ERR_INVALID_REQUEST);
		if (!strstr(err.sentence, bad[i].sentence))
			check_str(err.sentence, bad[i].sentence);
	}
	for (size_t i = 0; i < array_len(later); i++) {
		snprintf(text, sizeof(text), "{\"code\":\"1\",\"language\":\"js\",\"%s\":[1]}",
			 later[i]);
		check(parse(text, &q) == -EOPNOTSUPP && err.code == ERR_UNSUPPORTED);
		check(strstr(err.sentence, later[i]));
	}
	check(parse("{\"code\":\"1\",\"language\":\"js\",\"network\":{\"mode\":\"full\"}}", &q) ==
	      -EOPNOTSUPP);
	tap_ok("refusals");
}

static void test_wait(void)
{
	uint64_t ms = 0;

	check(run_wait_parse(&arena, STR(""), &ms, &err) == 0 && ms == UINT64_MAX);
	check(run_wait_parse(&arena, STR("{\"timeout_ms\":7}"), &ms, &err) == 0 && ms == 7);
	check(run_wait_parse(&arena, STR("{\"timeout_ms\":-1}"), &ms, &err) < 0);
	check(run_wait_parse(&arena, STR("{\"timeout_ms\":9999999999999}"), &ms, &err) < 0);
	check(run_wait_parse(&arena, STR("{\"timeout_ms\":0}"), &ms, &err) == 0 &&
	      ms == UINT64_MAX);
	tap_ok("waits");
}

int main(void)
{
	arena_init(&arena, 1024 * 1024);
	test_bodies();
	test_tests();
	test_refusals();
	test_wait();
	arena_close(&arena);
	return tap_done();
}
