/*
 * Previews: requests to the ports of sandboxes, routed by the first label of their host name and
 * passed on to whatever listens inside. `handle_preview` takes all that the preview's listener
 * gets.
 */
#ifndef BERTH_DAEMON_PREVIEW_H
#define BERTH_DAEMON_PREVIEW_H

#include "daemon/exchange.h"

struct port;

handler_fn handle_preview;

/* The port is not exposed any more, or by another label: whoever visits it is cut off. */
void preview_evict(struct port *port);

#endif
