/* Every socket that the settings ask for: bound while we may, served when we are ready. */
#ifndef BERTH_CMD_BERTHD_SOCKETS_H
#define BERTH_CMD_BERTHD_SOCKETS_H

#include <stdbool.h>

#include "base/err.h"
#include "daemon/berthd.h"
#include "daemon/listen.h"
#include "daemon/systemd.h"

#define SOCKETS_MAX (SYSTEMD_SOCKETS_MAX + 2 * LISTEN_TCP_MAX + 1)

/* Bound, and not served yet. */
struct socket_bound {
	int fd;
	bool is_preview, needs_token;
};

struct sockets {
	struct socket_bound bound[SOCKETS_MAX];
	int bound_len;
	struct systemd_socket passed[SYSTEMD_SOCKETS_MAX];
	int passed_len;
	char passed_path[LISTEN_PATH_SIZE]; /* of the first Unix socket among them */
	struct listen_file file; /* of the API socket; path "" if the service manager owns it */
};

/*
 * Takes what the service manager passed. To be called before anything else is opened: else a number
 * that it promised and did not pass could be one of our own files.
 */
int sockets_take(struct sockets *ret, struct err *err);

/*
 * Sockets passed by the service manager come first: Unix ones, and TCP ones named "preview" or
 * anything else (the API, which then needs a token file). What it did not pass is bound here.
 */
int sockets_open(struct sockets *sockets, struct berthd *b, bool has_tokens, struct err *err);

/* Hands them to the servers. Until then clients wait in the sockets' queues. */
int sockets_serve(struct sockets *sockets, struct berthd *b, struct err *err);

/* Whether sockets_close() will be able to remove the file that sockets_open() made. */
bool sockets_can_unlink(const struct sockets *sockets);

void sockets_close(struct sockets *sockets);

#endif
