/*
 * What the keeper has found and prepared once, for all containers: directories, cgroup hierarchies,
 * the runtime, id ranges, the compiled seccomp filter. Filled by container_host_init() inside the
 * keeper's namespaces; constant afterwards, but for the ranges' book-keeping.
 */
#ifndef BERTH_CONTAINER_HOST_H
#define BERTH_CONTAINER_HOST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"

enum runtime_kind { RUNTIME_CRUN, RUNTIME_RUNC, RUNTIME_OTHER };

struct container_host;

struct container_host_config {
	const char *state_dir, *run_dir; /* absolute; made by the caller, owned by us */
	const char *runtime;             /* a path, or NULL: crun, else runc */
	const char *init_path;           /* the static berth-init */
	uid_t daemon_uid;                /* may connect to the agent sockets */
	gid_t daemon_gid;
	bool is_rootless;    /* we are root of one user namespace */
	uint32_t ids_mapped; /* rootless: how many ids our namespace has; 1 for the fallback */
	pid_t init_parent;   /* the subreaper: whose child each init becomes */
	const char *cgroup;  /* a delegated one for all sandboxes, or NULL */
	/* --allow-bind: DIR[:ro] each. They must stay where they are. */
	const char *const *allow_bind;
	unsigned allow_bind_count;
	int cgroup2_fd; /* the v2 mount's directory, opened before it was hidden; -1: none */
};

int container_host_init(struct container_host **ret, const struct container_host_config *config,
			struct err *err);
void container_host_free(struct container_host *host);

/* enum keeper_abilities */
uint32_t container_host_abilities(const struct container_host *host);
/* That it can choose from for a sandbox; 0: it cannot. */
unsigned container_host_cpus(const struct container_host *host);
const char *container_host_runtime(const struct container_host *host);
/* See cgroup_groups_open(); a negative errno where there are none. */
int container_host_open_groups(const struct container_host *host);
/* 0: a sandbox can be made of it. */
int container_host_find_image(const struct container_host *host, struct str name, struct err *err);
/* A sentence for the log about what this host lacks, or "". */
const char *container_host_warning(const struct container_host *host);
/* Directory fds, owned by the host. */
int container_host_run_fd(const struct container_host *host);
int container_host_state_fd(const struct container_host *host);

#endif
