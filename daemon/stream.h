/*
 * One direction of bytes between two parties that do not know each other.
 *
 *	producer ── stream_push, stream_end ──> consumer      (data, end)
 *	producer <── stream_pause, stream_resume, stream_abort ── consumer
 *
 * Whoever owns the struct stream sets both sides before the first byte moves. Backpressure is part
 * of the type: a consumer that is full calls stream_pause() and gets at most what its producer had
 * already read (STREAM_OVERRUN_MAX bytes) until it calls stream_resume(). pause may be called from
 * within the producer's own stream_push(); resume and abort never are.
 *
 * A stream is over after stream_end() or stream_abort(), whichever comes first; each is delivered
 *at most once, and after it neither side is called again. Calls on a stream that is over do
 *nothing.
 */
#ifndef BERTH_DAEMON_STREAM_H
#define BERTH_DAEMON_STREAM_H

#include <stdbool.h>
#include <stddef.h>

#define STREAM_OVERRUN_MAX (64 * 1024)

struct stream_producer {
	void (*pause)(void *arg);
	void (*resume)(void *arg);
	void (*abort)(void *arg); /* nobody wants the rest */
};

struct stream_consumer {
	void (*data)(void *arg, const char *bytes, size_t len); /* bytes are lent for the call */
	void (*end)(void *arg, int status); /* 0: complete; negative errno: cut short */
	/* May be NULL, see stream_move(). */
	size_t (*move)(void *arg, int pipe_fd, size_t max);
};

struct stream {
	const struct stream_producer *producer;
	const struct stream_consumer *consumer;
	void *producer_arg, *consumer_arg;
	bool is_paused;
	bool is_over;
};

void stream_push(struct stream *s, const char *bytes, size_t len);
/*
 * Instead of a push: takes up to `max` bytes out of a pipe without copying them, and never waits.
 * 0: not now, or not this consumer; then they are read and pushed, which finds out why.
 */
size_t stream_move(struct stream *s, int pipe_fd, size_t max);
void stream_end(struct stream *s, int status);

void stream_pause(struct stream *s);
void stream_resume(struct stream *s);
void stream_abort(struct stream *s);

#endif
