#include "proto/api_error.h"

#include <assert.h>

#include "base/cleanup.h"
#include "proto/json.h"
#include "proto/utf8.h"

/* clang-format off */
static const short statuses[] = {
	[ERR_NONE]                  = 500, /* an error without a code is our mistake */
	[ERR_INVALID_REQUEST]       = 400,
	[ERR_UNAUTHORIZED]          = 401,
	[ERR_FORBIDDEN]             = 403,
	[ERR_NOT_FOUND]             = 404,
	[ERR_METHOD_NOT_ALLOWED]    = 405,
	[ERR_REQUEST_TIMEOUT]       = 408,
	[ERR_CONFLICT]              = 409,
	[ERR_SANDBOX_RESTARTED]     = 409,
	[ERR_GONE]                  = 410,
	[ERR_PROCESS_EXITED]        = 409,
	[ERR_PAYLOAD_TOO_LARGE]     = 413,
	[ERR_RANGE_NOT_SATISFIABLE] = 416,
	[ERR_EXPECTATION_FAILED]    = 417,
	[ERR_UPGRADE_REQUIRED]      = 426,
	[ERR_HEAD_TOO_LARGE]        = 431,
	[ERR_RATE_LIMITED]          = 429,
	[ERR_INTERNAL]              = 500,
	[ERR_UNSUPPORTED]           = 501,
	[ERR_START_FAILED]          = 502,
	[ERR_EXEC_ERROR]            = 502,
	[ERR_EXEC_TRANSPORT_ERROR]  = 502,
	[ERR_BAD_GATEWAY]           = 502,
	[ERR_UNAVAILABLE]           = 503,
	[ERR_CAPACITY_EXCEEDED]     = 503,
	[ERR_TIMEOUT]               = 504,
	[ERR_HTTP_VERSION]          = 505,
	[ERR_MEMORY_LIMIT]          = 507,
	[ERR_CPU_LIMIT]             = 507,
	[ERR_DISK_LIMIT]            = 507,
	[ERR_NETWORK_BLOCKED]       = 403,
	[ERR_WATCH_LIMIT]           = 507,
	[ERR_PORT_NOT_LISTENING]    = 502,
};
/* clang-format on */

_Static_assert(array_len(statuses) == ERR_CODE_COUNT, "every code has a status");

int api_status(enum err_code code)
{
	assert(code < ERR_CODE_COUNT);
	return statuses[code];
}

int api_error_write(struct buf *out, const struct err *err)
{
	cleanup(json_writer_close) struct json_writer w;
	char sentence[sizeof(err->sentence)];
	size_t len = strnlen(err->sentence, sizeof(sentence)), good;

	/* A sentence may quote bytes of any kind, and is cut where its buffer ends. */
	memcpy(sentence, err->sentence, len);
	while ((good = utf8_valid_len((struct str){sentence, len})) < len)
		sentence[good] = '?';
	json_writer_init(&w, false);
	json_object(&w);
	json_key(&w, "error");
	json_str(&w, (struct str){sentence, len});
	json_key(&w, "code");
	json_text(&w, err_code_name(err->code));
	json_object_end(&w);
	return json_writer_end(&w, out);
}
