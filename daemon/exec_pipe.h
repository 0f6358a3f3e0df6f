/*
 * One end of a pipe to a process inside, on the loop. It is closed exactly once by its owner,
 * opened or not; `closed` follows, and the memory may go.
 *
 * The open file came from inside, and whoever made it may hold it still: clear its O_NONBLOCK, take
 * bytes that we saw, fill room that we saw. So no call here trusts the file's flags or what a poll
 * said before it: each says by itself that it does not wait.
 */
#ifndef BERTH_DAEMON_EXEC_PIPE_H
#define BERTH_DAEMON_EXEC_PIPE_H

#include <stdbool.h>

#include <uv.h>

#include "base/buf.h"
#include "base/str.h"

#define EXEC_PIPE_READ (64 * 1024)
/*
 * Unwritten bytes at which a writer is asked to wait, and those that it can have come to by then:
 * each byte of its last read may bring a frame. The pipe itself is what keeps a reader busy; more
 * here would only be copied once more.
 */
#define EXEC_STDIN_HIGH    (64 * 1024)
#define EXEC_UNWRITTEN_MAX (576 * 1024)

struct exec_pipe;

struct exec_pipe_ops {
	void (*data)(struct exec_pipe *pipe, struct str bytes);
	/* Reading: nobody can write any more, or all that was there at exec_pipe_mark() is read. */
	void (*end)(struct exec_pipe *pipe);
	void (*room)(struct exec_pipe *pipe); /* writing: fewer bytes wait, or nobody reads */
	void (*closed)(struct exec_pipe *pipe);
	/* Reading, instead of `data`, or NULL: moves what is there, and says how much; 0 at the
	 * end, -EAGAIN if nothing is there. After any other error the pipe must be paused, or
	 * discarded. */
	ssize_t (*pull)(struct exec_pipe *pipe, int fd);
	/* Reading, before `data`, or NULL: may take some of it by itself, and says how much. */
	size_t (*move)(struct exec_pipe *pipe, int fd);
	/* Writing, or NULL: all was written and it is closed, or nobody reads. */
	void (*written)(struct exec_pipe *pipe);
};

struct exec_pipe {
	uv_poll_t poll;
	int fd;
	const struct exec_pipe_ops *ops;
	void *arg;
	uv_loop_t *loop;
	struct buf unwritten;
	size_t left; /* of what was there at exec_pipe_mark() */
	bool is_marked;
	bool is_wanted;
	bool is_paused;
	bool is_full; /* writing: the writer waits for `room` */
	bool is_discarding;
	bool is_polling; /* the poll handle was made and is not closed yet */
	bool is_shut;    /* the descriptor was there and is gone */
	bool end_wanted; /* writing: close when everything is written */
	bool is_closed;
};

void exec_pipe_init(struct exec_pipe *pipe, uv_loop_t *loop, const struct exec_pipe_ops *ops,
		    void *arg);
void exec_pipe_close(struct exec_pipe *pipe);

void exec_pipe_want(struct exec_pipe *pipe, bool wanted);
bool exec_pipe_is_wanted(const struct exec_pipe *pipe);
/* A pipe's reading or writing end (O_RDONLY, O_WRONLY), and nothing else, such as a file. */
bool exec_pipe_fits(int fd, int mode);
/* For `pull`: copies, as read() does, and never waits. -1 and errno. */
ssize_t exec_pipe_read_now(int fd, char *bytes, size_t size);
/* Both own the fd, which fits. */
void exec_pipe_open_read(struct exec_pipe *pipe, int fd);
void exec_pipe_open_write(struct exec_pipe *pipe, int fd);
bool exec_pipe_is_open(const struct exec_pipe *pipe);

void exec_pipe_pause(struct exec_pipe *pipe);
void exec_pipe_resume(struct exec_pipe *pipe);
/* What is there now is the last that counts: a process that writes on cannot move the end. */
void exec_pipe_mark(struct exec_pipe *pipe);
/* Reads of it what one turn may. False: some is left, and `end` follows unless it is paused. */
bool exec_pipe_drain(struct exec_pipe *pipe);
/* The same, also of one that is paused. */
void exec_pipe_pull(struct exec_pipe *pipe);
/* What still comes is read and dropped. */
void exec_pipe_discard(struct exec_pipe *pipe);

/* True: enough for now; `room` follows. */
bool exec_pipe_write(struct exec_pipe *pipe, struct str bytes);
void exec_pipe_write_end(struct exec_pipe *pipe);
/* It is wanted, and takes bytes now or when it is opened. */
bool exec_pipe_is_writable(const struct exec_pipe *pipe);

#endif
