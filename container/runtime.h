/* The OCI runtime as a program: crun, runc, or any other with their command line. */
#ifndef BERTH_CONTAINER_RUNTIME_H
#define BERTH_CONTAINER_RUNTIME_H

#include "base/err.h"
#include "container/host_state.h"

enum runtime_kind runtime_kind_of(const char *path);

struct runtime_run {
	const char *id;
	int bundle_fd; /* holds config.json and rootfs; "pid" will be written there */
	int agent_fd;  /* becomes init's fd 3 */
	int log_fd;
	int cgroup_fd; /* or -1 */
};

/* "run --detach"; its pidfd. */
int runtime_start(const struct container_host *host, const struct runtime_run *run, pid_t *ret_pid);

/* SIGKILL to an init whose pid only the runtime knows. Waits. */
int runtime_kill(const struct container_host *host, const char *id);
/* "delete" of a container whose init is dead. Waits. */
int runtime_delete(const struct container_host *host, const char *id);

/*
 * Off with the mounts of its own program that a killed runtime has left in this folder, which
 * could not be removed else: the bundle of crun, its state's of runc.
 */
void runtime_unmount_copies(int dir_fd);

/* The last line with a meaning in what it wrote, without its decoration. */
void runtime_words(int log_fd, char *ret, size_t size);

#endif
