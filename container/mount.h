/* File systems and mounts that are not anywhere yet, by fds, and how they get somewhere. */
#ifndef BERTH_CONTAINER_MOUNT_H
#define BERTH_CONTAINER_MOUNT_H

#include <linux/mount.h>
#include <stdint.h>

#include "base/err.h"

#define MOUNT_SAFE (MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID)

struct mount_option {
	const char *key, *value; /* value NULL: a flag */
};

/* A new file system; options end with a key of NULL. The mount's fd. */
int mount_make(const char *type, const struct mount_option *options, unsigned attributes,
	       struct err *err);

/* On the folder or file that `target` is open for. */
int mount_attach(int mount, int target, const char *what, struct err *err);

/* The same on `name` below <run>, which is made if it is not there; and lazily off again. */
int mount_attach_below(int mount, int run_fd, const char *name, struct err *err);
void mount_detach_below(int run_fd, const char *name);

/* A line of uid_map or gid_map. */
struct mount_ids {
	uint32_t inside, outside, count;
};

/* A user namespace with these maps. It lives on in the fd, its only process does not. */
int mount_make_userns(struct mount_ids users, struct mount_ids groups);

#endif
