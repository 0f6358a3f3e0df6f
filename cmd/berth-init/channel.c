#include "cmd/berth-init/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "base/cleanup.h"

/* Ours is without stdio, which would be a sixth of the program. */
#define must(condition)                                                                            \
	do {                                                                                       \
		if (!(condition))                                                                  \
			__builtin_trap();                                                          \
	} while (0)

#define BACKLOG    64
#define NOTICE_MAX 160 /* bytes of the longest frame that init sends */

int channel_init(struct channel *c, int bound_fd)
{
	int type = 0;
	socklen_t size = sizeof(type);

	c->fd = -1;
	c->listen_fd = bound_fd;
	if (getsockopt(bound_fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0)
		return -errno;
	if (type != SOCK_SEQPACKET)
		return -EPROTOTYPE;
	if (fcntl(bound_fd, F_SETFD, FD_CLOEXEC) < 0 || fcntl(bound_fd, F_SETFL, O_NONBLOCK) < 0 ||
	    listen(bound_fd, BACKLOG) < 0)
		return -errno;
	return 0;
}

/* A pid that our namespace cannot name reads 0. */
static bool is_from_outside(int fd)
{
	struct ucred peer = {.pid = -1};
	socklen_t size = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid == 0;
}

int channel_accept(struct channel *c)
{
	cleanup_fd int fd = accept4(c->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return -errno;
	return is_from_outside(fd) ? take_fd(&fd) : -EPERM;
}

void message_close(struct message *m)
{
	while (m->fd_count)
		close(m->fds[--m->fd_count]);
}

static void take_fds(struct message *m, struct msghdr *header)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		must(count <= FRAME_FDS_MAX - m->fd_count); /* the control buffer holds no more */
		memcpy(m->fds + m->fd_count, CMSG_DATA(c), count * sizeof(int));
		m->fd_count += (unsigned)count;
	}
}

int channel_receive(struct channel *c, struct message *ret)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(FRAME_FDS_MAX * sizeof(int))];
	} control;
	struct iovec part = {c->buffer, sizeof(c->buffer)};
	struct msghdr header = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	ssize_t size = recvmsg(c->fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	int error = 0;

	ret->fd_count = 0;
	if (size < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	take_fds(ret, &header);
	ret->bytes = (struct str){c->buffer, (size_t)size};
	if (size == 0)
		error = -EPIPE;
	else if (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
		error = -EMSGSIZE;
	else
		error = frame_decode_head(ret->bytes, &ret->head);
	if (error < 0)
		message_close(ret);
	return error < 0 ? error : 1;
}

static void attach_fds(struct msghdr *header, void *control, const struct notice *notice)
{
	size_t size = notice->fd_count * sizeof(int);
	struct cmsghdr *c;

	header->msg_control = control;
	header->msg_controllen = CMSG_SPACE(size);
	c = CMSG_FIRSTHDR(header);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(size);
	memcpy(CMSG_DATA(c), notice->fds, size);
}

int channel_send(struct channel *c, const struct notice *notice)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(FRAME_FDS_MAX * sizeof(int))];
	} control = {0};
	struct frame_head head = {notice->type, c->version, notice->tag};
	char bytes[NOTICE_MAX];
	struct iovec part = {bytes, 0};
	struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
	int size = frame_encode(bytes, sizeof(bytes), &head, notice->fields, notice->value);

	must(size > 0 && notice->fd_count <= FRAME_FDS_MAX);
	part.iov_len = (size_t)size;
	if (notice->fd_count)
		attach_fds(&header, &control, notice);
	if (sendmsg(c->fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return 0;
	if (errno == ETOOMANYREFS || errno == ENOMEM)
		return -ENOBUFS;
	return -errno;
}
