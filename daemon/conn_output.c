/*
 * The way out. Bytes go to the kernel at once if it takes them; what it leaves is kept in `output`
 * and flown by uv_write, one at a time. The answer's producer is paused at CONN_WRITE_HIGH unsent
 * bytes and resumed at CONN_WRITE_LOW.
 */
#include "daemon/conn.h"

#include <assert.h>
#include <fcntl.h>

#include "base/log.h"

#define PARTS_MAX 4

static struct stream *answer_under_way(struct conn *c)
{
	struct exchange *x = c->exchange;

	return x && x->answer.producer && c->state != CONN_CLOSED ? &x->answer : NULL;
}

/*
 * Only pauses: a producer is never resumed from within its own push. One that pushes until it is
 * paused must not go on for ever on a broken connection; its abort follows.
 */
static void check_full(struct conn *c)
{
	struct stream *answer = answer_under_way(c);

	if (answer && (c->is_broken || conn_unsent(c) >= CONN_WRITE_HIGH))
		stream_pause(answer);
}

/* Whoever is paused has bytes in flight, so this comes. */
static void check_room(struct conn *c)
{
	struct stream *answer = answer_under_way(c);

	if (answer && !c->is_broken && conn_unsent(c) <= CONN_WRITE_LOW)
		stream_resume(answer);
}

static void on_written(uv_write_t *write, int status)
{
	struct conn *c = container_of(write, struct conn, write);

	c->is_flying = false;
	buf_close(&c->flying);
	if (c->state == CONN_CLOSED)
		return;
	if (status < 0) {
		conn_cut(c);
		return;
	}
	if (c->state == CONN_FLUSH)
		server_watch(c); /* the client takes bytes: its time begins anew */
	conn_flush(c);
	check_room(c);
	conn_proceed(c);
}

static void discard(struct conn *c)
{
	buf_close(&c->output);
	if (!c->is_flying)
		buf_close(&c->flying);
	conn_broken(c);
	check_full(c);
}

/* Offers everything at hand to the kernel; what it does not take stays in `output`. */
static void try_now(struct conn *c, const uv_buf_t *parts, unsigned count)
{
	uv_buf_t all[PARTS_MAX + 1];
	unsigned n = 0;
	size_t left;
	int taken;

	if (buf_len(&c->output))
		all[n++] = uv_buf_init((char *)buf_at(&c->output), (unsigned)buf_len(&c->output));
	for (unsigned i = 0; i < count; i++)
		all[n++] = parts[i];
	taken = uv_try_write(&c->uv.stream, all, n);
	if (taken == UV_EAGAIN)
		taken = 0;
	if (taken < 0) {
		discard(c);
		return;
	}
	left = (size_t)taken;
	if (left >= buf_len(&c->output)) {
		left -= buf_len(&c->output);
		buf_close(&c->output);
	} else {
		buf_consume(&c->output, left);
		left = 0;
	}
	for (unsigned i = 0; i < count; i++) {
		size_t skip = left < parts[i].len ? left : parts[i].len;

		left -= skip;
		if (buf_append(&c->output, parts[i].base + skip, parts[i].len - skip) < 0) {
			log_warn("connection cut: its client left more than %d bytes unread",
				 CONN_OUTPUT_MAX);
			discard(c);
			return;
		}
	}
}

static void fly(struct conn *c)
{
	struct buf landed = c->flying;
	uv_buf_t bytes;

	assert(!c->is_flying);
	c->flying = c->output;
	c->output = landed;
	bytes = uv_buf_init((char *)buf_at(&c->flying), (unsigned)buf_len(&c->flying));
	if (uv_write(&c->write, &c->uv.stream, &bytes, 1, on_written) < 0)
		discard(c);
	else
		c->is_flying = true;
}

void conn_flush(struct conn *c)
{
	if (c->state == CONN_CLOSED || c->is_broken || c->is_flying || !buf_len(&c->output))
		return;
	try_now(c, NULL, 0);
	if (!c->is_broken && buf_len(&c->output))
		fly(c);
}

void conn_output(struct conn *c, const uv_buf_t *parts, unsigned count)
{
	size_t len = buf_len(&c->output);

	assert(count <= PARTS_MAX);
	if (c->state == CONN_CLOSED || c->is_broken) {
		check_full(c);
		return;
	}
	for (unsigned i = 0; i < count; i++)
		len += parts[i].len;
	if (!c->is_flying && ((!c->is_processing && !c->is_corked) || len >= CONN_CORK_MAX)) {
		try_now(c, parts, count);
		if (!c->is_broken && buf_len(&c->output) && !c->is_flying)
			fly(c);
	} else {
		for (unsigned i = 0; i < count; i++) {
			if (buf_append(&c->output, parts[i].base, parts[i].len) < 0) {
				discard(c);
				return;
			}
		}
	}
	check_full(c);
}

/* Whatever hinders it, an end or an error too, is met again by who then copies. */
size_t conn_move(struct conn *c, int pipe_fd, size_t max)
{
	uv_os_fd_t fd;
	ssize_t n;

	if (c->state == CONN_CLOSED || c->is_broken || conn_unsent(c) || !max ||
	    uv_fileno(&c->uv.handle, &fd) < 0)
		return 0;
	n = splice(pipe_fd, NULL, fd, NULL, max, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	return n > 0 ? (size_t)n : 0;
}
