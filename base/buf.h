/*
 * A growing run of bytes with a limit. Appending past the limit fails with -EMSGSIZE and leaves the
 * buffer as it was. Bytes are taken from the front with buf_consume().
 */
#ifndef BERTH_BASE_BUF_H
#define BERTH_BASE_BUF_H

#include <stddef.h>

#include "base/str.h"

struct buf {
	char *bytes;
	size_t start, end; /* what is held: bytes[start, end) */
	size_t size;       /* allocated */
	size_t limit;      /* of what is held */
};

void buf_init(struct buf *buf, size_t limit);

/* Frees the memory; the buffer is empty and may be used again. */
void buf_close(struct buf *buf);

static inline size_t buf_len(const struct buf *buf)
{
	return buf->end - buf->start;
}

static inline const char *buf_at(const struct buf *buf)
{
	return buf->bytes ? buf->bytes + buf->start : NULL; /* no sums with NULL */
}

/* Room for `len` more bytes at the end; NULL past the limit or without memory. Then buf_added(). */
char *buf_room(struct buf *buf, size_t len);
void buf_added(struct buf *buf, size_t len);

int buf_append(struct buf *buf, const void *bytes, size_t len);
int buf_append_str(struct buf *buf, struct str s);
__attribute__((format(printf, 2, 3))) int buf_printf(struct buf *buf, const char *format, ...);

void buf_consume(struct buf *buf, size_t len);

#endif
