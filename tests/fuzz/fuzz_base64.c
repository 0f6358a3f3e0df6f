/* Bytes survive both ways; a text that decodes is the one that the bytes encode to. */
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "proto/base64.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(struct str text)
{
	cleanup_free char *bytes = malloc(BASE64_DECODE_ROOM(text.len));
	struct buf again;
	size_t len;
	int r = base64_decode(text, bytes, &len);

	assert(r == 0 || r == -EINVAL);
	if (r < 0)
		return;
	buf_init(&again, text.len);
	assert(base64_encode(&again, (struct str){bytes, len}) == 0);
	assert(str_eq((struct str){buf_at(&again), buf_len(&again)}, text));
	buf_close(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str bytes = {(const char *)data, size};
	cleanup_free char *back = NULL;
	struct buf text;
	size_t len;

	check_text(bytes);
	buf_init(&text, 2 * size + 4);
	assert(base64_encode(&text, bytes) == 0);
	back = malloc(BASE64_DECODE_ROOM(buf_len(&text)));
	assert(base64_decode((struct str){buf_at(&text), buf_len(&text)}, back, &len) == 0);
	assert(str_eq((struct str){back, len}, bytes));
	buf_close(&text);
	return 0;
}
