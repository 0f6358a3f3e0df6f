#include "daemon/stream.h"

#include <assert.h>

void stream_push(struct stream *s, const char *bytes, size_t len)
{
	if (!s->is_over && len)
		s->consumer->data(s->consumer_arg, bytes, len);
}

size_t stream_move(struct stream *s, int pipe_fd, size_t max)
{
	if (s->is_over || s->is_paused || !s->consumer->move)
		return 0;
	return s->consumer->move(s->consumer_arg, pipe_fd, max);
}

void stream_end(struct stream *s, int status)
{
	assert(status <= 0);
	if (s->is_over)
		return;
	s->is_over = true;
	s->consumer->end(s->consumer_arg, status);
}

void stream_pause(struct stream *s)
{
	if (s->is_over || s->is_paused)
		return;
	s->is_paused = true;
	s->producer->pause(s->producer_arg);
}

void stream_resume(struct stream *s)
{
	if (s->is_over || !s->is_paused)
		return;
	s->is_paused = false;
	s->producer->resume(s->producer_arg);
}

void stream_abort(struct stream *s)
{
	if (s->is_over)
		return;
	s->is_over = true;
	s->producer->abort(s->producer_arg);
}
