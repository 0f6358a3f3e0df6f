/*
 * As tests/http_trace.h, for what a server sends.
 *
 *	100 "Continue" 1.1 keep none; 200 "OK" 1.1 keep length=5 sized(hello); 200 "" 1.0 close
 *until(...)
 *
 * Behind until( and raw( is everything that came.
 */
#ifndef BERTH_TESTS_HTTP_RESPONSE_TRACE_H
#define BERTH_TESTS_HTTP_RESPONSE_TRACE_H

#include "proto/http_response.h"
#include "tests/http_trace.h"

static inline void trace_response(struct trace *t, const struct http_response *response)
{
	trace_must(response->status >= 100 && response->status <= 999);
	trace_must(buf_printf(&t->out, "%d \"", response->status) == 0);
	trace_text(t, response->reason);
	trace_text(t, response->minor ? STR("\" 1.1") : STR("\" 1.0"));
	trace_text(t, response->keep_alive ? STR(" keep") : STR(" close"));
	if (response->has_length)
		trace_must(buf_printf(&t->out, " length=%llu",
				      (unsigned long long)response->content_length) == 0);
	trace_fields(t, response->headers, response->headers_len);
	if (response->is_upgrade) {
		trace_must(response->framing == HTTP_NO_BODY && !response->keep_alive);
		trace_text(t, STR(" raw("));
	} else {
		trace_framing(t, response->framing);
	}
	t->is_raw = response->is_upgrade || response->framing == HTTP_UNTIL_CLOSE;
}

static inline enum http_result trace_response_head(struct trace *t, struct str *in, struct err *err)
{
	struct http_response *response;
	enum http_result result;
	struct arena arena;
	struct str bytes;

	result = http_response_feed(&t->parser, in, &bytes, err);
	if (result != HTTP_DONE)
		return result;
	arena_init(&arena, 1 << 20);
	t->parser.is_bodiless = t->is_bodiless;
	if (http_response_parse(&t->parser, &arena, bytes, &response, err) < 0)
		result = HTTP_BAD;
	else
		trace_response(t, response);
	arena_close(&arena);
	trace_must(!t->parser.kept.bytes);
	return result;
}

static inline struct buf trace_responses(struct str input, struct cuts cuts, bool has_fields,
					 bool is_bodiless)
{
	struct trace t = {
		.head = trace_response_head, .has_fields = has_fields, .is_bodiless = is_bodiless};

	return trace_run_as(t, input, cuts);
}

#endif
