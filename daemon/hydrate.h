/*
 * An archive on its way into a sandbox: its bytes go in, frames for a file worker come out. Between
 * them a thread waits for libarchive, since that cannot wait for the loop.
 *
 *	body ── hydrate_write ──> pipe ──> thread: tar_read_entries ──> pipe ──> `frames`
 *
 * After hydrate_new() either `ended` comes, once, or hydrate_drop() was called before it; both end
 * it for its owner, and what is left goes by itself.
 */
#ifndef BERTH_DAEMON_HYDRATE_H
#define BERTH_DAEMON_HYDRATE_H

#include <stdbool.h>

#include <uv.h>

#include "base/err.h"
#include "base/str.h"

#define HYDRATES_MAX 16 /* at once, in all sandboxes: each has a thread */

struct hydrate;

struct hydrate_ops {
	void (*frames)(void *arg, struct str bytes);
	void (*room)(void *arg);
	/* All frames are out, and NULL: the archive was whole. */
	void (*ended)(void *arg, const struct err *err);
};

/* NULL and `err`: there are too many at once, or no memory. */
struct hydrate *hydrate_new(uv_loop_t *loop, const struct hydrate_ops *ops, void *arg,
			    struct err *err);

/* True: that is enough for now, wait for `room`. */
bool hydrate_write(struct hydrate *h, struct str bytes);
void hydrate_end(struct hydrate *h);

void hydrate_pause(struct hydrate *h);
void hydrate_resume(struct hydrate *h);

void hydrate_drop(struct hydrate *h);

#endif
