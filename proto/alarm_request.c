#include "proto/alarm_request.h"

#include <errno.h>
#include <stddef.h>

#include "proto/exec_asked.h"
#include "proto/time_text.h"
#include "proto/units.h"

#define EVERY_MAX_MS (3650ULL * 24 * 3600 * 1000) /* a sum with any date still fits */

struct asked_alarm {
	struct exec_asked exec;
	struct str at, every;
	bool at_given, every_given;
};

static int read_at(struct str text, int64_t *ret, struct err *err)
{
	char back[TIME_TEXT_SIZE];

	if (time_text_read(text, ret) < 0)
		return exec_refuse(err, "at must be a time of RFC 3339 such as "
					"\"2026-01-31T23:59:59Z\"");
	if (*ret <= 0 || time_text_format(*ret, back) < 0)
		return exec_refuse(err, "at must be a time after 1970 and before the year 10000");
	return 0;
}

static int read_every(struct str text, uint64_t *ret, struct err *err)
{
	if (duration_parse(text, ret) < 0)
		return exec_refuse(err, "every must be a duration such as \"90s\", \"10m\" or "
					"\"1d\"");
	if (*ret < ALARM_EVERY_MIN_MS || *ret > EVERY_MAX_MS)
		return exec_refuse(err, "every must be at least 1s and at most 3650d");
	return 0;
}

int alarm_request_parse(struct arena *arena, struct str body, struct alarm_request *ret,
			struct err *err)
{
	/* clang-format off */
#define IN(member) offsetof(struct asked_alarm, member)
	static const struct json_field fields[] = {
		{ "at",         JSON_STRING,  IN(at),              false, IN(at_given) },
		{ "every",      JSON_STRING,  IN(every),           false, IN(every_given) },
		{ "argv",       JSON_STRINGS, IN(exec.argv),       true,  IN(exec.argv_given) },
		{ "timeout_ms", JSON_UINT,    IN(exec.timeout_ms) },
		{ NULL },
	};
#undef IN
	/* clang-format on */
	struct asked_alarm a = {.exec.max_output_bytes = EXEC_OUTPUT_DEFAULT};
	struct alarm_request read = {.at_ms = 0};
	struct exec_request exec;
	int r = json_parse(arena, body, fields, &a, err);

	if (r == 0 && !a.at_given && !a.every_given)
		r = exec_refuse(err, "at or every is missing: when is it due?");
	if (r == 0 && a.at_given)
		r = read_at(a.at, &read.at_ms, err);
	if (r == 0 && a.every_given)
		r = read_every(a.every, &read.every_ms, err);
	if (r == 0)
		r = exec_take_asked(arena, &a.exec, &exec, err);
	if (r == 0 && exec.argv.len > ALARM_ARGV_MAX)
		r = err_set(err, -E2BIG, ERR_INVALID_REQUEST, "argv is larger than %d bytes",
			    ALARM_ARGV_MAX);
	if (r < 0)
		return r;
	read.argv = exec.argv;
	read.timeout_ms = exec.timeout_ms;
	*ret = read;
	return 0;
}
