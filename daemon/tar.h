/*
 * Tar archives, by libarchive: entries of a sandbox's files to bytes, on the loop, and bytes to
 * entries, on a thread of its own (libarchive asks for its input and waits for it). The archives
 * that come in were made by anybody, and are checked as such.
 */
#ifndef BERTH_DAEMON_TAR_H
#define BERTH_DAEMON_TAR_H

#include <stdatomic.h>

#include "base/err.h"
#include "base/str.h"
#include "proto/file.h"

struct tar_writer;

typedef void tar_sink_fn(void *arg, struct str bytes);

/* `root` is what an entry without a name is called. NULL without memory. */
struct tar_writer *tar_writer_new(const char *root, tar_sink_fn *sink, void *arg);
void tar_writer_free(struct tar_writer *w);

/* 0, or a negative errno with `err`: the archive is of no use any more. */
int tar_writer_entry(struct tar_writer *w, const struct file_entry *entry, struct err *err);
int tar_writer_bytes(struct tar_writer *w, struct str bytes, struct err *err);
int tar_writer_hole(struct tar_writer *w, uint64_t size, struct err *err);
int tar_writer_end(struct tar_writer *w, struct err *err);

/*
 * Blocking: reads an archive (tar, also compressed by gzip, xz or zstd) until the end of `in`, and
 * writes its entries as frames (proto/file.h) to `out`, without FILE_END. Names that lead out of
 * where it is unpacked, and entries that nobody may make, are refused in `err`; so is an archive
 * without its end. It gives up soon when `stop`, if there is one, has become true.
 */
int tar_read_entries(int in, int out, const atomic_bool *stop, struct err *err);

#endif
