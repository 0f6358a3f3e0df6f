#include "proto/alarm_request.h"

#include <errno.h>

#include "base/cleanup.h"
#include "tests/unit/tap.h"

static struct arena arena;
static struct err err;

static int parse(const char *text, struct alarm_request *ret)
{
	arena_close(&arena);
	err = (struct err){0};
	return alarm_request_parse(&arena, str_of(text), ret, &err);
}

static void test_bodies(void)
{
	struct alarm_request q;

	check(parse("{\"argv\":[\"sh\",\"a b\"],\"at\":\"1970-01-01T00:00:01Z\"}", &q) == 0);
	check(q.at_ms == 1000 && !q.every_ms && !q.timeout_ms);
	check(str_eq(q.argv, STR("sh\0a b\0")));
	check(parse("{\"argv\":[\"x\"],\"every\":\"90s\",\"timeout_ms\":5}", &q) == 0);
	check(!q.at_ms && q.every_ms == 90000 && q.timeout_ms == 5);
	check(parse("{\"argv\":[\"x\"],\"every\":\"1s\",\"at\":\"2026-01-02T05:04:05.678+02:00\"}",
		    &q) == 0);
	check(q.at_ms == 1767323045678 && q.every_ms == 1000);
	tap_ok("bodies");
}

static void test_refusals(void)
{
	/* clang-format off */
	static const struct { const char *text, *sentence; } bad[] = {
		{"", "must be a JSON object"},
		{"{\"argv\":[\"x\"]}", "at or every is missing"},
		{"{\"argv\":[\"x\"],\"at\":null,\"every\":null}", "at or every is missing"},
		{"{\"every\":\"1s\"}", "argv"},
		{"{\"argv\":[],\"every\":\"1s\"}", "argv must begin"},
		{"{\"argv\":[\"x\"],\"every\":\"999ms\"}", "every must be at least 1s"},
		{"{\"argv\":[\"x\"],\"every\":\"3651d\"}", "at most 3650d"},
		{"{\"argv\":[\"x\"],\"every\":1}", "every must be a string"},
		{"{\"argv\":[\"x\"],\"every\":\"never\"}", "every must be a duration"},
		{"{\"argv\":[\"x\"],\"at\":\"12:00\"}", "at must be a time of RFC 3339"},
		{"{\"argv\":[\"x\"],\"at\":\"1970-01-01T00:00:00Z\"}", "after 1970"},
		{"{\"argv\":[\"x\"],\"at\":\"9999-12-31T23:59:59-01:00\"}", "year 10000"},
		{"{\"argv\":[\"x\"],\"every\":\"1s\",\"timeout_ms\":99999999999999}", "timeout_ms"},
		{"{\"argv\":[\"x\"],\"every\":\"1s\",\"env\":{}}", "unknown field \"env\""},
	};
	/* clang-format on */
	struct alarm_request q;

	for (size_t i = 0; i < array_len(bad); i++) {
		check(parse(bad[i].text, &q) < 0 && err.code == ERR_INVALID_REQUEST);
		if (!strstr(err.sentence, bad[i].sentence))
			check_str(err.sentence, bad[i].sentence);
	}
	tap_ok("refusals");
}

int main(void)
{
	arena_init(&arena, 1024 * 1024);
	test_bodies();
	test_refusals();
	arena_close(&arena);
	return tap_done();
}
