/*
 * The words in which tables of frame fields are written; only for the files that hold such tables.
 * `owner` is the name of the struct that a table is of.
 */
#ifndef BERTH_PROTO_FRAME_TABLE_H
#define BERTH_PROTO_FRAME_TABLE_H

#include "proto/frame.h"

/* clang-format off */
#define U32(owner, member)        { FRAME_U32, offsetof(struct owner, member), 0 }
#define U64(owner, member)        { FRAME_U64, offsetof(struct owner, member), 0 }
#define UP_TO(owner, member, max) { FRAME_U32, offsetof(struct owner, member), max }
#define BYTES(owner, member, max) { FRAME_BYTES, offsetof(struct owner, member), max }
#define END                       { FRAME_END, 0, 0 }
/* clang-format on */

#define ERRNO_MAX 4095 /* a number that is an errno, or 0 */

#endif
