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
#include "proto/preview_url.h"
#include "proto/units.h"

struct access_log;
struct registry;
struct runs;

/* What berthd has put on itself: cmd/berthd/confine.h. */
struct confinement {
	unsigned landlock_abi; /* 0: it is not in force */
	bool has_seccomp;
};

struct berthd {
	struct config config;
	struct host_facts host;
	struct confinement confinement;
	struct store *store;
	struct registry *registry;
	struct runs *runs;
	struct server_limits limits; /* of each server */
	struct server *api, *preview;
	struct access_log *access_log;  /* of the previews; NULL: off */
	const char *socket;             /* the API socket's real path, also of a passed one */
	struct preview_url preview_url; /* where previews are reached */
	struct host_port listen_bound, preview_bound; /* the real ports; host "" without one */
	struct host_port preview_taken;               /* by another; host "": it was not */
	int64_t started_at_ms;                        /* since 1970, by the clock of that moment */
	uint64_t started_ns;                          /* uv_hrtime() */
};

#endif
