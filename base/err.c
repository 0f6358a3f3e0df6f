#include "base/err.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

/* clang-format off */
static const char *const names[ERR_CODE_COUNT] = {
	[ERR_NONE]                 = "none",
	[ERR_INVALID_REQUEST]      = "invalid_request",
	[ERR_UNAUTHORIZED]         = "unauthorized",
	[ERR_FORBIDDEN]            = "forbidden",
	[ERR_NOT_FOUND]            = "not_found",
	[ERR_METHOD_NOT_ALLOWED]   = "method_not_allowed",
	[ERR_REQUEST_TIMEOUT]      = "request_timeout",
	[ERR_CONFLICT]             = "conflict",
	[ERR_SANDBOX_RESTARTED]    = "sandbox_restarted",
	[ERR_GONE]                 = "gone",
	[ERR_PAYLOAD_TOO_LARGE]    = "payload_too_large",
	[ERR_EXPECTATION_FAILED]   = "expectation_failed",
	[ERR_UPGRADE_REQUIRED]     = "upgrade_required",
	[ERR_HEAD_TOO_LARGE]       = "head_too_large",
	[ERR_RATE_LIMITED]         = "rate_limited",
	[ERR_INTERNAL]             = "internal",
	[ERR_UNSUPPORTED]          = "unsupported",
	[ERR_START_FAILED]         = "start_failed",
	[ERR_EXEC_ERROR]           = "exec_error",
	[ERR_EXEC_TRANSPORT_ERROR] = "exec_transport_error",
	[ERR_UNAVAILABLE]          = "unavailable",
	[ERR_CAPACITY_EXCEEDED]    = "capacity_exceeded",
	[ERR_TIMEOUT]              = "timeout",
	[ERR_HTTP_VERSION]         = "http_version_not_supported",
	[ERR_MEMORY_LIMIT]         = "memory_limit",
	[ERR_DISK_LIMIT]           = "disk_limit",
	[ERR_NETWORK_BLOCKED]      = "network_blocked",
};
/* clang-format on */

const char *err_code_name(enum err_code code)
{
	assert(code < ERR_CODE_COUNT);
	return names[code];
}

int err_set(struct err *err, int error, enum err_code code, const char *format, ...)
{
	va_list args;

	assert(error < 0);
	if (!err)
		return error;
	err->code = code;
	va_start(args, format);
	vsnprintf(err->sentence, sizeof(err->sentence), format, args);
	va_end(args);
	return error;
}

int err_wrap(struct err *err, int error, const char *intent, ...)
{
	char inner[sizeof(err->sentence)];
	va_list args;
	int n;

	assert(error < 0);
	if (!err)
		return error;
	memcpy(inner, err->sentence, sizeof(inner));
	va_start(args, intent);
	n = vsnprintf(err->sentence, sizeof(err->sentence), intent, args);
	va_end(args);
	if (n >= 0 && (size_t)n < sizeof(err->sentence))
		snprintf(err->sentence + n, sizeof(err->sentence) - n, ": %s", inner);
	return error;
}
