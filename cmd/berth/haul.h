/*
 * Bytes on their way between us and a sandbox: requests that Ctrl-C ends, with progress shown, and
 * what a verb's exit code becomes. SIGPIPE is ignored meanwhile, and told by -EPIPE.
 */
#ifndef BERTH_CMD_HAUL_H
#define BERTH_CMD_HAUL_H

#include <signal.h>

#include "cmd/berth/client.h"
#include "cmd/berth/progress.h"
#include "cmd/berth/remote.h"

struct haul {
	const struct globals *globals;
	int interrupt_fd;
	sigset_t before;
	struct progress progress;
	struct answer answer; /* of the last request */
	struct err err;       /* about the last request */
	struct err own;       /* of our own side, files for example: it outranks the request's */
	struct buf target;    /* of the next request: made by remote_...target(), see there */
	struct buf body;      /* of the next request that sends no other: JSON; empty: none */
};

/* EXIT_OK, or EXIT_FAILED with a sentence. */
int haul_init(struct haul *haul, const struct globals *globals);
void haul_close(struct haul *haul);

/* Has Ctrl-C been pressed? */
bool haul_is_interrupted(const struct haul *haul);

/* open(), also of a named pipe whose other side is not there yet: Ctrl-C ends that wait (-EINTR).
 */
int haul_open(const struct haul *haul, const char *path, int flags);

/* A copy of standard input's descriptor. One that was closed is a failure: it is no empty file. */
int haul_open_stdin(struct haul *haul);

/* Text to standard output, which may be slow. 0, or negative for haul_finish(). */
int haul_print(struct haul *haul, struct str text);

/* Notes a failure of our own side and returns `error`. */
__attribute__((format(printf, 3, 4))) int haul_fail(struct haul *haul, int error,
						    const char *format, ...);

/* Appends "&name=a%2Cb" to `target`: the values of a flag that may be repeated. */
int haul_patterns(struct haul *haul, const struct call *call, size_t flag, const char *name);

/* All of these send to `target`, and empty it and `body`; 0, or negative for haul_finish(). */

/* The answer is kept. */
int haul_ask(struct haul *haul, const char *method);

/* The same, and it takes as long as it takes. */
int haul_ask_long(struct haul *haul, const char *method);

/* Prints the answer that was kept, and a newline. */
int haul_print_answer(struct haul *haul);

typedef int haul_sink_fn(void *arg, struct str bytes);

/* The answer goes to `sink`, which may stop it with an errno. */
int haul_receive(struct haul *haul, const char *method, haul_sink_fn *sink, void *arg);

/* The answer goes to a descriptor that may be slow. */
int haul_receive_fd(struct haul *haul, const char *method, int fd);

/* The answer is a stream of events: as client_stream's `event`. */
int haul_events(struct haul *haul, const char *method,
		int (*event)(void *arg, const struct sse_event *event), void *arg);

/* The same, but the stream may also end without a last event. */
int haul_events_now(struct haul *haul, const char *method,
		    int (*event)(void *arg, const struct sse_event *event), void *arg);

typedef int haul_end_fn(void *arg);

/* The body is what `fd` has, if `end` says at its end that it was all; NULL: it was. */
int haul_send(struct haul *haul, const char *method, int fd, haul_end_fn *end, void *arg);

/* What is at a path, text in the arena. 1: there is nothing. */
int haul_stat(struct haul *haul, const struct remote *remote, struct arena *arena,
	      struct file_info *ret);

/* The exit code; what needs words gets them on stderr. */
int haul_finish(struct haul *haul, int r);

#endif
