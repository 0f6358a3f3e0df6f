/*
 * Runs a client's bytes, cut into pieces, through the HTTP parser as a connection does, and writes
 * down what came out, so that tests can compare it with what was expected, or with another cut.
 *
 *	POST /a?b host=h 1.1 keep sized(hello); GET / host=h 1.1 close none; !invalid_request: ...
 *
 * "..." at the end: the bytes ended in the middle of a message.
 */
#ifndef BERTH_TESTS_HTTP_TRACE_H
#define BERTH_TESTS_HTTP_TRACE_H

#include <stdint.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "proto/http.h"

struct trace {
	struct http_parser parser;
	struct buf out;
	bool has_fields; /* write every header down too */
	bool is_in_body;
	bool is_over; /* after an error */
};

/* Lengths of the pieces, used in turn and again from the start; 0 counts as 1. */
struct cuts {
	const size_t *lens;
	size_t count;
};

static inline void trace_must(bool condition)
{
	if (!condition)
		abort();
}

static inline void trace_text(struct trace *t, struct str s)
{
	trace_must(buf_append_str(&t->out, s) == 0);
}

static inline void trace_data(void *arg, const char *bytes, size_t len)
{
	trace_must(len > 0);
	trace_text(arg, (struct str){bytes, len});
}

static inline void trace_head(struct trace *t, const struct http_head *head)
{
	static const char *const framing[] = {" none", " sized(", " chunked("};

	trace_text(t, head->method_name);
	trace_text(t, STR(" "));
	trace_text(t, head->path);
	if (head->query.at) {
		trace_text(t, STR("?"));
		trace_text(t, head->query);
	}
	trace_text(t, STR(" host="));
	trace_text(t, head->host);
	trace_text(t, head->minor ? STR(" 1.1") : STR(" 1.0"));
	trace_text(t, head->keep_alive ? STR(" keep") : STR(" close"));
	if (head->expects_continue)
		trace_text(t, STR(" continue"));
	if (head->has_upgrade)
		trace_text(t, STR(" upgrade"));
	for (size_t i = 0; t->has_fields && i < head->headers_len; i++) {
		trace_text(t, STR(" ["));
		trace_text(t, head->headers[i].name);
		trace_text(t, STR("="));
		trace_text(t, head->headers[i].value);
		trace_text(t, STR("]"));
	}
	trace_text(t, str_of(framing[head->framing]));
	t->is_in_body = head->framing != HTTP_NO_BODY;
	if (!t->is_in_body)
		trace_text(t, STR("; "));
}

static inline void trace_error(struct trace *t, const struct err *err)
{
	trace_text(t, STR("!"));
	trace_text(t, str_of(err_code_name(err->code)));
	trace_text(t, STR(": "));
	trace_text(t, str_of(err->sentence));
	t->is_over = true;
}

static inline enum http_result trace_step(struct trace *t, struct str *in)
{
	struct err err = {ERR_NONE, ""};
	struct http_head *head = NULL;
	enum http_result result;
	struct arena arena;
	struct str bytes;

	if (t->is_in_body) {
		result = http_body_feed(&t->parser, in, trace_data, t, &err);
		if (result == HTTP_DONE) {
			trace_text(t, STR("); "));
			t->is_in_body = false;
		}
	} else {
		result = http_head_feed(&t->parser, in, &bytes, &err);
		if (result == HTTP_DONE) {
			arena_init(&arena, 1 << 20);
			if (http_head_parse(&t->parser, &arena, bytes, &head, &err) < 0)
				result = HTTP_BAD;
			else
				trace_head(t, head);
			arena_close(&arena);
			trace_must(!t->parser.kept.bytes);
		}
	}
	if (result == HTTP_BAD)
		trace_error(t, &err);
	return result;
}

static inline void trace_feed(struct trace *t, const char *bytes, size_t len)
{
	/* Of its exact size and gone afterwards, so that ASan sees a read past the end or later. */
	cleanup_free char *piece = malloc(len);
	struct str in = {piece, len};

	trace_must(piece != NULL);
	memcpy(piece, bytes, len);
	while (in.len > 0 && !t->is_over) {
		if (trace_step(t, &in) == HTTP_MORE)
			trace_must(in.len == 0);
	}
}

static inline bool trace_eq(const struct buf *a, const struct buf *b)
{
	return buf_len(a) == buf_len(b) && memcmp(buf_at(a), buf_at(b), buf_len(a)) == 0;
}

/* The trace, terminated; to be closed by the caller. */
static inline struct buf trace_run(struct str input, struct cuts cuts, bool has_fields)
{
	struct trace t = {.has_fields = has_fields};
	size_t at = 0;

	http_parser_init(&t.parser);
	buf_init(&t.out, 4 * input.len + 4096);
	for (size_t i = 0; at < input.len; i++) {
		size_t len = cuts.lens[i % cuts.count];

		len = len ? len : 1;
		len = len < input.len - at ? len : input.len - at;
		trace_feed(&t, input.at + at, len);
		at += len;
	}
	if (!t.is_over && (t.is_in_body || t.parser.framing_state != 0))
		trace_text(&t, STR("..."));
	trace_must(buf_append(&t.out, "", 1) == 0);
	http_parser_close(&t.parser);
	return t.out;
}

#endif
