#include "daemon/channel.h"

#include <errno.h>
#include <poll.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/cleanup.h"

/* A message that waits for room in the socket, with descriptors of its own. */
struct pending {
	struct list link;
	int fds[FRAME_FDS_MAX];
	unsigned fds_len;
	size_t len;
	char bytes[];
};

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int) * FRAME_FDS_MAX)];
};

int channel_connect(const char *path)
{
	cleanup_fd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	cleanup_fd int file = open(path, O_PATH | O_CLOEXEC | O_NOFOLLOW);
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	if (fd < 0 || file < 0)
		return -errno;
	/* Through the descriptor: no limit on the path's length. */
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d", file);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	return take_fd(&fd);
}

bool channel_is_gone(const struct channel *channel)
{
	struct pollfd line = {.fd = channel->fd};

	return poll(&line, 1, 0) > 0;
}

pid_t channel_peer(const struct channel *channel)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return getsockopt(channel->fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 ? 0 : peer.pid;
}

/* --- receiving --- */

/* It may be anything: closing a socket that lingers would wait for its peer. */
static void close_foreign(int fd)
{
	struct linger none = {0};

	if (fd < 0)
		return;
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	close(fd);
}

static void close_fds(struct channel_frame *frame)
{
	for (unsigned i = 0; i < frame->fds_len; i++)
		close_foreign(frame->fds[i]);
	frame->fds_len = 0;
}

static void collect_fds(struct msghdr *msg, struct channel_frame *frame)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t bytes = c->cmsg_len - CMSG_LEN(0);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		memcpy(frame->fds, CMSG_DATA(c), bytes);
		frame->fds_len = (unsigned)(bytes / sizeof(int));
	}
}

/* 1: a frame. 0: nothing there. */
static int receive(struct channel *ch, char *bytes, struct channel_frame *frame)
{
	union control control;
	struct iovec part = {bytes, FRAME_MAX};
	struct msghdr msg = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	ssize_t n;

	frame->fds_len = 0;
	/* Who goes without having read all resets it: told once, and before what it said. */
	do
		n = recvmsg(ch->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == ECONNRESET);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	collect_fds(&msg, frame);
	if (n == 0) {
		close_fds(frame); /* an empty message may carry some */
		return -ECONNRESET;
	}
	frame->message = (struct str){bytes, (size_t)n};
	/* Cut before the room was used up: it is we who have no descriptors left, not its fault. */
	frame->is_cut = msg.msg_flags & MSG_CTRUNC && frame->fds_len < FRAME_FDS_MAX;
	if (msg.msg_flags & MSG_TRUNC || (msg.msg_flags & MSG_CTRUNC && !frame->is_cut) ||
	    frame_decode_head(frame->message, &frame->head) < 0) {
		close_fds(frame);
		return -EBADMSG;
	}
	return 1;
}

/* False: that was the last of them, and it is said. */
static bool take_frames(struct channel *ch)
{
	char bytes[FRAME_MAX];
	struct channel_frame frame;

	for (int i = 0; i < CHANNEL_TURN && ch->fd >= 0; i++) {
		int r = receive(ch, bytes, &frame);

		if (r == 0)
			break;
		if (r < 0) {
			uv_poll_stop(&ch->poll);
			ch->ops->failed(ch->arg, r);
			return false;
		}
		ch->ops->frame(ch->arg, &frame);
		close_fds(&frame);
	}
	return ch->fd >= 0;
}

/* --- sending --- */

static int send_now(int fd, struct str bytes, const int *fds, unsigned fds_len)
{
	union control control;
	struct iovec part = {(char *)bytes.at, bytes.len};
	struct msghdr msg = {.msg_iov = &part, .msg_iovlen = 1};
	struct cmsghdr *c;

	if (fds_len) {
		memset(&control, 0, sizeof(control));
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * fds_len);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * fds_len);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * fds_len);
	}
	return sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static void pending_free(struct pending *p)
{
	for (unsigned i = 0; i < p->fds_len; i++)
		close(p->fds[i]);
	list_remove(&p->link);
	free(p);
}

static int queue(struct channel *ch, struct str bytes, const int *fds, unsigned fds_len)
{
	struct pending *p;

	if (bytes.len > CHANNEL_QUEUE_MAX - ch->queued)
		return -ENOBUFS;
	p = malloc(sizeof(*p) + bytes.len);
	if (!p)
		return -ENOBUFS;
	list_init(&p->link);
	p->fds_len = 0;
	p->len = bytes.len;
	memcpy(p->bytes, bytes.at, bytes.len);
	for (unsigned i = 0; i < fds_len; i++) {
		int copy = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);

		if (copy < 0) {
			pending_free(p);
			return -ENOBUFS;
		}
		p->fds[p->fds_len++] = copy;
	}
	list_append(&ch->queue, &p->link);
	ch->queued += p->len;
	return 0;
}

static void watch(struct channel *ch);

static void send_queued(struct channel *ch)
{
	while (!list_is_empty(&ch->queue)) {
		struct pending *p = list_entry(ch->queue.next, struct pending, link);
		int r = send_now(ch->fd, (struct str){p->bytes, p->len}, p->fds, p->fds_len);

		if (r == -EAGAIN || r == -EINTR)
			break;
		ch->queued -= p->len;
		pending_free(p); /* an error shows when we read */
	}
	watch(ch);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct channel *ch = container_of(poll, struct channel, poll);

	/* Whoever went away without reading all may have said something before: that counts. */
	if (status < 0) {
		if (take_frames(ch))
			watch(ch);
		return;
	}
	if (events & UV_WRITABLE)
		send_queued(ch);
	if (events & UV_READABLE)
		take_frames(ch);
}

static void watch(struct channel *ch)
{
	uv_poll_start(&ch->poll,
		      list_is_empty(&ch->queue) ? UV_READABLE : UV_READABLE | UV_WRITABLE, on_poll);
}

static int send_or_queue(struct channel *ch, struct str frame, const int *fds, unsigned fds_len)
{
	int r = -EAGAIN;

	if (list_is_empty(&ch->queue))
		r = send_now(ch->fd, frame, fds, fds_len);
	if (r == -EAGAIN || r == -EINTR) {
		r = queue(ch, frame, fds, fds_len);
		watch(ch);
	}
	return r;
}

int channel_send(struct channel *channel, const struct channel_message *message)
{
	char bytes[FRAME_MAX];
	int n;

	if (channel->fd < 0)
		return -EPIPE;
	n = frame_encode(bytes, sizeof(bytes), &message->head, message->fields, message->value);
	if (n < 0)
		return n;
	return send_or_queue(channel, (struct str){bytes, (size_t)n}, message->fds,
			     message->fds_len);
}

int channel_send_frame(struct channel *channel, struct str frame)
{
	return channel->fd < 0 ? -EPIPE : send_or_queue(channel, frame, NULL, 0);
}

/* --- life --- */

int channel_open(struct channel *channel, uv_loop_t *loop, int fd, const struct channel_ops *ops,
		 void *arg)
{
	int r;

	*channel = (struct channel){.fd = fd, .ops = ops, .arg = arg};
	list_init(&channel->queue);
	r = uv_poll_init(loop, &channel->poll, fd);
	if (r < 0) {
		close(take_fd(&channel->fd));
		return r;
	}
	watch(channel);
	return 0;
}

static void on_closed(uv_handle_t *handle)
{
	struct channel *ch = container_of((uv_poll_t *)handle, struct channel, poll);

	if (ch->closed)
		ch->closed(ch->arg);
}

void channel_close(struct channel *channel, void (*closed)(void *arg))
{
	int fd = take_fd(&channel->fd);

	channel->closed = closed;
	list_for_each_safe (node, &channel->queue)
		pending_free(list_entry(node, struct pending, link));
	uv_close((uv_handle_t *)&channel->poll, on_closed);
	close(fd); /* the poll handle was stopped by uv_close() */
}
