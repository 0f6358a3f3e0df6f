#include "base/buf.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define SMALLEST 256

void buf_init(struct buf *buf, size_t limit)
{
	*buf = (struct buf){.limit = limit};
}

void buf_close(struct buf *buf)
{
	free(buf->bytes);
	buf_init(buf, buf->limit);
}

char *buf_room(struct buf *buf, size_t len)
{
	size_t held = buf_len(buf), wanted, size;
	char *bytes;

	if (len > buf->limit || held > buf->limit - len)
		return NULL;
	wanted = held + len;
	if (len <= buf->size - buf->end)
		return buf->bytes + buf->end;
	/* Half the memory is free at the front: move rather than grow, so that a queue stays small.
	 */
	if (wanted <= buf->size / 2) {
		memmove(buf->bytes, buf->bytes + buf->start, held);
		buf->start = 0;
		buf->end = held;
		return buf->bytes + held;
	}
	size = buf->size ? buf->size : SMALLEST;
	while (size < wanted)
		size *= 2;
	bytes = malloc(size);
	if (!bytes)
		return NULL;
	if (held)
		memcpy(bytes, buf->bytes + buf->start, held);
	free(buf->bytes);
	buf->bytes = bytes;
	buf->size = size;
	buf->start = 0;
	buf->end = held;
	return bytes + held;
}

void buf_added(struct buf *buf, size_t len)
{
	assert(len <= buf->size - buf->end);
	buf->end += len;
}

int buf_append(struct buf *buf, const void *bytes, size_t len)
{
	char *room;

	if (!len)
		return 0;
	room = buf_room(buf, len);
	if (!room)
		return len > buf->limit || buf_len(buf) > buf->limit - len ? -EMSGSIZE : -ENOMEM;
	memcpy(room, bytes, len);
	buf->end += len;
	return 0;
}

int buf_append_str(struct buf *buf, struct str s)
{
	return buf_append(buf, s.at, s.len);
}

int buf_printf(struct buf *buf, const char *format, ...)
{
	va_list args;
	char *room;
	int n;

	va_start(args, format);
	n = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (n < 0)
		return -EINVAL;
	room = buf_room(buf, (size_t)n + 1); /* vsnprintf writes a NUL behind it */
	if (!room)
		return -EMSGSIZE;
	va_start(args, format);
	vsnprintf(room, (size_t)n + 1, format, args);
	va_end(args);
	buf->end += (size_t)n;
	return 0;
}

void buf_consume(struct buf *buf, size_t len)
{
	assert(len <= buf_len(buf));
	buf->start += len;
	if (buf->start == buf->end)
		buf->start = buf->end = 0;
}
