#include "daemon/exec_pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"

#define READS_PER_TURN 4 /* so that one flood does not starve the others */

static void on_readable(uv_poll_t *poll, int status, int events);
static void on_writable(uv_poll_t *poll, int status, int events);

void exec_pipe_init(struct exec_pipe *pipe, uv_loop_t *loop, const struct exec_pipe_ops *ops,
		    void *arg)
{
	*pipe = (struct exec_pipe){.fd = -1, .ops = ops, .arg = arg, .loop = loop};
	buf_init(&pipe->unwritten, EXEC_UNWRITTEN_MAX);
}

static void on_shut(uv_handle_t *handle)
{
	struct exec_pipe *pipe = container_of((uv_poll_t *)handle, struct exec_pipe, poll);

	pipe->is_polling = false;
	if (pipe->is_closed)
		pipe->ops->closed(pipe);
}

/*
 * The descriptor goes at once, so that the process inside sees it, and the handle with it: one that
 * is closed later takes the number's next owner off the loop.
 */
static void shut(struct exec_pipe *pipe)
{
	if (pipe->fd < 0)
		return;
	uv_close((uv_handle_t *)&pipe->poll, on_shut);
	close(take_fd(&pipe->fd));
	pipe->is_shut = true;
}

void exec_pipe_close(struct exec_pipe *pipe)
{
	if (pipe->is_closed)
		return;
	pipe->is_closed = true;
	shut(pipe);
	buf_close(&pipe->unwritten);
	if (!pipe->is_polling)
		pipe->ops->closed(pipe);
}

void exec_pipe_want(struct exec_pipe *pipe, bool wanted)
{
	pipe->is_wanted = wanted;
}

bool exec_pipe_is_wanted(const struct exec_pipe *pipe)
{
	return pipe->is_wanted;
}

bool exec_pipe_is_open(const struct exec_pipe *pipe)
{
	return pipe->fd >= 0;
}

bool exec_pipe_fits(int fd, int mode)
{
	return fcntl(fd, F_GETPIPE_SZ) > 0 && (fcntl(fd, F_GETFL) & O_ACCMODE) == mode;
}

static bool adopt(struct exec_pipe *pipe, int fd)
{
	if (pipe->is_closed || uv_poll_init(pipe->loop, &pipe->poll, fd) < 0) {
		close(fd);
		return false;
	}
	pipe->is_polling = true;
	pipe->fd = fd;
	return true;
}

/* --- reading --- */

/* Copies, as read() does. RWF_NOWAIT would do too, but pipes know it only since Linux 6.4. */
ssize_t exec_pipe_read_now(int fd, char *bytes, size_t size)
{
	struct iovec part = {bytes, size};

	return vmsplice(fd, &part, 1, SPLICE_F_NONBLOCK);
}

static void count(struct exec_pipe *pipe, ssize_t n)
{
	if (n > 0)
		pipe->left -= (size_t)n < pipe->left ? (size_t)n : pipe->left;
}

static ssize_t copy_once(struct exec_pipe *pipe)
{
	char bytes[EXEC_PIPE_READ];
	ssize_t n = exec_pipe_read_now(pipe->fd, bytes, sizeof(bytes));

	if (n < 0)
		return -errno;
	count(pipe, n);
	if (n > 0 && !pipe->is_discarding)
		pipe->ops->data(pipe, (struct str){bytes, (size_t)n});
	return n;
}

static ssize_t pull_once(struct exec_pipe *pipe)
{
	ssize_t n = pipe->ops->pull(pipe, pipe->fd);

	count(pipe, n);
	/* Paused or discarded: what is left of it is not gone. */
	return n < 0 && n != -EAGAIN ? -EINTR : n;
}

static ssize_t read_some(struct exec_pipe *pipe)
{
	size_t moved = 0;

	if (pipe->ops->pull && !pipe->is_discarding)
		return pull_once(pipe);
	if (pipe->ops->move && !pipe->is_discarding)
		moved = pipe->ops->move(pipe, pipe->fd);
	if (!moved)
		return copy_once(pipe);
	count(pipe, (ssize_t)moved);
	return (ssize_t)moved;
}

/* 1: bytes were handed on. 0: nothing there now. -1: the end. */
static int read_once(struct exec_pipe *pipe)
{
	ssize_t n = read_some(pipe);

	if (n > 0)
		return 1;
	if (n == -EINTR)
		return 0;
	pipe->left = 0;
	if (n == -EAGAIN)
		return 0;
	shut(pipe);
	return -1;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
	struct exec_pipe *pipe = container_of(poll, struct exec_pipe, poll);
	bool was_left = pipe->is_marked && pipe->left;
	int r = 1;

	for (int i = 0; i < READS_PER_TURN && r > 0 && pipe->fd >= 0 && !pipe->is_paused; i++)
		r = read_once(pipe);
	if (r < 0 || (was_left && !pipe->left))
		pipe->ops->end(pipe);
}

void exec_pipe_open_read(struct exec_pipe *pipe, int fd)
{
	if (adopt(pipe, fd) && !pipe->is_paused)
		uv_poll_start(&pipe->poll, UV_READABLE, on_readable);
}

void exec_pipe_pause(struct exec_pipe *pipe)
{
	if (pipe->is_paused || pipe->is_discarding)
		return;
	pipe->is_paused = true;
	if (pipe->fd >= 0)
		uv_poll_stop(&pipe->poll);
}

void exec_pipe_resume(struct exec_pipe *pipe)
{
	pipe->is_paused = false;
	if (pipe->fd >= 0)
		uv_poll_start(&pipe->poll, UV_READABLE, on_readable);
}

void exec_pipe_mark(struct exec_pipe *pipe)
{
	int there = 0;

	pipe->is_marked = true;
	if (pipe->fd >= 0 && ioctl(pipe->fd, FIONREAD, &there) == 0 && there > 0)
		pipe->left = (size_t)there;
}

bool exec_pipe_drain(struct exec_pipe *pipe)
{
	for (int i = 0; i < READS_PER_TURN && pipe->fd >= 0 && pipe->left && !pipe->is_paused; i++)
		read_once(pipe);
	return pipe->fd < 0 || !pipe->left;
}

void exec_pipe_pull(struct exec_pipe *pipe)
{
	for (int i = 0; i < READS_PER_TURN && pipe->fd >= 0 && pipe->left; i++)
		read_once(pipe);
}

void exec_pipe_discard(struct exec_pipe *pipe)
{
	pipe->is_discarding = true;
	exec_pipe_resume(pipe);
}

/* --- writing --- */

static void shut_written(struct exec_pipe *pipe)
{
	if (pipe->fd < 0)
		return;
	shut(pipe);
	if (pipe->ops->written)
		pipe->ops->written(pipe);
}

static void give_up(struct exec_pipe *pipe)
{
	shut_written(pipe);
	buf_close(&pipe->unwritten);
}

/* Through a pipe of our own: what theirs does not take is dropped with it, and written again. */
static ssize_t write_by_splice(int fd, struct str bytes)
{
	int ends[2];
	ssize_t n;

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return -1;
	n = write(ends[1], bytes.at, bytes.len);
	if (n > 0)
		n = splice(ends[0], NULL, fd, NULL, (size_t)n, SPLICE_F_NONBLOCK);
	for (int i = 0, error = errno; i < 2; i++, errno = error)
		close(ends[i]);
	return n;
}

static ssize_t write_now(int fd, struct str bytes)
{
	struct iovec part = {(char *)bytes.at, bytes.len};
	ssize_t n = pwritev2(fd, &part, 1, -1, RWF_NOWAIT);

	/* Before Linux 6.4, or somebody who holds the same file has spliced into it. */
	return n < 0 && errno == EOPNOTSUPP ? write_by_splice(fd, bytes) : n;
}

/* How much of `bytes` was taken; less than all: there is no room now, or nobody reads any more. */
static size_t write_bytes(struct exec_pipe *pipe, struct str bytes)
{
	size_t written = 0;

	while (pipe->fd >= 0 && written < bytes.len) {
		ssize_t n =
			write_now(pipe->fd, (struct str){bytes.at + written, bytes.len - written});

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		if (n < 0)
			give_up(pipe); /* nobody reads it any more */
		else
			written += (size_t)n;
	}
	return written;
}

static void write_some(struct exec_pipe *pipe)
{
	struct buf *unwritten = &pipe->unwritten;
	size_t written = write_bytes(pipe, (struct str){buf_at(unwritten), buf_len(unwritten)});

	if (pipe->fd < 0)
		return;
	buf_consume(unwritten, written);
	if (buf_len(unwritten)) {
		uv_poll_start(&pipe->poll, UV_WRITABLE, on_writable);
		return;
	}
	buf_close(unwritten);
	uv_poll_stop(&pipe->poll);
	if (pipe->end_wanted)
		shut_written(pipe);
}

/* Whoever was told to wait is told when there is room, whichever call made it. */
static void check_room(struct exec_pipe *pipe)
{
	if (!pipe->is_full || buf_len(&pipe->unwritten) >= EXEC_STDIN_HIGH)
		return;
	pipe->is_full = false;
	pipe->ops->room(pipe);
}

static void on_writable(uv_poll_t *poll, int status, int events)
{
	struct exec_pipe *pipe = container_of(poll, struct exec_pipe, poll);

	write_some(pipe);
	check_room(pipe);
}

void exec_pipe_open_write(struct exec_pipe *pipe, int fd)
{
	if (adopt(pipe, fd))
		write_some(pipe);
	check_room(pipe);
}

/* Bytes that come before the process runs wait here too. */
bool exec_pipe_write(struct exec_pipe *pipe, struct str bytes)
{
	size_t written = 0;

	if (pipe->is_closed || pipe->is_shut)
		return false;
	if (!buf_len(&pipe->unwritten))
		written = write_bytes(pipe, bytes);
	if (pipe->is_shut || written == bytes.len)
		return pipe->is_full;
	if (buf_append(&pipe->unwritten, bytes.at + written, bytes.len - written) < 0)
		give_up(pipe); /* a writer that does not wait when told to is ours to mend */
	else if (pipe->fd >= 0)
		write_some(pipe);
	if (buf_len(&pipe->unwritten) >= EXEC_STDIN_HIGH)
		pipe->is_full = true;
	else
		check_room(pipe);
	return pipe->is_full;
}

void exec_pipe_write_end(struct exec_pipe *pipe)
{
	pipe->end_wanted = true;
	if (pipe->fd >= 0 && !buf_len(&pipe->unwritten))
		write_some(pipe);
}

bool exec_pipe_is_writable(const struct exec_pipe *pipe)
{
	return pipe->is_wanted && !pipe->end_wanted && !pipe->is_shut && !pipe->is_closed;
}
