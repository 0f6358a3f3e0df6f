/*
 * A port of this machine, on 127.0.0.1, that leads to one of a sandbox: whoever connects to it is
 * connected to that, byte for byte, through the daemon. What goes wrong with one of them is said
 * on stderr, once.
 */
#ifndef BERTH_CMD_TUNNEL_H
#define BERTH_CMD_TUNNEL_H

#include <stdint.h>

#include "base/err.h"
#include "cmd/berth/verb.h"

struct tunnel;

struct tunnel_ends {
	const char *id;
	uint16_t port;  /* inside */
	uint16_t local; /* here; 0: any that is free, and then it is told */
};

/* It listens from now on. */
int tunnel_new(struct tunnel **ret, const struct globals *globals, struct tunnel_ends *ends,
	       struct err *err);
/* Closes what is still open. */
void tunnel_free(struct tunnel *t);

/* Connects whoever comes until that descriptor is readable, -EINTR, or it cannot go on. */
int tunnel_serve(struct tunnel *t, int until_fd, struct err *err);

#endif
