/* Opens every socket that the settings ask for and hands it to its server. */
#ifndef BERTH_CMD_BERTHD_SOCKETS_H
#define BERTH_CMD_BERTHD_SOCKETS_H

#include <stdbool.h>

#include "base/err.h"
#include "daemon/berthd.h"
#include "daemon/listen.h"

struct sockets {
	struct listen_file file; /* of the API socket; path "" if the service manager owns it */
};

/*
 * Sockets passed by the service manager come first: Unix ones, and TCP ones named "preview" or
 * anything else (the API, which then needs a token file). What it did not pass is bound here.
 */
int sockets_open(struct sockets *ret, struct berthd *b, bool has_tokens, struct err *err);
void sockets_close(struct sockets *sockets);

#endif
