/* Server-sent events: one event as bytes. Line breaks in `data` become further data lines. */
#ifndef BERTH_PROTO_SSE_H
#define BERTH_PROTO_SSE_H

#include "base/buf.h"
#include "base/str.h"

#define SSE_HEARTBEAT STR(": \n\n")

/* `event` and `id` may be empty; they must hold no line break or NUL (-EINVAL). */
int sse_format(struct buf *out, struct str event, struct str id, struct str data);

#endif
