/* Writes the head of an answer into memory that is known to be large enough. */
#ifndef BERTH_DAEMON_HEAD_WRITER_H
#define BERTH_DAEMON_HEAD_WRITER_H

#include <stdint.h>

#include "base/str.h"

struct head_writer {
	char *at;
};

static inline void put(struct head_writer *w, struct str s)
{
	if (s.len)
		memcpy(w->at, s.at, s.len);
	w->at += s.len;
}

static inline void put_uint(struct head_writer *w, uint64_t value)
{
	char digits[20];
	size_t n = sizeof(digits);

	do {
		digits[--n] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	put(w, (struct str){digits + n, sizeof(digits) - n});
}

static inline void put_hex(struct head_writer *w, size_t value)
{
	static const char digits[] = "0123456789abcdef";
	int shift = 60;

	while (shift && !(value >> shift))
		shift -= 4;
	for (; shift >= 0; shift -= 4)
		*w->at++ = digits[value >> shift & 15];
}

static inline void put_header(struct head_writer *w, struct str name, struct str value)
{
	put(w, name);
	put(w, STR(": "));
	put(w, value);
	put(w, STR("\r\n"));
}

#endif
