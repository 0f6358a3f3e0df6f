/*
 * Frames and raw bytes, one behind the other: in from stdin, out to stdout, both pipes. Data goes
 * by splice where the kernel can, and never needs more memory than this. -EPIPE stands for a stream
 * that ended or makes no sense; everything else is the file's error.
 */
#ifndef BERTH_INIT_WORK_STREAM_H
#define BERTH_INIT_WORK_STREAM_H

#include <stdbool.h>
#include <sys/types.h>

#include "proto/frame.h"

struct stream {
	uint32_t tag; /* of the request: answers bear it */
	size_t in_at, in_end, out_len;
	char in[FRAME_MAX], out[2 * FRAME_MAX];
};

void stream_init(struct stream *s);

/* 1: a frame, until the next call; 0: the end, between two frames. */
int stream_next(struct stream *s, struct frame_head *ret_head, struct str *ret_message);

/* More than the last frame was read: the next may be there already. */
bool stream_has_more(const struct stream *s);

/* The next `size` raw bytes, to where the file stands. */
int stream_read_into(struct stream *s, int fd, uint64_t size);
/* The same without a file. */
int stream_skip(struct stream *s, uint64_t size);

/* Kept back until there are enough of them, or stream_flush(). */
int stream_put(struct stream *s, uint16_t type, const struct frame_field *fields,
	       const void *value);
int stream_put_bytes(struct stream *s, const char *bytes, size_t size);
/* From *offset on, until *left is 0 or the file ends; moves both. */
int stream_put_file(struct stream *s, int fd, off_t *offset, uint64_t *left);
int stream_flush(struct stream *s);

#endif
