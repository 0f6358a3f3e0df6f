/* New file systems that are mounted nowhere yet, and putting them somewhere. */
#ifndef BERTH_CONTAINER_FS_H
#define BERTH_CONTAINER_FS_H

#include <linux/mount.h>

#include "base/err.h"

#define FS_SAFE (MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID)

struct fs_option {
	const char *key, *value; /* value NULL: a flag. The last one's key is NULL. */
};

/* The mount's fd. The sentence has the kernel's own words, if there are any. */
int fs_make(const char *type, const struct fs_option *options, unsigned attributes,
	    struct err *err);

/* `what` is for the sentence. The fd of the mount stays what it was. */
int fs_attach(int mount, int target, const char *what, struct err *err);

/* Attached to `name` below <run>, which is made if it is not there, and lazily detached again. */
int fs_attach_below(int mount, int run_fd, const char *name, struct err *err);
void fs_detach_below(int run_fd, const char *name);

#endif
