/*
 * The keeper's end of <run>/keeper.sock: the listener and the one connection of berthd. Only the
 * daemon's user, root and ourselves get in; a new connection replaces the old one. Frames that the
 * peer does not read wait in a queue, and past CONN_BUSY of them nothing more is read from it.
 */
#ifndef BERTH_CONTAINER_KEEPER_CONN_H
#define BERTH_CONTAINER_KEEPER_CONN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "container/loop.h"
#include "proto/frame.h"

#define CONN_BUSY 256

struct keeper_conn {
	struct loop *loop;
	int run_fd; /* borrowed */
	uid_t daemon_uid;
	gid_t daemon_gid;
	struct watch listener, peer;
	struct timer retry;
	uint64_t serial; /* of the connection; each has another one */
	struct list out;
	unsigned out_count;
	/* One frame from the peer; what it points to is gone afterwards. Negative: drop the peer.
	 */
	int (*on_frame)(struct keeper_conn *conn, const struct frame_head *head, struct str bytes);
	/* The peer is gone: what it asked for needs no answer any more. */
	void (*on_gone)(struct keeper_conn *conn);
	void (*on_peer)(struct keeper_conn *conn);
};

/* Whom to answer: a connection and the request's tag. */
struct keeper_asker {
	uint64_t serial;
	uint32_t tag;
};

struct keeper_answer {
	uint16_t type;
	const struct frame_field *fields;
	const void *value;
	const int *fds; /* sent as copies; the caller's stay the caller's */
	unsigned fd_count;
};

/* The callbacks, run_fd, loop and ids are set by the caller. Replaces a socket that was left. */
int keeper_conn_listen(struct keeper_conn *conn, struct err *err);
/* Removes the socket's name, unless a peer is just coming in: then -EBUSY, and all goes on. */
int keeper_conn_leave(struct keeper_conn *conn);
/* Removes the socket's name and drops the peer. */
void keeper_conn_close(struct keeper_conn *conn);

bool keeper_conn_has_peer(const struct keeper_conn *conn);
/* Dropped in silence when that connection is gone. */
void keeper_conn_answer(struct keeper_conn *conn, struct keeper_asker asker,
			const struct keeper_answer *answer);

#endif
