/* Opens every socket that the settings ask for and hands it to its server. */
#ifndef BERTH_CMD_BERTHD_SOCKETS_H
#define BERTH_CMD_BERTHD_SOCKETS_H

#include <stdbool.h>

#include "base/err.h"
#include "daemon/berthd.h"
#include "daemon/listen.h"
#include "daemon/systemd.h"

struct sockets {
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
void sockets_close(struct sockets *sockets);

#endif
