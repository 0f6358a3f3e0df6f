/* Base64 as RFC 4648 defines it, with padding: one text for each run of bytes, and no other. */
#ifndef BERTH_PROTO_BASE64_H
#define BERTH_PROTO_BASE64_H

#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"

/* Room that decoding a text of this length may need; a little more than comes out. */
#define BASE64_DECODE_ROOM(len) ((len) / 4 * 3 + 3)

/* Appends. -EMSGSIZE past the buffer's limit, -ENOMEM; then nothing was appended. */
int base64_encode(struct buf *out, struct str bytes);

/*
 * -EINVAL for anything that base64_encode() would not write: white space, missing padding, bits
 * that are set and belong to no byte. `ret` has BASE64_DECODE_ROOM and is no part of `text`; after
 * a failure its contents are undefined.
 */
int base64_decode(struct str text, char *ret, size_t *ret_len);

#endif
