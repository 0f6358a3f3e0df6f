/*
 * The first eight bytes are the lengths of pieces, the rest is what a server sends, once in answer
 * to GET and once to HEAD. However it is cut, the same heads, bodies, trailers and errors must come
 * out.
 */
#include "tests/http_response_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void compare(struct str input, struct cuts cuts, bool is_bodiless)
{
	static const size_t whole = SIZE_MAX, single = 1;
	struct buf expected, cut, bytewise;

	expected = trace_responses(input, (struct cuts){&whole, 1}, true, is_bodiless);
	cut = trace_responses(input, cuts, true, is_bodiless);
	bytewise = trace_responses(input, (struct cuts){&single, 1}, true, is_bodiless);
	trace_must(trace_eq(&expected, &cut));
	trace_must(trace_eq(&expected, &bytewise));
	buf_close(&expected);
	buf_close(&cut);
	buf_close(&bytewise);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t lens[8];
	struct str input;

	if (size < array_len(lens))
		return 0;
	for (size_t i = 0; i < array_len(lens); i++)
		lens[i] = data[i];
	input = (struct str){(const char *)data + array_len(lens), size - array_len(lens)};
	compare(input, (struct cuts){lens, array_len(lens)}, false);
	compare(input, (struct cuts){lens, array_len(lens)}, true);
	return 0;
}
