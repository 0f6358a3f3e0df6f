/* Sockets to listen on, bound and listening. Blocking (names are resolved): for start-up only. */
#ifndef BERTH_DAEMON_LISTEN_H
#define BERTH_DAEMON_LISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/err.h"
#include "proto/units.h"

#define LISTEN_BACKLOG   1024
#define LISTEN_PATH_SIZE 110 /* sun_path and a NUL */
#define LISTEN_TCP_MAX   4   /* addresses of one name, such as localhost's two */

/* A socket file that we made, so that we can remove it and nobody else's. */
struct listen_file {
	char path[4096];
	dev_t dev;
	ino_t ino;
};

struct listen_access {
	mode_t mode;       /* 0600, or 0660 with a group */
	gid_t gid;         /* (gid_t)-1: leave it */
	const char *group; /* its name, for a sentence */
};

/*
 * Listens on a Unix socket. The file of a dead daemon is replaced; where a live one answers, or
 * something that is no socket stands, -EADDRINUSE.
 */
int listen_unix(int *ret_fd, struct listen_file *ret_file, const char *path,
		const struct listen_access *access, struct err *err);

/* Removes the file if it is still the one that we made. */
void listen_unlink(const struct listen_file *file);

/* All addresses of the host, on one port. Returns how many sockets there are in ret_fds. */
int listen_tcp(int ret_fds[LISTEN_TCP_MAX], const struct host_port *where, struct err *err);

/* The port that a TCP socket is bound to; 0 if it is none. */
unsigned listen_port(int fd);

/* What a TCP socket is bound to, in numbers; false if it is none. */
bool listen_address_of(int fd, struct host_port *ret);

/* The path of a Unix socket, "@name" if it is abstract; false if it is none or has no name. */
bool listen_path_of(int fd, char ret[LISTEN_PATH_SIZE]);

#endif
