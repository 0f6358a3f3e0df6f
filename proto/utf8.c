#include "proto/utf8.h"

#include <stdint.h>

#define HIGH_BITS 0x8080808080808080u

/* Of the character at `s`, which is not ASCII; 0 if it is not one. */
static size_t char_len(const unsigned char *s, size_t left)
{
	/* The second byte's range is what rules out overlong forms, surrogates and U+110000. */
	unsigned char low = 0x80, high = 0xbf;
	size_t len;

	if (s[0] < 0xc2 || s[0] > 0xf4)
		return 0;
	len = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
	if (s[0] == 0xe0)
		low = 0xa0;
	else if (s[0] == 0xed)
		high = 0x9f;
	else if (s[0] == 0xf0)
		low = 0x90;
	else if (s[0] == 0xf4)
		high = 0x8f;
	if (left < len || s[1] < low || s[1] > high)
		return 0;
	for (size_t i = 2; i < len; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	}
	return len;
}

size_t utf8_valid_len(struct str s)
{
	const unsigned char *at = (const unsigned char *)s.at;
	size_t i = 0;

	while (i < s.len) {
		size_t len;

		while (s.len - i >= sizeof(uint64_t)) {
			uint64_t word;

			memcpy(&word, at + i, sizeof(word));
			if (word & HIGH_BITS)
				break;
			i += sizeof(word);
		}
		while (i < s.len && at[i] < 0x80)
			i++;
		if (i == s.len)
			break;
		len = char_len(at + i, s.len - i);
		if (!len)
			break;
		i += len;
	}
	return i;
}

bool utf8_is_valid(struct str s)
{
	return utf8_valid_len(s) == s.len;
}
