/* What the handlers of runs share. */
#ifndef BERTH_DAEMON_HANDLE_RUN_H
#define BERTH_DAEMON_HANDLE_RUN_H

#include "daemon/exchange.h"

/* What it has said so far, as JSON. */
handler_fn handle_run_logs_now;

#endif
