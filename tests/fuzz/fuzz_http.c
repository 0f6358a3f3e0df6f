/*
 * The first eight bytes are the lengths of pieces, the rest is what a client sends. However it is
 * cut, the same heads, bodies and errors must come out.
 */
#include "tests/http_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const size_t whole = SIZE_MAX, single = 1;
	struct buf expected, cut, bytewise;
	size_t lens[8];
	struct str input;

	if (size < array_len(lens))
		return 0;
	for (size_t i = 0; i < array_len(lens); i++)
		lens[i] = data[i];
	input = (struct str){(const char *)data + array_len(lens), size - array_len(lens)};
	expected = trace_run(input, (struct cuts){&whole, 1}, true);
	cut = trace_run(input, (struct cuts){lens, array_len(lens)}, true);
	bytewise = trace_run(input, (struct cuts){&single, 1}, true);
	trace_must(trace_eq(&expected, &cut));
	trace_must(trace_eq(&expected, &bytewise));
	buf_close(&expected);
	buf_close(&cut);
	buf_close(&bytewise);
	return 0;
}
