/*
 * What a command or a piece of code prints, on its way to the client: as events while it comes, or
 * kept for one answer, which says when it was cut.
 */
#ifndef BERTH_DAEMON_OUTPUT_H
#define BERTH_DAEMON_OUTPUT_H

#include "base/buf.h"
#include "base/str.h"
#include "daemon/sse.h"
#include "proto/json.h"

/* Both streams as base64, or as text that escapes made no longer than that... */
#define OUTPUT_TEXT_GROWS_MAX   (1024 * 1024) /* or that is shorter than this. */
#define OUTPUT_WRITTEN_MAX(max) (2 * ((max) / 3 * 4) + 2 * OUTPUT_TEXT_GROWS_MAX)

struct output_kept {
	struct buf bytes;
	uint64_t dropped;
};

/* A zeroed one may be closed. */
struct output {
	char tail[2][4]; /* of each stream: the beginning of a UTF-8 character */
	size_t tail_len[2];
	struct output_kept kept[2];
};

/* `max`: bytes of each stream that are kept. */
void output_init(struct output *o, size_t max);
void output_close(struct output *o);

/* Events `stdout` and `stderr`, in base64; none of them ends within a character. */
void output_send(struct output *o, struct sse *sse, bool is_stderr, struct str bytes);
/* There is no more: what is left of a character goes as it is. */
void output_send_rest(struct output *o, struct sse *sse);

void output_keep(struct output *o, bool is_stderr, struct str bytes);
/* `stdout`, `stderr`, `encoding` and `truncated`, into an object that the caller has opened. */
void output_write(struct output *o, struct json_writer *w);

#endif
