/*
 * Frames over one SOCK_SEQPACKET connection, on the loop: to the keeper, or to a sandbox's init.
 * The other end may lie, flood or hang: a message is at most FRAME_MAX bytes and FRAME_FDS_MAX
 * descriptors, at most CHANNEL_TURN messages are taken per turn of the loop, and what it does not
 * take from us waits in a queue of CHANNEL_QUEUE_MAX bytes.
 */
#ifndef BERTH_DAEMON_CHANNEL_H
#define BERTH_DAEMON_CHANNEL_H

#include <stdbool.h>

#include <uv.h>

#include "base/err.h"
#include "base/list.h"
#include "proto/frame.h"

#define CHANNEL_TURN      64
#define CHANNEL_QUEUE_MAX (4 * 1024 * 1024)

struct channel_frame {
	struct frame_head head;
	struct str message;     /* lent for the call; frame_decode() it */
	int fds[FRAME_FDS_MAX]; /* take_fd() what is kept; the rest is closed afterwards */
	unsigned fds_len;
	bool is_cut; /* this process had no room for all of its descriptors */
};

struct channel_ops {
	void (*frame)(void *arg, struct channel_frame *frame);
	/* The other end is gone, or broke the rules (-EBADMSG). channel_close() it. */
	void (*failed)(void *arg, int status);
};

struct channel {
	uv_poll_t poll;
	int fd; /* -1: closed */
	const struct channel_ops *ops;
	void *arg;
	struct list queue; /* messages that the socket did not take yet */
	size_t queued;     /* their bytes */
	void (*closed)(void *arg);
};

/* Connects to a listening socket of that path, of any length. Returns the fd or a negative errno.
 */
int channel_connect(const char *path);

/* The process at the other end: who called listen(). 0 if that cannot be told. */
pid_t channel_peer(const struct channel *channel);

/* Whether nobody is at the other end any more, also if `failed` has not told of it yet. */
bool channel_is_gone(const struct channel *channel);

/* Owns the fd from here on, also on failure. */
int channel_open(struct channel *channel, uv_loop_t *loop, int fd, const struct channel_ops *ops,
		 void *arg);

struct channel_message {
	struct frame_head head;
	const struct frame_field *fields;
	const void *value;
	const int *fds; /* lent */
	unsigned fds_len;
};

/* 0; -EMSGSIZE, -ENOBUFS (the queue is full) or -EPIPE, and nothing was sent. */
int channel_send(struct channel *channel, const struct channel_message *message);

/* The same for a frame that is encoded already and carries no descriptors. */
int channel_send_frame(struct channel *channel, struct str frame);

/* Nothing is called any more but `closed`, when the memory may be freed. */
void channel_close(struct channel *channel, void (*closed)(void *arg));

#endif
