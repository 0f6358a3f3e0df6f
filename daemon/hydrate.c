#include "daemon/hydrate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "daemon/tar.h"
#include "daemon/exec_pipe.h"

#define STACK_SIZE (256 * 1024)

struct hydrate {
	const struct hydrate_ops *ops; /* NULL: it was dropped */
	void *arg;
	struct exec_pipe body, frames; /* the loop's ends */
	unsigned pipes_open;
	atomic_bool is_dropped; /* for the thread too */
	uv_thread_t thread;
	/* The thread's, until it is joined. */
	int in, out;
	int result;
	struct err err;
};

static unsigned hydrates;

static void run(void *arg)
{
	struct hydrate *h = arg;

	h->result = tar_read_entries(h->in, h->out, &h->is_dropped, &h->err);
	close(h->in);
	close(h->out);
}

static void on_closed(struct exec_pipe *pipe)
{
	struct hydrate *h = pipe->arg;

	if (--h->pipes_open)
		return;
	hydrates--;
	free(h);
}

static void on_frames(struct exec_pipe *pipe, struct str bytes)
{
	struct hydrate *h = pipe->arg;

	if (h->ops)
		h->ops->frames(h->arg, bytes);
}

/* The thread has closed its end, which is the last that it does. */
static void on_end(struct exec_pipe *pipe)
{
	struct hydrate *h = pipe->arg;
	const struct hydrate_ops *ops = take(h->ops);

	uv_thread_join(&h->thread);
	if (ops)
		ops->ended(h->arg, h->result < 0 ? &h->err : NULL);
	exec_pipe_close(&h->body);
	exec_pipe_close(&h->frames);
}

static void on_room(struct exec_pipe *pipe)
{
	struct hydrate *h = pipe->arg;

	if (h->ops)
		h->ops->room(h->arg);
}

static const struct exec_pipe_ops pipe_ops = {on_frames, on_end, on_room, on_closed};

static int start_thread(struct hydrate *h, int *body_fd, int *frames_fd)
{
	const uv_thread_options_t options = {UV_THREAD_HAS_STACK_SIZE, STACK_SIZE};
	int body[2], frames[2];

	if (pipe2(body, O_CLOEXEC) < 0)
		return -errno;
	if (pipe2(frames, O_CLOEXEC) < 0) {
		int error = -errno;

		close(body[0]);
		close(body[1]);
		return error;
	}
	h->in = body[0];
	h->out = frames[1];
	*body_fd = body[1];
	*frames_fd = frames[0];
	if (uv_thread_create_ex(&h->thread, &options, run, h) == 0)
		return 0;
	for (int i = 0; i < 2; i++) {
		close(body[i]);
		close(frames[i]);
	}
	return -EAGAIN;
}

struct hydrate *hydrate_new(uv_loop_t *loop, const struct hydrate_ops *ops, void *arg,
			    struct err *err)
{
	struct hydrate *h = hydrates < HYDRATES_MAX ? calloc(1, sizeof(*h)) : NULL;
	int body_fd = -1, frames_fd = -1, r;

	if (!h) {
		err_set(err, -EBUSY, ERR_CAPACITY_EXCEEDED,
			"%d archives are being unpacked: try again when one is done", HYDRATES_MAX);
		return NULL;
	}
	h->ops = ops;
	h->arg = arg;
	h->pipes_open = 2;
	exec_pipe_init(&h->body, loop, &pipe_ops, h);
	exec_pipe_init(&h->frames, loop, &pipe_ops, h);
	r = start_thread(h, &body_fd, &frames_fd);
	if (r < 0) {
		err_set(err, r, ERR_UNAVAILABLE, "no thread could be started: %s", strerror(-r));
		free(h);
		return NULL;
	}
	hydrates++;
	exec_pipe_open_write(&h->body, body_fd);
	exec_pipe_open_read(&h->frames, frames_fd);
	return h;
}

bool hydrate_write(struct hydrate *h, struct str bytes)
{
	return exec_pipe_write(&h->body, bytes);
}

void hydrate_end(struct hydrate *h)
{
	exec_pipe_write_end(&h->body);
}

void hydrate_pause(struct hydrate *h)
{
	exec_pipe_pause(&h->frames);
}

void hydrate_resume(struct hydrate *h)
{
	exec_pipe_resume(&h->frames);
}

/* The thread gives up: a little of what it got may be gigabytes. What it still says is dropped. */
void hydrate_drop(struct hydrate *h)
{
	h->ops = NULL;
	atomic_store(&h->is_dropped, true);
	exec_pipe_close(&h->body);
	exec_pipe_discard(&h->frames);
}
