/* What struct container_host is, for the files of container/ only. */
#ifndef BERTH_CONTAINER_HOST_STATE_H
#define BERTH_CONTAINER_HOST_STATE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "container/bind_source.h"
#include "container/block_device.h"
#include "container/caps.h"
#include "container/cgroup.h"
#include "container/host.h"
#include "container/ids.h"
#include "container/image.h"
#include "container/pool.h"

#define BOOT_ID_SIZE 40

struct container_host {
	char state_dir[PATH_MAX], run_dir[PATH_MAX];
	char runtime[PATH_MAX];
	char closed_dir[PATH_MAX]; /* see passage.h; "" if no passage is needed */
	enum runtime_kind kind;
	bool is_rootless, has_one_id;
	bool has_keyring; /* the session keyring is our own, and empty */
	uid_t daemon_uid;
	gid_t daemon_gid;
	pid_t init_parent;
	int state_fd, run_fd, sandboxes_fd, images_fd;
	int runtime_fd; /* <run>/.runtime: the runtime's own state */
	int guest_fd;   /* a read-only tmpfs with a copy of berth-init, attached to <run>/.guest */
	struct ids *ids;
	struct cgroup_host cgroup;
	struct block_place place; /* of the sandboxes' disks, but for those in the pool */
	struct block_place images_place;
	struct image_host image;
	struct bind_sources sources; /* of container/binds.h */
	struct pool *pool;           /* NULL: we are rootless */
	uint32_t caps;               /* that a sandbox can have: a set of proto/capability.h */
	char *filter;                /* compiled, in base64; NULL: the runtime takes rules only */
	uint64_t memory_bytes;
	uint64_t files_max;
	int oom_score_adj; /* our own, which an init cannot go below */
	char boot_id[BOOT_ID_SIZE];
	char warning[512];
};

#endif
