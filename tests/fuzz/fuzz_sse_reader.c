/* The same events come out however the bytes were cut. The first byte says into which pieces. */
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "proto/sse_reader.h"

#define MAX 256

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int read_all(struct str text, size_t step, struct buf *out)
{
	struct sse_reader r;
	int got = 0;

	sse_reader_init(&r, MAX);
	for (size_t at = 0; at < text.len && got >= 0; at += step) {
		struct str piece = {text.at + at, text.len - at < step ? text.len - at : step};
		struct sse_event event;

		while ((got = sse_reader_next(&r, &piece, &event)) > 0) {
			assert(event.data.len < MAX && event.event.len <= SSE_NAME_MAX);
			assert(buf_append_str(out, event.event) == 0 &&
			       buf_append(out, "|", 1) == 0 &&
			       buf_append_str(out, event.data) == 0 &&
			       buf_append(out, ";", 1) == 0);
		}
		assert(got < 0 || !piece.len);
	}
	sse_reader_close(&r);
	return got;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = {(const char *)data + 1, size - 1};
	struct buf whole, pieces;
	int a, b;

	if (!size)
		return 0;
	buf_init(&whole, 1 << 20);
	buf_init(&pieces, 1 << 20);
	a = read_all(text, text.len ? text.len : 1, &whole);
	b = read_all(text, 1 + data[0] % 32, &pieces);
	assert(a == b && (a == 0 || a == -EMSGSIZE));
	assert(str_eq((struct str){buf_at(&whole), buf_len(&whole)},
		      (struct str){buf_at(&pieces), buf_len(&pieces)}));
	buf_close(&whole);
	buf_close(&pieces);
	return 0;
}
