/*
 * The bytes of a stream that may be compressed (gzip, xz, zstd), piece by piece, in blocking calls.
 * Anybody made it: however small it is and whatever it says, it is given no more memory than
 * INFLATE_MEMORY_MAX, and no piece is larger than a few hundred kilobytes.
 */
#ifndef BERTH_DAEMON_INFLATE_H
#define BERTH_DAEMON_INFLATE_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define INFLATE_MEMORY_MAX (UINT64_C(128) << 20) /* xz -9 needs 65 MiB; as libarchive has zstd */

struct inflate;

/* The fd stays its owner's. NULL without memory. */
struct inflate *inflate_new(int fd);
void inflate_free(struct inflate *in);

/* The next piece, until the next call: its length, 0 at the end, or a negative errno with `err`. */
ssize_t inflate_next(struct inflate *in, const void **ret, struct err *err);

#endif
