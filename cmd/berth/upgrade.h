/*
 * A connection to the daemon, by its Unix socket or its URL, that becomes one of another protocol.
 *
 *	upgrade_open() ──> upgrade_ask() ──> upgrade_answered() until it is 0 ──> bytes
 *
 * Nothing here waits but the first two and upgrade_wait().
 */
#ifndef BERTH_CMD_UPGRADE_H
#define BERTH_CMD_UPGRADE_H

#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "cmd/berth/verb.h"

#define UPGRADE_ANSWER_MS 60000 /* a sandbox may have to start */

/* A zeroed one may be closed. */
struct upgrade {
	void *curl;
	int fd;            /* to poll for POLLIN or POLLOUT */
	char *host, *path; /* whom and what is asked for */
	const char *token; /* NULL: none */
	struct buf early;  /* the answer's head, and what came behind it */
};

/* `path` and query, encoded. */
int upgrade_open(struct upgrade *u, const struct globals *globals, const char *path,
		 struct err *err);
void upgrade_close(struct upgrade *u);

/* `headers`: Upgrade and what goes with it, each with its line's end. */
int upgrade_ask(struct upgrade *u, const char *headers, struct err *err);
/*
 * 1: not yet, poll it. 0: it is 101. An answer that tells of a failure is -EREMOTEIO with its
 * sentence.
 */
int upgrade_answered(struct upgrade *u, struct err *err);
/* The same to its end, or -ETIMEDOUT. */
int upgrade_wait(struct upgrade *u, struct err *err);

/* Of a 101, until the first byte is received: "" if it has no such header. */
struct str upgrade_header(const struct upgrade *u, struct str name);
/* The head is over: bytes follow. */
void upgrade_begin(struct upgrade *u);

/* How much; -EAGAIN: not now; -EPIPE: not any more. Receiving 0 is the end. What was received may
 * not have been all that is there though a poll finds nothing: go on until -EAGAIN. */
ssize_t upgrade_recv(struct upgrade *u, void *bytes, size_t len);
ssize_t upgrade_send(struct upgrade *u, const void *bytes, size_t len);

#endif
