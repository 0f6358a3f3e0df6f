/*
 * The monitor: the process that stays when the keeper is killed. It is the subreaper, so every
 * container's init becomes its child; it forks the keeper, reaps, keeps exit statuses until the
 * keeper has SEEN them off (container/monitor_link.h), and starts a keeper that died anew, in the
 * same namespaces. It opens no socket but the pair to the keeper and reads nothing that a client
 * could have written.
 *
 * The keeper ends it: one that exits with 0 has nothing left to keep. SIGTERM and SIGINT are passed
 * on to the keeper.
 */
#ifndef BERTH_CONTAINER_MONITOR_H
#define BERTH_CONTAINER_MONITOR_H

#include "base/err.h"

struct monitor_config {
	/* In the forked child; what it returns is its exit code. */
	int (*run_keeper)(void *arg, int link_fd);
	/* In the monitor, once: the first keeper serves. */
	void (*on_ready)(void *arg);
	void *arg;
};

/* 0 after an orderly end, 1 when the first keeper never served (it has said why), or a negative
 * errno. */
int monitor_run(const struct monitor_config *config, struct err *err);

#endif
