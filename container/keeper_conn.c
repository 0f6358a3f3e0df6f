#include "container/keeper_conn.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"

#define SOCKET_NAME     "keeper.sock"
#define SOCKET_NAME_NEW ".keeper.sock"
#define BACKLOG         16
#define RETRY_MS        50    /* after the kernel was short of something */
#define OUT_MAX         32768 /* WELCOME is followed by a frame per sandbox */

/* A frame that waits until the peer reads. */
struct out_frame {
	struct list node;
	int fds[FRAME_FDS_MAX];
	unsigned fd_count;
	size_t len;
	char bytes[];
};

bool keeper_conn_has_peer(const struct keeper_conn *conn)
{
	return conn->peer.fd >= 0;
}

static void free_frame(struct keeper_conn *conn, struct out_frame *frame)
{
	for (unsigned i = 0; i < frame->fd_count; i++)
		close(frame->fds[i]);
	list_remove(&frame->node);
	conn->out_count--;
	free(frame);
}

static void drop_peer(struct keeper_conn *conn)
{
	int fd = conn->peer.fd;

	if (fd < 0)
		return;
	watch_stop(&conn->peer, conn->loop);
	close(fd);
	while (!list_is_empty(&conn->out))
		free_frame(conn, list_entry(conn->out.next, struct out_frame, node));
	conn->serial++;
	conn->on_gone(conn);
}

/* --- sending --- */

/* 1: sent, 0: the peer must read first, negative: it is gone. */
static int send_frame(int fd, const struct out_frame *frame)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int) * FRAME_FDS_MAX)];
		struct cmsghdr align;
	} control = {0};
	struct iovec iov = {(void *)(uintptr_t)frame->bytes, frame->len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (frame->fd_count) {
		size_t size = sizeof(int) * frame->fd_count;
		struct cmsghdr *cmsg;

		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(size);
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(size);
		memcpy(CMSG_DATA(cmsg), frame->fds, size);
	}
	if (sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
		return 1;
	return errno == EAGAIN || errno == EINTR ? 0 : -errno;
}

/* It will pass: memory, descriptors, or too many of them on their way. */
static bool is_short(int error)
{
	return error == -ENOBUFS || error == -ENOMEM || error == -ETOOMANYREFS ||
	       error == -EMFILE || error == -ENFILE;
}

static void watch_peer(struct keeper_conn *conn)
{
	bool can_send = conn->out_count && list_is_empty(&conn->retry.node);
	uint32_t events = (conn->out_count < CONN_BUSY ? EPOLLIN : 0) | (can_send ? EPOLLOUT : 0);

	watch_start(&conn->peer, conn->loop, conn->peer.fd, events);
}

/* A peer that is gone is found out by reading, so that no answer ever frees what asks for it. */
static void flush(struct keeper_conn *conn)
{
	while (!list_is_empty(&conn->out)) {
		struct out_frame *frame = list_entry(conn->out.next, struct out_frame, node);
		int r = send_frame(conn->peer.fd, frame);

		if (is_short(r))
			timer_start(&conn->retry, conn->loop, RETRY_MS);
		if (r == 0 || is_short(r))
			break;
		/* An answer is never left out: who does not get one gets none after it either. */
		if (r < 0)
			shutdown(conn->peer.fd, SHUT_RDWR);
		free_frame(conn, frame);
	}
	watch_peer(conn);
}

static void on_retry(struct timer *timer)
{
	struct keeper_conn *conn = container_of(timer, struct keeper_conn, retry);

	if (conn->listener.fd >= 0)
		watch_start(&conn->listener, conn->loop, conn->listener.fd, EPOLLIN);
	if (conn->peer.fd >= 0)
		flush(conn);
}

void keeper_conn_answer(struct keeper_conn *conn, struct keeper_asker asker,
			const struct keeper_answer *answer)
{
	struct frame_head head = {answer->type, FRAME_VERSION, asker.tag};
	struct out_frame *frame;
	char bytes[8192];
	int n;

	if (asker.serial != conn->serial || !keeper_conn_has_peer(conn))
		return;
	n = frame_encode(bytes, sizeof(bytes), &head, answer->fields, answer->value);
	assert(n > 0 && answer->fd_count <= FRAME_FDS_MAX);
	frame = conn->out_count < OUT_MAX ? malloc(sizeof(*frame) + (size_t)n) : NULL;
	if (!frame) {
		log_error("berthd does not read its answers, or memory is short; it is cut off");
		shutdown(conn->peer.fd, SHUT_RDWR);
		return;
	}
	memcpy(frame->bytes, bytes, (size_t)n);
	frame->len = (size_t)n;
	frame->fd_count = 0;
	for (unsigned i = 0; i < answer->fd_count; i++) {
		int fd = fcntl(answer->fds[i], F_DUPFD_CLOEXEC, 3);

		if (fd < 0)
			break; /* the peer sees a number that does not fit its type, and asks again
				*/
		frame->fds[frame->fd_count++] = fd;
	}
	list_append(&conn->out, &frame->node);
	conn->out_count++;
	flush(conn);
}

/* --- receiving --- */

static void close_passed(struct msghdr *msg)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			close(fd);
		}
	}
}

/* No request carries descriptors; whoever sends some is not a berthd. */
static int receive(struct keeper_conn *conn, char *bytes, size_t size)
{
	char control[CMSG_SPACE(sizeof(int) * 64)] __attribute__((aligned(sizeof(size_t))));
	struct iovec iov = {bytes, size};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(conn->peer.fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	/* A berthd that has gone without reading all has reset it, and what it asked for is not
	 * begun: nobody would hear of it. */
	if (n < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	if (msg.msg_controllen) {
		close_passed(&msg);
		return -EBADMSG;
	}
	if (n == 0)
		return -EPIPE;
	return msg.msg_flags & MSG_TRUNC ? -EMSGSIZE : (int)n;
}

static int read_frame(struct keeper_conn *conn)
{
	char bytes[FRAME_MAX];
	struct frame_head head;
	struct str message;
	int r = receive(conn, bytes, sizeof(bytes));

	if (r < 0)
		return r;
	message = (struct str){bytes, (size_t)r};
	r = frame_decode_head(message, &head);
	return r < 0 ? r : conn->on_frame(conn, &head, message);
}

static void on_peer_ready(struct watch *watch)
{
	struct keeper_conn *conn = container_of(watch, struct keeper_conn, peer);
	int r;

	if (conn->out_count)
		flush(conn);
	if (conn->out_count >= CONN_BUSY)
		return;
	r = read_frame(conn);
	if (r >= 0 || r == -EAGAIN)
		return;
	if (r != -EPIPE && r != -ECONNRESET)
		log_warn("berthd is cut off: %s", strerror(-r));
	drop_peer(conn);
}

/* --- the listener --- */

static bool may_come_in(const struct keeper_conn *conn, int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return false;
	if (cred.uid == conn->daemon_uid || cred.uid == 0 || cred.uid == geteuid())
		return true;
	log_warn("a connection was refused uid=%u pid=%d", (unsigned)cred.uid, (int)cred.pid);
	return false;
}

/* False when nobody waits. */
static bool accept_peer(struct keeper_conn *conn)
{
	cleanup_fd int fd = accept4(conn->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0 && is_short(-errno)) {
		/* Who waits stays in the queue, and would wake us again at once. */
		watch_start(&conn->listener, conn->loop, conn->listener.fd, 0);
		timer_start(&conn->retry, conn->loop, RETRY_MS);
		return false;
	}
	if (fd < 0)
		return errno == ECONNABORTED || errno == EINTR;
	if (!may_come_in(conn, fd))
		return true;
	drop_peer(conn);
	if (watch_start(&conn->peer, conn->loop, fd, EPOLLIN) < 0)
		return true;
	take_fd(&fd);
	conn->on_peer(conn);
	return true;
}

static void on_listener_ready(struct watch *watch)
{
	accept_peer(container_of(watch, struct keeper_conn, listener));
}

/* Its name appears when the socket listens and belongs to berthd, in place of an older one. */
static int bind_socket(const struct keeper_conn *conn, int fd)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	/* Through the directory's fd: the path of a run directory may be too long for an address.
	 */
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/" SOCKET_NAME_NEW,
		 conn->run_fd);
	if (unlinkat(conn->run_fd, SOCKET_NAME_NEW, 0) < 0 && errno != ENOENT)
		return -errno;
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    fchmodat(conn->run_fd, SOCKET_NAME_NEW, 0600, 0) < 0 ||
	    fchownat(conn->run_fd, SOCKET_NAME_NEW, conn->daemon_uid, conn->daemon_gid,
		     AT_SYMLINK_NOFOLLOW) < 0 ||
	    listen(fd, BACKLOG) < 0 ||
	    renameat(conn->run_fd, SOCKET_NAME_NEW, conn->run_fd, SOCKET_NAME) < 0)
		return -errno;
	return 0;
}

int keeper_conn_listen(struct keeper_conn *conn, struct err *err)
{
	cleanup_fd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int r;

	list_init(&conn->out);
	conn->serial = 1;
	watch_init(&conn->peer, on_peer_ready);
	watch_init(&conn->listener, on_listener_ready);
	timer_init(&conn->retry, on_retry);
	r = fd < 0 ? -errno : bind_socket(conn, fd);
	if (r == 0)
		r = watch_start(&conn->listener, conn->loop, fd, EPOLLIN);
	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "keeper.sock cannot be served: %s",
			       strerror(-r));
	take_fd(&fd);
	return 0;
}

int keeper_conn_leave(struct keeper_conn *conn)
{
	/* Whoever connected before the name was gone is served after all. */
	renameat(conn->run_fd, SOCKET_NAME, conn->run_fd, SOCKET_NAME_NEW);
	while (accept_peer(conn) && !keeper_conn_has_peer(conn))
		;
	if (keeper_conn_has_peer(conn)) {
		renameat(conn->run_fd, SOCKET_NAME_NEW, conn->run_fd, SOCKET_NAME);
		return -EBUSY;
	}
	unlinkat(conn->run_fd, SOCKET_NAME_NEW, 0);
	return 0;
}

void keeper_conn_close(struct keeper_conn *conn)
{
	int fd = conn->listener.fd;

	unlinkat(conn->run_fd, SOCKET_NAME, 0);
	drop_peer(conn);
	timer_stop(&conn->retry);
	watch_stop(&conn->listener, conn->loop);
	close_fdp(&fd);
}
