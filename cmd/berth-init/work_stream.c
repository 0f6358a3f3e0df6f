#include "cmd/berth-init/work_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define IN         0
#define OUT        1
#define PIPE_SIZE  (1024 * 1024)
#define SPLICE_MAX (1024 * 1024)

void stream_init(struct stream *s)
{
	s->in_at = s->in_end = s->out_len = 0;
	/* A favour, which a user with many pipes is not granted. */
	fcntl(IN, F_SETPIPE_SZ, PIPE_SIZE);
	fcntl(OUT, F_SETPIPE_SZ, PIPE_SIZE);
}

/* More bytes behind those that are there. 0: the end. */
static int fill(struct stream *s)
{
	ssize_t n;

	if (s->in_at) {
		memmove(s->in, s->in + s->in_at, s->in_end - s->in_at);
		s->in_end -= s->in_at;
		s->in_at = 0;
	}
	do
		n = read(IN, s->in + s->in_end, sizeof(s->in) - s->in_end);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -EPIPE;
	s->in_end += (size_t)n;
	return n > 0;
}

static uint32_t frame_size(const char *at)
{
	uint32_t size = 0;

	for (unsigned i = 0; i < sizeof(size); i++)
		size |= (uint32_t)(uint8_t)at[i] << (8 * i);
	return size;
}

int stream_next(struct stream *s, struct frame_head *ret_head, struct str *ret_message)
{
	size_t wanted = FRAME_HEADER_SIZE;

	for (;;) {
		size_t have = s->in_end - s->in_at;
		int r;

		if (have >= FRAME_HEADER_SIZE)
			wanted = frame_size(s->in + s->in_at);
		if (wanted < FRAME_HEADER_SIZE || wanted > FRAME_MAX)
			return -EPIPE;
		if (have >= wanted)
			break;
		r = fill(s);
		if (r < 0)
			return r;
		if (r == 0)
			return have ? -EPIPE : 0;
	}
	*ret_message = (struct str){s->in + s->in_at, wanted};
	s->in_at += wanted;
	return frame_decode_head(*ret_message, ret_head) < 0 ? -EPIPE : 1;
}

bool stream_has_more(const struct stream *s)
{
	return s->in_at < s->in_end;
}

static int write_all(int fd, const char *bytes, size_t size)
{
	while (size) {
		ssize_t n = write(fd, bytes, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		bytes += n;
		size -= (size_t)n;
	}
	return 0;
}

/* What has been read already, up to `size` bytes. */
static struct str take_in(struct stream *s, uint64_t size)
{
	struct str piece = {s->in + s->in_at, s->in_end - s->in_at};

	if (piece.len > size)
		piece.len = (size_t)size;
	s->in_at += piece.len;
	return piece;
}

static int pump_in(struct stream *s, int fd, uint64_t size)
{
	while (size) {
		int r = fill(s);
		struct str piece;

		if (r <= 0)
			return -EPIPE;
		piece = take_in(s, size);
		r = fd < 0 ? 0 : write_all(fd, piece.at, piece.len);
		if (r < 0)
			return r;
		size -= piece.len;
	}
	return 0;
}

int stream_skip(struct stream *s, uint64_t size)
{
	size -= take_in(s, size).len;
	return pump_in(s, -1, size);
}

int stream_read_into(struct stream *s, int fd, uint64_t size)
{
	struct str piece = take_in(s, size);
	int error = write_all(fd, piece.at, piece.len);

	if (error < 0)
		return error;
	size -= piece.len;
	while (size) {
		ssize_t n = splice(IN, NULL, fd, NULL,
				   size < SPLICE_MAX ? (size_t)size : SPLICE_MAX, SPLICE_F_MOVE);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EINVAL)
			return pump_in(s, fd, size); /* not on this file system */
		if (n <= 0)
			return n < 0 ? -errno : -EPIPE;
		size -= (uint64_t)n;
	}
	return 0;
}

int stream_flush(struct stream *s)
{
	int error = write_all(OUT, s->out, s->out_len);

	s->out_len = 0;
	return error < 0 ? -EPIPE : 0;
}

int stream_put(struct stream *s, uint16_t type, const struct frame_field *fields, const void *value)
{
	struct frame_head head = {type, FRAME_VERSION, s->tag};
	int size, error = 0;

	if (sizeof(s->out) - s->out_len < FRAME_MAX)
		error = stream_flush(s);
	if (error < 0)
		return error;
	size = frame_encode(s->out + s->out_len, FRAME_MAX, &head, fields, value);
	if (size < 0)
		return size;
	s->out_len += (size_t)size;
	return 0;
}

int stream_put_bytes(struct stream *s, const char *bytes, size_t size)
{
	int error = 0;

	if (sizeof(s->out) - s->out_len < size)
		error = stream_flush(s);
	if (error < 0)
		return error;
	if (size > sizeof(s->out))
		return write_all(OUT, bytes, size) < 0 ? -EPIPE : 0;
	memcpy(s->out + s->out_len, bytes, size);
	s->out_len += size;
	return 0;
}

/* By way of our own memory: what is small, and what cannot be spliced. 0: the file's end. */
static ssize_t pump_out(struct stream *s, int fd, off_t offset, uint64_t left)
{
	size_t room = sizeof(s->out) - s->out_len;
	ssize_t n;

	if (room < FRAME_MAX && left > room) {
		int error = stream_flush(s);

		if (error < 0)
			return error;
		room = sizeof(s->out);
	}
	do
		n = pread(fd, s->out + s->out_len, left < room ? (size_t)left : room, offset);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	s->out_len += (size_t)n;
	return n;
}

int stream_put_file(struct stream *s, int fd, off_t *offset, uint64_t *left)
{
	bool is_spliced = *left > FRAME_MAX;
	int error = is_spliced ? stream_flush(s) : 0;

	while (*left && error == 0) {
		size_t part = *left < SPLICE_MAX ? (size_t)*left : SPLICE_MAX;
		ssize_t n;

		if (is_spliced) {
			loff_t at = *offset;

			n = splice(fd, &at, OUT, NULL, part, SPLICE_F_MOVE);
			if (n < 0 && errno == EINTR)
				continue;
			if (n < 0 && errno == EINVAL) {
				is_spliced = false;
				continue;
			}
			error = n < 0 ? -errno : 0;
		} else {
			n = pump_out(s, fd, *offset, *left);
			error = n < 0 ? (int)n : 0;
		}
		if (n <= 0)
			break;
		*offset += n;
		*left -= (uint64_t)n;
	}
	return error;
}
