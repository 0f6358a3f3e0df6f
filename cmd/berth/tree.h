/*
 * Trees of local files as tar archives, by libarchive, on a thread of its own: libarchive asks for
 * its input and waits for it, while the bytes come and go through a pipe.
 */
#ifndef BERTH_CMD_TREE_H
#define BERTH_CMD_TREE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "cmd/berth/landing.h"

struct tree {
	int fd;     /* our end of the pipe: the archive is read from it, or written to it */
	int far_fd; /* the thread's */
	int result; /* of the thread, once it has ended */
	struct err err;
	pthread_t thread;
	bool is_running;
	/* One of these. */
	const char *source;
	struct landing *landing;
	bool has_root;     /* of a source: the directory itself goes along */
	uint64_t left_out; /* of a source: sockets and devices, once the thread has ended */
};

/* Begins to pack `source`, a directory, into tree->fd. */
int tree_pack(struct tree *tree, const char *source, bool has_root, struct err *err);

/* Begins to unpack what is written to tree->fd. Nobody else may touch `landing` meanwhile. */
int tree_unpack(struct tree *tree, struct landing *landing, struct err *err);

/* Waits for the thread, when the archive has come to its end. */
int tree_join(struct tree *tree);

/* Closes our end and waits for the thread. What it has come to, with tree->err. */
int tree_end(struct tree *tree);

#endif
