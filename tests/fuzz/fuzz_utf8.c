/* Against a decoder that goes the other way: what it decodes, encoded again, must be the same
 * bytes. */
#include <assert.h>
#include <stdint.h>

#include "proto/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t encode(uint32_t c, uint8_t out[4])
{
	size_t len = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

	for (size_t i = len - 1; i > 0; i--, c >>= 6)
		out[i] = 0x80 | (c & 0x3f);
	out[0] = (uint8_t)(c | (len > 1 ? 0xf0u << (4 - len) : 0));
	return len;
}

/* Of the first character, 0 if it is none. */
static size_t decode(const uint8_t *at, size_t left)
{
	size_t ones = (size_t)__builtin_clz(~((uint32_t)at[0] << 24)), len = ones ? ones : 1;
	uint32_t c = at[0] & (0xff >> (ones ? ones + 1 : 1));
	uint8_t again[4];

	if (ones == 1 || ones > 4 || len > left)
		return 0;
	for (size_t i = 1; i < len; i++)
		c = c << 6 | (at[i] & 0x3f);
	if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff) || encode(c, again) != len)
		return 0;
	return memcmp(again, at, len) == 0 ? len : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str s = {(const char *)data, size};
	size_t valid = 0, len;

	while (valid < size && (len = decode(data + valid, size - valid)))
		valid += len;
	assert(utf8_valid_len(s) == valid);
	assert(utf8_is_valid(s) == (valid == size));
	return 0;
}
