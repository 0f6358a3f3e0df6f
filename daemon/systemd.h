/* What a service manager passes by environment: listening sockets, and a place to report to. */
#ifndef BERTH_DAEMON_SYSTEMD_H
#define BERTH_DAEMON_SYSTEMD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define SYSTEMD_SOCKETS_MAX 16

struct systemd_socket {
	int fd; /* SOCK_STREAM, listening, close-on-exec; the caller owns it */
	bool is_unix;
	char name[64]; /* FileDescriptorName=; "unknown" without one */
};

/*
 * Takes over the sockets of LISTEN_FDS, once: the variables are removed. Returns how many there
 * are, 0 also when they are meant for another process. On failure none is left open. For the
 * beginning of a program: a number that LISTEN_FDS wrongly promises may be another file's later.
 */
int systemd_sockets(struct systemd_socket ret[SYSTEMD_SOCKETS_MAX], struct err *err);

/* Each: 1 when it was sent, 0 when nobody listens (no NOTIFY_SOCKET), or a negative errno. */
int systemd_notify_ready(void);
int systemd_notify_reloading(void); /* and then systemd_notify_ready() again */
int systemd_notify_stopping(void);

#endif
