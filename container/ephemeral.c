#include "container/ephemeral.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>

#include "base/cleanup.h"
#include "container/dir.h"
#include "container/mount.h"

#define POINT ".ephemeral"

/*
 * What the overlay keeps there tells which folders hide the image's. Without, it would be mounted
 * all the same, and removed folders would come back.
 */
static int check_xattrs(const struct container_host *host, int disk, struct err *err)
{
	const char *name = host->is_rootless ? "user.overlay.berth" : "trusted.overlay.berth";

	if (fsetxattr(disk, name, "y", 1, 0) == 0 && fremovexattr(disk, name) == 0)
		return 0;
	return err_set(err, -errno, ERR_UNSUPPORTED,
		       "this host has no ephemeral disks: its tmpfs cannot hold %s (%s)%s", name,
		       strerror(errno), host->is_rootless ? "; Linux 6.6 can" : "");
}

int ephemeral_attach(const struct container_host *host, const struct container_limits *limits,
		     struct err *err)
{
	char size[24], inodes[24];
	const struct mount_option options[] = {
		{"source", "berth"},   {"mode", "0700"}, {"size", size},
		{"nr_inodes", inodes}, {NULL, NULL},
	};
	cleanup_fd int mount = -1, disk = -1;
	int r;

	snprintf(size, sizeof(size), "%" PRIu64, limits->disk_bytes);
	snprintf(inodes, sizeof(inodes), "%" PRIu64, limits->inodes);
	mount = mount_make("tmpfs", options, MOUNT_SAFE, err);
	if (mount < 0)
		return mount;
	/* The mount's own fd leads there, but is not open. */
	disk = dir_open(mount, ".");
	if (disk < 0)
		return err_set(err, disk, ERR_START_FAILED, "cannot open the disk in memory: %s",
			       strerror(-disk));
	r = check_xattrs(host, disk, err);
	if (r == 0)
		r = mount_attach_below(mount, host->run_fd, POINT, err);
	return r < 0 ? r : take_fd(&disk);
}

void ephemeral_detach(const struct container_host *host)
{
	mount_detach_below(host->run_fd, POINT);
}
