/*
 * The address of a Unix socket, and what it means when nobody can be reached there. The path may be
 * longer than an address holds: then it is reached through its directory's descriptor.
 */
#ifndef BERTH_CMD_ADDRESS_H
#define BERTH_CMD_ADDRESS_H

#include <sys/types.h>
#include <sys/un.h>

#include "base/err.h"

struct address {
	struct sockaddr_un un;
	int dir; /* -1: not needed; to be set by the caller */
};

int address_fill(struct address *ret, const char *path);
void address_closep(struct address *address);

/* A sentence for the errno with which connecting to `path` failed; `up` starts a daemon there. */
int address_failed(const char *path, int error, const char *up, struct err *err);

/* Of a connected socket; 0 if it cannot be told. */
pid_t address_peer(int fd);

#endif
