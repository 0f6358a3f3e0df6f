/*
 * Frames: what berthd, berth-keeper and berth-init say to each other, one SOCK_SEQPACKET message
 * each. A frame is a header and the fields of its type, in the order of the type's table; file
 * descriptors travel beside it.
 *
 *	u32 length | u16 type | u16 version | u32 tag | u32 zero | fields ...
 *
 *	FRAME_U32, FRAME_U64    little-endian
 *	FRAME_BYTES             u32 length, then the bytes
 *
 * Both ends run on one machine, but neither trusts the other: decoding checks every length and the
 * table's limits, allocates nothing, and leaves byte runs pointing into the received message. It is
 * linked into berth-init, so it needs nothing but memcpy.
 */
#ifndef BERTH_PROTO_FRAME_H
#define BERTH_PROTO_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define FRAME_VERSION     1
#define FRAME_MAX         65536
#define FRAME_HEADER_SIZE 16
#define FRAME_FDS_MAX     8

enum frame_kind { FRAME_END, FRAME_U32, FRAME_U64, FRAME_BYTES };

struct frame_field {
	enum frame_kind kind;
	uint32_t offset; /* of a uint32_t, a uint64_t or a struct str */
	uint32_t max;    /* FRAME_BYTES: the longest; numbers: the largest, 0 for any */
};

struct frame_head {
	uint16_t type;
	uint16_t version;
	uint32_t tag; /* an answer bears its request's; 0 for what nobody asked for */
};

/* The frame's size, or -EMSGSIZE when a field is past its limit or `size` too small. */
int frame_encode(char *bytes, size_t size, const struct frame_head *head,
		 const struct frame_field *fields, const void *value);

/* -EBADMSG for anything that no frame_encode() could have written. */
int frame_decode_head(struct str message, struct frame_head *ret);

/* After frame_decode_head(). `ret`'s strs point into the message. */
int frame_decode(struct str message, const struct frame_field *fields, void *ret);

/*
 * A list of strings as bytes: each with its NUL, one behind the other. Returns how many, or
 * -EBADMSG when the last one is not terminated. frame_list_next() takes one from the front.
 */
int frame_list_count(struct str list);
const char *frame_list_next(struct str *list);

#endif
