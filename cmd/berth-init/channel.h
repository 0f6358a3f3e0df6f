/*
 * The agent socket: one connection at a time, whole frames with file descriptors, nothing that
 * waits. Whoever connects must come from outside of the sandbox's pid namespace.
 */
#ifndef BERTH_INIT_CHANNEL_H
#define BERTH_INIT_CHANNEL_H

#include "proto/frame.h"

struct message {
	struct frame_head head;
	struct str bytes; /* in the channel's buffer, until the next one */
	int fds[FRAME_FDS_MAX];
	unsigned fd_count; /* the receiver's, to use or to close */
};

/* To be sent. The fds stay the sender's. */
struct notice {
	uint16_t type;
	uint32_t tag;
	const struct frame_field *fields;
	const void *value;
	const int *fds;
	unsigned fd_count;
};

struct channel {
	int listen_fd;
	int fd; /* -1: nobody is connected */
	uint16_t version;
	char buffer[FRAME_MAX];
};

/* Takes the bound socket. */
int channel_init(struct channel *channel, int bound_fd);

/* The fd of a connection that waits. -1: there is none, or it came from inside. */
int channel_accept(struct channel *channel);

/* 1: a message; 0: none is there now; else the connection is of no use any more. */
int channel_receive(struct channel *channel, struct message *ret);
void message_close(struct message *message);

/*
 * 0: sent. -EAGAIN: the peer does not read, try when the socket is writable. -ENOBUFS: the kernel
 * has too much in flight, try a little later. Else the connection is of no use any more.
 */
int channel_send(struct channel *channel, const struct notice *notice);

#endif
