/*
 * Server-sent events from bytes that come in pieces of any size, by the rules that browsers follow:
 * LF, CR and CRLF end lines, lines that begin with ':' are comments, an event without data is none.
 * Only `event` and `data` are kept. What the stream ends inside of is dropped.
 */
#ifndef BERTH_PROTO_SSE_READER_H
#define BERTH_PROTO_SSE_READER_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"

#define SSE_NAME_MAX 63

struct sse_event {
	struct str event; /* "" if it has no name */
	struct str data;
};

struct sse_reader {
	struct buf line; /* one that came in pieces */
	struct buf data; /* each line with an LF behind it */
	char event[SSE_NAME_MAX + 1];
	bool is_begun;  /* the mark of UTF-8 in front, if any, is behind us */
	bool was_cr;    /* an LF would belong to it */
	bool was_event; /* that was handed out: its parts are to be forgotten */
};

/* `max` bounds one line and the data of one event. */
void sse_reader_init(struct sse_reader *r, size_t max);
void sse_reader_close(struct sse_reader *r);

/*
 * Takes bytes from the front of `in`. 1: an event, which holds until the next call; there may be
 * more in `in`. 0: `in` is empty. -EMSGSIZE: a line, a name or an event is too long; -ENOMEM. After
 * a failure the stream cannot be read on.
 */
int sse_reader_next(struct sse_reader *r, struct str *in, struct sse_event *ret);

#endif
