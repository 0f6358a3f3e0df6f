/*
 * One request to the daemon and its answer, whole or as a stream of events or bytes. "Nobody
 * there", "left over" and "not allowed" are told apart, and the socket's path may be longer than an
 * address holds.
 */
#ifndef BERTH_CMD_CLIENT_H
#define BERTH_CMD_CLIENT_H

#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/holder.h"
#include "base/paths.h"
#include "cmd/berth/verb.h"
#include "proto/sse_reader.h"

#define CLIENT_ANSWER_MAX (16 * 1024 * 1024)
#define CLIENT_EVENT_MAX  (24 * 1024 * 1024) /* of one event of a stream */
#define CLIENT_WAIT_MS    (10 * 60 * 1000)   /* for what may take its time: start, stop, remove */

struct answer {
	long status;
	struct buf body;
	pid_t peer; /* who listens on the Unix socket; 0: not known */
};

void answer_init(struct answer *answer);
void answer_close(struct answer *answer);

/* The directories and the socket that are meant: those given, else this user's defaults. */
int client_paths(const struct globals *globals, struct paths *ret, struct err *err);
/* The same, for who only asks: a socket that is named needs no directories. */
int client_way(const struct globals *globals, struct paths *ret, struct err *err);

/* The command line of another verb for the same daemon: "berth --socket S up". */
#define CLIENT_COMMAND_MAX 300
const char *client_command(const struct globals *globals, const char *verb,
			   char ret[CLIENT_COMMAND_MAX]);

/*
 * Finds the daemon that uses the state directory although nobody answers on the socket. Not if
 * another socket or run directory was asked for by name: then it is not the one that is meant.
 */
bool client_holder(const struct globals *globals, const struct paths *paths, struct holder *ret);

/*
 * 0 only for a 2xx answer. An answer that tells of a failure is -EREMOTEIO with its sentence and
 * code, and is kept in `ret`. -ENOENT and -ECONNREFUSED when there is no
 * daemon, -ETIMEDOUT when it does not answer, -EACCES when we may not ask, -EDESTADDRREQ when the
 * URL, or the ID, given is none.
 */
int client_get(const struct globals *globals, const char *path, struct answer *ret,
	       struct err *err);

/* What goes back and forth while an answer comes, as events or as bytes. */
struct client_stream {
	int body_fd;      /* its bytes are the request's body, as they come; -1: none */
	int interrupt_fd; /* readable: give up with -EINTR; -1: none */
	/* 0: go on; 1: that was the last one; negative: give up with that. NULL: JSON is wanted. */
	int (*event)(void *arg, const struct sse_event *event);
	bool may_end;       /* events may also come to an end without a last one */
	const char *broken; /* what is not known if they break off; NULL: how a command ended */
	/* The bytes of an answer that is no failure. 0, or negative: give up. NULL: they are kept.
	 */
	int (*bytes)(void *arg, struct str bytes);
	/* So much of the body was read, 0 at its end. Negative: it is not sent as a whole. */
	int (*sent)(void *arg, size_t len);
	void *arg;
};

struct client_request {
	const char *method;
	const char *path;                   /* and query; encoded */
	struct str body;                    /* JSON; empty: none */
	const char *header;                 /* one more, "Name: value"; NULL: none */
	unsigned timeout_ms;                /* 0: none */
	const struct client_stream *stream; /* NULL: the answer is taken whole */
};

/*
 * As client_get(). A stream that ends before its last event is -ECONNRESET; an answer that is no
 * stream though one was wanted is kept in `ret`.
 */
int client_send(const struct globals *globals, const struct client_request *request,
		struct answer *ret, struct err *err);

/* Is nobody there (rather than: something went wrong)? */
bool client_is_absent(int error);

/* Prints the sentence, with --json also the answer as it came, and gives the exit code. */
int client_failed(const struct globals *globals, const struct answer *answer, int error,
		  const struct err *err);

#endif
