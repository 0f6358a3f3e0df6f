#include "container/btrfs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/btrfs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "container/dir.h"

#define ENABLE_SIMPLE_QUOTA 4   /* Linux 6.7; Debian 12's headers do not have it */
#define FIRST_DEVICE        1   /* we never have more */
#define ROOT_OF_TREE        256 /* BTRFS_FIRST_FREE_OBJECTID */

int btrfs_enable_quota(int root_fd)
{
	struct btrfs_ioctl_quota_ctl_args simple = {.cmd = ENABLE_SIMPLE_QUOTA};
	struct btrfs_ioctl_quota_ctl_args full = {.cmd = BTRFS_QUOTA_CTL_ENABLE};

	if (ioctl(root_fd, BTRFS_IOC_QUOTA_CTL, &simple) == 0)
		return 0;
	if (errno != EINVAL)
		return -errno;
	return ioctl(root_fd, BTRFS_IOC_QUOTA_CTL, &full) < 0 ? -errno : 0;
}

static int call_by_name(int dir, unsigned long request, const char *name)
{
	struct btrfs_ioctl_vol_args args = {0};

	if (snprintf(args.name, sizeof(args.name), "%s", name) >= (int)sizeof(args.name))
		return -ENAMETOOLONG;
	return ioctl(dir, request, &args) < 0 ? -errno : 0;
}

int btrfs_make_subvolume(int dir, const char *name)
{
	return call_by_name(dir, BTRFS_IOC_SUBVOL_CREATE, name);
}

int btrfs_destroy_subvolume(int dir, const char *name)
{
	int r = call_by_name(dir, BTRFS_IOC_SNAP_DESTROY, name);

	/* Its blocks are freed after the next commit; that would be within half a minute. */
	if (r == 0)
		ioctl(dir, BTRFS_IOC_START_SYNC, NULL);
	return r == -ENOENT ? 0 : r;
}

int btrfs_commit(int root_fd)
{
	uint64_t transaction = 0;

	if (ioctl(root_fd, BTRFS_IOC_START_SYNC, &transaction) < 0 ||
	    ioctl(root_fd, BTRFS_IOC_WAIT_SYNC, &transaction) < 0)
		return -errno;
	return 0;
}

/* By the root of all: of a subvolume that has more than its limit even that is refused (EDQUOT). */
int btrfs_limit(int root, int subvolume, uint64_t bytes)
{
	struct btrfs_ioctl_ino_lookup_args place = {.objectid = ROOT_OF_TREE};
	struct btrfs_ioctl_qgroup_limit_args args = {
		.lim = {.flags = BTRFS_QGROUP_LIMIT_MAX_RFER,
			.max_rfer = bytes ? bytes : UINT64_MAX /* takes the limit away */}};

	if (ioctl(subvolume, BTRFS_IOC_INO_LOOKUP, &place) < 0)
		return -errno;
	args.qgroupid = place.treeid;
	return ioctl(root, BTRFS_IOC_QGROUP_LIMIT, &args) < 0 ? -errno : 0;
}

/* /sys knows what the next commit will write; the tree on disk is up to half a minute old. */
static int open_group(int subvolume)
{
	cleanup_fd int sys = open("/sys/fs/btrfs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct btrfs_ioctl_ino_lookup_args place = {.objectid = ROOT_OF_TREE};
	struct btrfs_ioctl_fs_info_args info = {0};
	const uint8_t *id = info.fsid;
	char path[128];

	if (sys < 0 || ioctl(subvolume, BTRFS_IOC_FS_INFO, &info) < 0 ||
	    ioctl(subvolume, BTRFS_IOC_INO_LOOKUP, &place) < 0)
		return -errno;
	snprintf(path, sizeof(path),
		 "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x/"
		 "qgroups/0_%" PRIu64,
		 id[0], id[1], id[2], id[3], id[4], id[5], id[6], id[7], id[8], id[9], id[10],
		 id[11], id[12], id[13], id[14], id[15], (uint64_t)place.treeid);
	return dir_open(sys, path);
}

int btrfs_used(int subvolume, uint64_t *ret)
{
	cleanup_fd int group = open_group(subvolume);
	uint64_t reserved;
	int r = group < 0 ? group : dir_read_number(group, "referenced", ret);

	/* And what is still on its way to the disk. */
	if (r == 0 && dir_read_number(group, "rsv_data", &reserved) == 0)
		*ret += reserved;
	return r;
}

int btrfs_room(int root_fd, struct btrfs_room *ret)
{
	struct btrfs_ioctl_dev_info_args device = {.devid = FIRST_DEVICE};

	if (ioctl(root_fd, BTRFS_IOC_DEV_INFO, &device) < 0)
		return -errno;
	*ret = (struct btrfs_room){device.total_bytes, device.total_bytes - device.bytes_used};
	return 0;
}

int btrfs_grow(int root_fd)
{
	return call_by_name(root_fd, BTRFS_IOC_RESIZE, "max");
}
