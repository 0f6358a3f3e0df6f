/*
 * The root of one sandbox, mounted at <run>/<id>/bundle/rootfs in the keeper's mount namespace:
 *
 *	/                  overlay: the image, and {upper,work} of its disk (bundle.h)
 *	/usr ...           the machine's own, read-only, its owners unmapped (image "host")
 *	/run, /run/berth   tmpfs; /run/berth/init: berth-init, read-only
 *	/workspace, /tmp   when the root is read-only: the overlay's own folders, writable
 *	elsewhere          what its settings have mounted there: container/binds.h
 *
 * The runtime adds /proc, an empty /sys, /dev and what is in it, and takes the rest along as it is.
 *All of it is done by fds: the upper directory is full of what the sandbox's root left there.
 */
#ifndef BERTH_CONTAINER_ROOTFS_H
#define BERTH_CONTAINER_ROOTFS_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "container/host_state.h"
#include "container/ids.h"

struct rootfs_plan {
	const char *id;
	const char *image; /* below images */
	struct id_map map;
	bool is_read_only;
	bool shares_host;  /* /usr and so on */
	bool is_pooled;    /* the disk is in the pool */
	struct str mounts; /* a list of proto/mounts.h */
};

/* `disk_fd`: where "upper" and "work" are; `bundle_fd`: where "rootfs" is to be. */
int rootfs_mount(const struct container_host *host, const struct rootfs_plan *plan, int disk_fd,
		 int bundle_fd, struct err *err);

/* Nothing mounted there is fine. */
int rootfs_unmount(int bundle_fd);

/* A read-only file system that holds nothing but `init`, a copy of the file. */
int rootfs_mount_guest(const char *init_path, int run_fd, const char *name, struct err *err);

#endif
