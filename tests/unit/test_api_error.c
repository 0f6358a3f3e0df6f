#include "proto/api_error.h"

#include <errno.h>

#include "base/cleanup.h"
#include "tests/unit/tap.h"

static void test_statuses(void)
{
	/* clang-format off */
	static const struct {
		enum err_code code;
		int status;
		const char *name;
	} cases[] = {
		{ERR_INVALID_REQUEST, 400, "invalid_request"},
		{ERR_UNAUTHORIZED, 401, "unauthorized"},
		{ERR_FORBIDDEN, 403, "forbidden"},
		{ERR_NETWORK_BLOCKED, 403, "network_blocked"},
		{ERR_WATCH_LIMIT, 507, "watch_limit"},
		{ERR_PORT_NOT_LISTENING, 502, "port_not_listening"},
		{ERR_NOT_FOUND, 404, "not_found"},
		{ERR_METHOD_NOT_ALLOWED, 405, "method_not_allowed"},
		{ERR_REQUEST_TIMEOUT, 408, "request_timeout"},
		{ERR_CONFLICT, 409, "conflict"},
		{ERR_SANDBOX_RESTARTED, 409, "sandbox_restarted"},
		{ERR_GONE, 410, "gone"},
		{ERR_PROCESS_EXITED, 409, "process_exited"},
		{ERR_PAYLOAD_TOO_LARGE, 413, "payload_too_large"},
		{ERR_RANGE_NOT_SATISFIABLE, 416, "range_not_satisfiable"},
		{ERR_EXPECTATION_FAILED, 417, "expectation_failed"},
		{ERR_UPGRADE_REQUIRED, 426, "upgrade_required"},
		{ERR_RATE_LIMITED, 429, "rate_limited"},
		{ERR_HEAD_TOO_LARGE, 431, "head_too_large"},
		{ERR_INTERNAL, 500, "internal"},
		{ERR_UNSUPPORTED, 501, "unsupported"},
		{ERR_START_FAILED, 502, "start_failed"},
		{ERR_EXEC_ERROR, 502, "exec_error"},
		{ERR_EXEC_TRANSPORT_ERROR, 502, "exec_transport_error"},
		{ERR_BAD_GATEWAY, 502, "bad_gateway"},
		{ERR_UNAVAILABLE, 503, "unavailable"},
		{ERR_CAPACITY_EXCEEDED, 503, "capacity_exceeded"},
		{ERR_TIMEOUT, 504, "timeout"},
		{ERR_HTTP_VERSION, 505, "http_version_not_supported"},
		{ERR_MEMORY_LIMIT, 507, "memory_limit"},
		{ERR_CPU_LIMIT, 507, "cpu_limit"},
		{ERR_DISK_LIMIT, 507, "disk_limit"},
	};
	/* clang-format on */

	check(array_len(cases) == ERR_CODE_COUNT - 1);
	for (size_t i = 0; i < array_len(cases); i++) {
		check(api_status(cases[i].code) == cases[i].status);
		check_str(err_code_name(cases[i].code), cases[i].name);
	}
	check(api_status(ERR_NONE) == 500);
	tap_ok("every code has its status and name");
}

static void expect(const struct err *err, const char *expected)
{
	struct buf out;

	buf_init(&out, 4096);
	check(api_error_write(&out, err) == 0);
	check(buf_append(&out, "", 1) == 0);
	check_str(buf_at(&out), expected);
	buf_close(&out);
}

static void test_write(void)
{
	struct err err = {ERR_NOT_FOUND, "there is no sandbox \"x\""};
	struct buf out;

	expect(&err, "{\"error\":\"there is no sandbox \\\"x\\\"\",\"code\":\"not_found\"}");
	err = (struct err){ERR_GONE, "a\xff\xc3\xa4\xe2\x82 \n\xed\xa0\x80\xf0"};
	expect(&err, "{\"error\":\"a?\xc3\xa4?? \\n????\",\"code\":\"gone\"}");
	tap_ok("the sentence is escaped, and made UTF-8");

	memset(err.sentence, 'x', sizeof(err.sentence));
	err.sentence[sizeof(err.sentence) - 2] = '\xc3';
	err.sentence[sizeof(err.sentence) - 1] = '\0';
	buf_init(&out, 4096);
	check(api_error_write(&out, &err) == 0);
	check(buf_len(&out) == 511 + strlen("{\"error\":\"\",\"code\":\"gone\"}"));
	check(buf_append(&out, "", 1) == 0);
	check(strstr(buf_at(&out), "xx?\",\"code\":\"gone\"}"));
	buf_close(&out);
	buf_init(&out, 20);
	check(api_error_write(&out, &err) == -EMSGSIZE && buf_len(&out) == 0);
	buf_close(&out);
	tap_ok("a sentence that was cut inside a character; a buffer that is too small");
}

int main(void)
{
	test_statuses();
	test_write();
	return tap_done();
}
