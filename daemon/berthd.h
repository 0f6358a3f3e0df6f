/*
 * The daemon as its handlers see it: what server_arg() gives them. main() fills it in before the
 * first request and owns everything in it; handlers only read, on the loop.
 */
#ifndef BERTH_DAEMON_BERTHD_H
#define BERTH_DAEMON_BERTHD_H

#include <stdint.h>

#include "base/host.h"
#include "daemon/config.h"
#include "daemon/server.h"
#include "daemon/store.h"
#include "proto/units.h"

struct registry;

struct berthd {
	struct config config;
	struct host_facts host;
	struct store *store;
	struct registry *registry;
	struct server_limits limits; /* of each server */
	struct server *api, *preview;
	const char *socket; /* the API socket's real path, also of a passed one */
	struct host_port listen_bound, preview_bound; /* the real ports; host "" without one */
	int64_t started_at_ms;                        /* since 1970, by the clock of that moment */
	uint64_t started_ns;                          /* uv_hrtime() */
};

#endif
