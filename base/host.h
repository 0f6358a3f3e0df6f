/*
 * What this machine can do, found by reading /proc, /sys and PATH. Nothing is changed or tried out
 * for good: a probe that needs a child (user namespaces) makes one that only reports and exits.
 */
#ifndef BERTH_BASE_HOST_H
#define BERTH_BASE_HOST_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum host_cgroups { HOST_CGROUPS_NONE, HOST_CGROUPS_V1, HOST_CGROUPS_HYBRID, HOST_CGROUPS_V2 };

struct host_facts {
	char kernel[65];  /* release, such as "6.1.0-18-amd64" */
	char machine[65]; /* "x86_64" */
	bool is_root;
	enum host_cgroups cgroups;
	bool cgroup_memory, cgroup_cpu, cgroup_pids, cgroup_freezer; /* used by us for limits */
	bool user_namespaces; /* an unprivileged clone(CLONE_NEWUSER) works for us */
	bool overlay;         /* listed in /proc/filesystems */
	bool btrfs;           /* that, or a module that the kernel can load */
	bool loop_control;    /* /dev/loop-control is there */
	bool mkfs_btrfs;      /* on PATH */
	bool seccomp;
	uint32_t subuid_count; /* ids that /etc/subuid gives this user; 0 for root */
	uint32_t subgid_count;
	bool newuidmap;        /* newuidmap and newgidmap are on PATH */
	char runtime[4096];    /* path of crun, else runc, else "" */
	char runtime_name[16]; /* "crun", "runc", the file's name, or "" */
	uint64_t memory_bytes;
	unsigned cpus;
	uint64_t nofile_hard;
	uint64_t inotify_instances; /* fs.inotify.max_user_instances */
	uint64_t inotify_watches;   /* fs.inotify.max_user_watches */
};

/* `runtime` chooses one by path; NULL: look for crun, then runc. Missing facts stay zero. */
void host_probe(struct host_facts *ret, const char *runtime);

/* Why root cannot limit sandboxes' disks here, or NULL. `is_made`: there is a pool for them
 * already. */
const char *host_lacks_for_disks(const struct host_facts *facts, bool is_made);

/* The program's path, from PATH and the usual folders. False, and "", if there is none. */
bool host_find_program(const char *name, char ret[PATH_MAX]);

/* Bytes that could be used without swapping, as the kernel reckons; UINT64_MAX: it does not tell.
 */
uint64_t host_memory_available(void);

const char *host_cgroups_name(enum host_cgroups cgroups);

#endif
