/*
 * Runs a client's or a server's bytes, cut into pieces, through the HTTP parser as a connection
 * does, and writes down what came out, so that tests can compare it with what was expected, or with
 * another cut. Of responses see tests/http_response_trace.h.
 *
 *	POST /a?b host=h 1.1 keep sized(hello); GET / host=h 1.1 close none; !invalid_request: ...
 *
 * "..." at the end: the bytes ended in the middle of a message. Trailers stand in braces behind the
 * body they belong to, if they are kept.
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
	struct buf trailers;
	/* Reads one head of the bytes and writes down what it says. */
	enum http_result (*head)(struct trace *t, struct str *in, struct err *err);
	bool has_fields;  /* write every header down too, and trailers */
	bool is_bodiless; /* responses answer HEAD */
	bool is_raw;      /* whatever comes is not HTTP any more */
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

static inline void trace_fields(struct trace *t, const struct http_header *headers, size_t len)
{
	for (size_t i = 0; t->has_fields && i < len; i++) {
		trace_text(t, STR(" ["));
		trace_text(t, headers[i].name);
		trace_text(t, STR("="));
		trace_text(t, headers[i].value);
		trace_text(t, STR("]"));
	}
}

static inline void trace_framing(struct trace *t, enum http_framing framing)
{
	static const char *const names[] = {" none", " sized(", " chunked(", " until("};

	trace_text(t, str_of(names[framing]));
	t->is_in_body = framing == HTTP_SIZED || framing == HTTP_CHUNKED;
	if (framing == HTTP_NO_BODY)
		trace_text(t, STR("; "));
}

static inline void trace_request(struct trace *t, const struct http_head *head)
{
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
	trace_fields(t, head->headers, head->headers_len);
	trace_framing(t, head->framing);
}

static inline void trace_error(struct trace *t, const struct err *err)
{
	trace_text(t, STR("!"));
	trace_text(t, str_of(err_code_name(err->code)));
	trace_text(t, STR(": "));
	trace_text(t, str_of(err->sentence));
	t->is_over = true;
}

static inline enum http_result trace_request_head(struct trace *t, struct str *in, struct err *err)
{
	enum http_result result;
	struct http_head *head;
	struct arena arena;
	struct str bytes;

	result = http_head_feed(&t->parser, in, &bytes, err);
	if (result != HTTP_DONE)
		return result;
	arena_init(&arena, 1 << 20);
	if (http_head_parse(&t->parser, &arena, bytes, &head, err) < 0)
		result = HTTP_BAD;
	else
		trace_request(t, head);
	arena_close(&arena);
	trace_must(!t->parser.kept.bytes);
	return result;
}

static inline enum http_result trace_body(struct trace *t, struct str *in, struct err *err)
{
	enum http_result result = http_body_feed(&t->parser, in, trace_data, t, err);

	if (result != HTTP_DONE)
		return result;
	trace_text(t, STR(")"));
	if (buf_len(&t->trailers) > 0) {
		trace_text(t, STR("{"));
		trace_text(t, (struct str){buf_at(&t->trailers), buf_len(&t->trailers)});
		trace_text(t, STR("}"));
		buf_close(&t->trailers);
	}
	trace_text(t, STR("; "));
	t->is_in_body = false;
	return result;
}

static inline enum http_result trace_step(struct trace *t, struct str *in)
{
	struct err err = {ERR_NONE, ""};
	enum http_result result;

	if (t->is_raw) {
		trace_text(t, *in);
		in->len = 0;
		return HTTP_MORE;
	}
	result = t->is_in_body ? trace_body(t, in, &err) : t->head(t, in, &err);
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
static inline struct buf trace_run_as(struct trace t, struct str input, struct cuts cuts)
{
	size_t at = 0;

	http_parser_init(&t.parser);
	trace_must(!t.parser.trailers);
	buf_init(&t.trailers, HTTP_TRAILER_MAX);
	if (t.has_fields)
		t.parser.trailers = &t.trailers;
	buf_init(&t.out, 4 * input.len + 4096);
	for (size_t i = 0; at < input.len; i++) {
		size_t len = cuts.lens[i % cuts.count];

		len = len ? len : 1;
		len = len < input.len - at ? len : input.len - at;
		trace_feed(&t, input.at + at, len);
		at += len;
	}
	if (t.is_raw)
		trace_text(&t, STR(")"));
	else if (!t.is_over && (t.is_in_body || t.parser.framing_state != 0))
		trace_text(&t, STR("..."));
	trace_must(buf_append(&t.out, "", 1) == 0);
	buf_close(&t.trailers);
	http_parser_close(&t.parser);
	return t.out;
}

static inline struct buf trace_run(struct str input, struct cuts cuts, bool has_fields)
{
	struct trace t = {.head = trace_request_head, .has_fields = has_fields};

	return trace_run_as(t, input, cuts);
}

#endif
