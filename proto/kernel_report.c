#include <errno.h>

#include "proto/kernel.h"

/* Everything that a line can say. */
struct line {
	struct kernel_report report;
	bool is_ready, is_checked;
	bool call_given, ready_given, checked_given, result_given, log_given, value_given,
		error_given, done_given;
	struct str language, version, done;
};

#define RESULT(field) offsetof(struct kernel_result, field)
#define LOG(field)    offsetof(struct kernel_log, field)
#define ERROR(field)  offsetof(struct kernel_error, field)
#define REPORT(field) offsetof(struct line, report.field)
#define LINE(field)   offsetof(struct line, field)

/* Code may print and raise any text: NUL characters, too. */
/* clang-format off */
static const struct json_field result_fields[] = {
	{ "text",      JSON_BYTES, RESULT(text) },
	{ "html",      JSON_BYTES, RESULT(html) },
	{ "markdown",  JSON_BYTES, RESULT(markdown) },
	{ "svg",       JSON_BYTES, RESULT(svg) },
	{ "png",       JSON_BYTES, RESULT(png) },
	{ "jpeg",      JSON_BYTES, RESULT(jpeg) },
	{ "latex",     JSON_BYTES, RESULT(latex) },
	{ "json",      JSON_RAW,   RESULT(json) },
	{ "chart",     JSON_RAW,   RESULT(chart) },
	{ "is_value",  JSON_BOOL,  RESULT(is_value) },
	{ "truncated", JSON_BOOL,  RESULT(is_truncated) },
	{ NULL },
};

static const struct json_field log_fields[] = {
	{ "level",   JSON_BYTES,  LOG(level), true },
	{ "message", JSON_BYTES,  LOG(message), true },
	{ "time",    JSON_NUMBER, LOG(time) },
	{ NULL },
};

static const struct json_field error_fields[] = {
	{ "name",      JSON_BYTES, ERROR(name), true },
	{ "message",   JSON_BYTES, ERROR(message), true },
	{ "traceback", JSON_TEXTS, ERROR(traceback) },
	{ "file",      JSON_BYTES, ERROR(file) },
	{ "line",      JSON_UINT,  ERROR(line) },
	{ "column",    JSON_UINT,  ERROR(column) },
	{ "is_syntax", JSON_BOOL,  ERROR(is_syntax) },
	{ "exit_code", JSON_UINT,  ERROR(exit_code), false, ERROR(exit_code_given) },
	{ "blocked",   JSON_BYTES, ERROR(blocked) },
	{ "too_long",  JSON_BOOL,  ERROR(is_too_long) },
	{ NULL },
};

static const struct json_field line_fields[] = {
	{ "call",     JSON_UINT,   REPORT(call),       false, LINE(call_given) },
	{ "ready",    JSON_BOOL,   LINE(is_ready),     false, LINE(ready_given) },
	{ "language", JSON_BYTES,  LINE(language) },
	{ "version",  JSON_BYTES,  LINE(version) },
	{ "pid",      JSON_UINT,   REPORT(pid) },
	{ "checked",  JSON_BOOL,   LINE(is_checked),   false, LINE(checked_given) },
	{ "result",   JSON_OBJECT, REPORT(result),     false, LINE(result_given),
	  .fields = result_fields },
	{ "log",      JSON_OBJECT, REPORT(log),        false, LINE(log_given), .fields = log_fields },
	{ "value",    JSON_RAW,    REPORT(value),      false, LINE(value_given) },
	{ "nothing",  JSON_BOOL,   REPORT(is_nothing) },
	{ "error",    JSON_OBJECT, REPORT(error),      false, LINE(error_given),
	  .fields = error_fields },
	{ "done",     JSON_BYTES,  LINE(done),         false, LINE(done_given) },
	{ NULL },
};
/* clang-format on */

static int refuse(struct err *err, const char *why)
{
	return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "%s", why);
}

/* It says one thing. */
static int find_kind(const struct line *l, enum kernel_report_kind *ret)
{
	const bool given[] = {
		[KERNEL_READY] = l->ready_given && l->is_ready,
		[KERNEL_CHECKED] = l->checked_given && l->is_checked,
		[KERNEL_RESULT] = l->result_given,
		[KERNEL_LOG] = l->log_given,
		[KERNEL_VALUE] = l->value_given,
		[KERNEL_ERROR] = l->error_given,
		[KERNEL_DONE] = l->done_given,
	};
	int count = 0;

	for (size_t i = 0; i < sizeof(given) / sizeof(*given); i++) {
		if (!given[i])
			continue;
		*ret = (enum kernel_report_kind)i;
		count++;
	}
	return count == 1 ? 0 : -EINVAL;
}

static int find_done(struct str word, enum kernel_done *ret)
{
	static const char *const words[] = {
		[KERNEL_DONE_OK] = "ok",
		[KERNEL_DONE_ERROR] = "error",
		[KERNEL_DONE_INTERRUPTED] = "interrupted",
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		if (!str_eq(word, str_of(words[i])))
			continue;
		*ret = (enum kernel_done)i;
		return 0;
	}
	return -EINVAL;
}

int kernel_report_parse(struct arena *arena, struct str line, struct kernel_report *ret,
			struct err *err)
{
	struct line l = {0};
	int r = json_parse(arena, line, line_fields, &l, err);

	if (r < 0)
		return r == -EMSGSIZE ? r : -EINVAL;
	if (find_kind(&l, &l.report.kind) < 0)
		return refuse(err, "a report must say one thing");
	if (l.call_given == (l.report.kind == KERNEL_READY) || l.report.call > INT64_MAX ||
	    (l.call_given && !l.report.call))
		return refuse(err, "a report must name its call");
	if (l.report.is_nothing && l.report.kind != KERNEL_VALUE)
		return refuse(err, "only a value can be nothing");
	if (l.report.error.exit_code_given &&
	    (!l.report.error.exit_code || l.report.error.exit_code > 255))
		return refuse(err, "an error must have an exit code of 1 to 255");
	if (l.report.kind == KERNEL_DONE && find_done(l.done, &l.report.done) < 0)
		return refuse(err, "a call cannot be done in such a way");
	*ret = l.report;
	ret->size = line.len;
	return 0;
}
