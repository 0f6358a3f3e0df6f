#include "base/err.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

/* clang-format off */
static const char *const names[ERR_CODE_COUNT] = {
	[ERR_NONE]                  = "none",
	[ERR_INVALID_REQUEST]       = "invalid_request",
	[ERR_UNAUTHORIZED]          = "unauthorized",
	[ERR_FORBIDDEN]             = "forbidden",
	[ERR_NOT_FOUND]             = "not_found",
	[ERR_METHOD_NOT_ALLOWED]    = "method_not_allowed",
	[ERR_REQUEST_TIMEOUT]       = "request_timeout",
	[ERR_CONFLICT]              = "conflict",
	[ERR_SANDBOX_RESTARTED]     = "sandbox_restarted",
	[ERR_GONE]                  = "gone",
	[ERR_PROCESS_EXITED]        = "process_exited",
	[ERR_PAYLOAD_TOO_LARGE]     = "payload_too_large",
	[ERR_RANGE_NOT_SATISFIABLE] = "range_not_satisfiable",
	[ERR_EXPECTATION_FAILED]    = "expectation_failed",
	[ERR_UPGRADE_REQUIRED]      = "upgrade_required",
	[ERR_HEAD_TOO_LARGE]        = "head_too_large",
	[ERR_RATE_LIMITED]          = "rate_limited",
	[ERR_INTERNAL]              = "internal",
	[ERR_UNSUPPORTED]           = "unsupported",
	[ERR_START_FAILED]          = "start_failed",
	[ERR_EXEC_ERROR]            = "exec_error",
	[ERR_EXEC_TRANSPORT_ERROR]  = "exec_transport_error",
	[ERR_BAD_GATEWAY]           = "bad_gateway",
	[ERR_UNAVAILABLE]           = "unavailable",
	[ERR_CAPACITY_EXCEEDED]     = "capacity_exceeded",
	[ERR_TIMEOUT]               = "timeout",
	[ERR_HTTP_VERSION]          = "http_version_not_supported",
	[ERR_MEMORY_LIMIT]          = "memory_limit",
	[ERR_CPU_LIMIT]             = "cpu_limit",
	[ERR_DISK_LIMIT]            = "disk_limit",
	[ERR_NETWORK_BLOCKED]       = "network_blocked",
	[ERR_WATCH_LIMIT]           = "watch_limit",
	[ERR_PORT_NOT_LISTENING]    = "port_not_listening",
};
/* clang-format on */

const char *err_code_name(enum err_code code)
{
	assert(code < ERR_CODE_COUNT);
	return names[code];
}

#define WHOLE_MAX (2 * 4096 + 1024) /* two paths and what is said about them */
#define CUT       "[...]"
#define TAIL_LEN  320

/* A long path must not push the reason out: what does not fit is cut from the middle. */
__attribute__((format(printf, 2, 0))) static void put_sentence(struct err *err, const char *format,
							       va_list args)
{
	char whole[WHOLE_MAX];
	const size_t size = sizeof(err->sentence);
	size_t len, head = size - 1 - TAIL_LEN - strlen(CUT), tail;
	int n = vsnprintf(whole, sizeof(whole), format, args);

	if (n < 0)
		n = snprintf(whole, sizeof(whole), "%s", format);
	len = strlen(whole);
	if (len < size) {
		memcpy(err->sentence, whole, len + 1);
		return;
	}
	tail = len - TAIL_LEN;
	/* Between two characters: what goes into JSON must stay UTF-8. */
	while (head > 0 && ((unsigned char)whole[head] & 0xc0) == 0x80)
		head--;
	while (((unsigned char)whole[tail] & 0xc0) == 0x80)
		tail++;
	snprintf(err->sentence, size, "%.*s" CUT "%s", (int)head, whole, whole + tail);
}

/* For what was put together already. */
__attribute__((format(printf, 2, 3))) static void put(struct err *err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	put_sentence(err, format, args);
	va_end(args);
}

int err_set(struct err *err, int error, enum err_code code, const char *format, ...)
{
	va_list args;

	assert(error < 0);
	if (!err)
		return error;
	err->code = code;
	va_start(args, format);
	put_sentence(err, format, args);
	va_end(args);
	return error;
}

int err_wrap(struct err *err, int error, const char *intent, ...)
{
	char inner[sizeof(err->sentence)], outer[4096 + 256];
	va_list args;

	assert(error < 0);
	if (!err)
		return error;
	memcpy(inner, err->sentence, sizeof(inner));
	va_start(args, intent);
	if (vsnprintf(outer, sizeof(outer), intent, args) < 0)
		outer[0] = '\0';
	va_end(args);
	put(err, "%s: %s", outer, inner);
	return error;
}
