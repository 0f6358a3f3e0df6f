/*
 * A failure that a person will read: a stable code and a sentence, in a fixed buffer, so that error
 * paths never allocate. Lower layers state the fact (err_set), callers wrap it with what they were
 * trying to do (err_wrap), the edge turns the code into an HTTP status or an exit code once.
 */
#ifndef BERTH_BASE_ERR_H
#define BERTH_BASE_ERR_H

#include <stdarg.h>

enum err_code {
	ERR_NONE,
	ERR_INVALID_REQUEST,
	ERR_UNAUTHORIZED,
	ERR_FORBIDDEN,
	ERR_NOT_FOUND,
	ERR_METHOD_NOT_ALLOWED,
	ERR_REQUEST_TIMEOUT,
	ERR_CONFLICT,
	ERR_SANDBOX_RESTARTED,
	ERR_GONE,
	ERR_PROCESS_EXITED,
	ERR_PAYLOAD_TOO_LARGE,
	ERR_RANGE_NOT_SATISFIABLE,
	ERR_EXPECTATION_FAILED,
	ERR_UPGRADE_REQUIRED,
	ERR_HEAD_TOO_LARGE,
	ERR_RATE_LIMITED,
	ERR_INTERNAL,
	ERR_UNSUPPORTED,
	ERR_START_FAILED,
	ERR_EXEC_ERROR,
	ERR_EXEC_TRANSPORT_ERROR,
	ERR_BAD_GATEWAY,
	ERR_UNAVAILABLE,
	ERR_CAPACITY_EXCEEDED,
	ERR_TIMEOUT,
	ERR_HTTP_VERSION,
	ERR_MEMORY_LIMIT,
	ERR_CPU_LIMIT,
	ERR_DISK_LIMIT,
	ERR_NETWORK_BLOCKED,
	ERR_WATCH_LIMIT,
	ERR_PORT_NOT_LISTENING,
	ERR_CODE_COUNT,
};

struct err {
	enum err_code code;
	char sentence[512];
};

/* The stable code that clients see, such as "invalid_request". */
const char *err_code_name(enum err_code code);

/*
 * A sentence that is too long, such as one with a long path, is cut in its middle: what happened
 * is said at its end.
 */

/* Returns `error`, a negative errno, so that a failure is one line. `err` may be NULL. */
__attribute__((format(printf, 4, 5))) int err_set(struct err *err, int error, enum err_code code,
						  const char *format, ...);

/* Puts "<intent>: " in front of the sentence, keeps the code, returns `error`. */
__attribute__((format(printf, 3, 4))) int err_wrap(struct err *err, int error, const char *intent,
						   ...);

#endif
