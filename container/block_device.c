#include "container/block_device.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "container/mountinfo.h"

#define FIELDS_MAX 32

/* The kernel marks what waits to be written with its writer's cgroup in these alone. */
static const char *const names_writers[] = {"ext4", "ext2", "btrfs", "xfs", "f2fs"};

static bool parse_number(struct str text, unsigned max, unsigned *ret)
{
	unsigned long number = 0;

	for (size_t i = 0; i < text.len; i++) {
		if (text.at[i] < '0' || text.at[i] > '9')
			return false;
		number = number * 10 + (unsigned long)(text.at[i] - '0');
		if (number > max)
			return false;
	}
	*ret = (unsigned)number;
	return text.len > 0;
}

/* "27 1 254:1 / /home rw,relatime shared:1 - ext4 /dev/vda1 rw" */
bool block_mount_parse(struct str line, struct block_mount *ret)
{
	struct str fields[FIELDS_MAX], device;
	size_t count = 0, dash = 6;
	unsigned id;

	while (line.len && count < FIELDS_MAX)
		fields[count++] = str_cut(&line, ' ');
	while (dash < count && !str_eq(fields[dash], STR("-")))
		dash++;
	if (dash + 2 >= count || !parse_number(fields[0], INT32_MAX, &id))
		return false;
	device = fields[2];
	if (!parse_number(str_cut(&device, ':'), UINT32_MAX, &ret->major) ||
	    !parse_number(device, UINT32_MAX, &ret->minor))
		return false;
	ret->id = (int)id;
	ret->type = fields[dash + 1];
	ret->source = fields[dash + 2];
	return true;
}

/* 0: there is no such device. */
static dev_t whole_disk(dev_t device)
{
	char path[64], text[32] = "";
	unsigned major = major(device), minor = minor(device);
	cleanup_fd int fd = -1;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/dev", major, minor);
	if (access(path, F_OK) < 0)
		return 0;
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/partition", major, minor);
	if (access(path, F_OK) < 0)
		return device;
	/* What the link leads to lies in the folder of its disk. */
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/../dev", major, minor);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0 ||
	    sscanf(text, "%u:%u", &major, &minor) != 2)
		return 0;
	return makedev(major, minor);
}

/* btrfs alone has no number of its own, and a path; who mounts it is the host's root. */
static dev_t disk_of(const struct block_mount *mount)
{
	char path[256];
	struct stat st;

	if (mount->major)
		return whole_disk(makedev(mount->major, mount->minor));
	if (!str_eq(mount->type, STR("btrfs")) || mount->source.len >= sizeof(path) ||
	    !str_starts_with(mount->source, STR("/dev/")))
		return 0;
	snprintf(path, sizeof(path), "%.*s", STR_ARGS(mount->source));
	return stat(path, &st) == 0 && S_ISBLK(st.st_mode) ? whole_disk(st.st_rdev) : 0;
}

static int mount_id(int fd)
{
	char path[64], text[512];
	const char *at;
	ssize_t len;
	int id = -1;
	cleanup_fd int info = -1;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	info = open(path, O_RDONLY | O_CLOEXEC);
	len = info < 0 ? -1 : read(info, text, sizeof(text) - 1);
	text[len > 0 ? len : 0] = '\0';
	at = strstr(text, "mnt_id:");
	return at && sscanf(at, "mnt_id: %d", &id) == 1 ? id : -1;
}

static bool is_spread(int fd)
{
	struct btrfs_ioctl_fs_info_args info = {0};

	return ioctl(fd, BTRFS_IOC_FS_INFO, &info) == 0 && info.num_devices > 1;
}

static void take_place(struct block_place *ret, int fd, const struct block_mount *mount)
{
	snprintf(ret->type, sizeof(ret->type), "%.*s", STR_ARGS(mount->type));
	for (size_t i = 0; i < array_len(names_writers); i++)
		ret->names_writers |= strcmp(ret->type, names_writers[i]) == 0;
	ret->is_spread = str_eq(mount->type, STR("btrfs")) && is_spread(fd);
	if (!ret->is_spread)
		ret->disk = disk_of(mount);
}

void block_place_find(int fd, struct block_place *ret)
{
	cleanup(buf_close) struct buf text;
	struct block_mount mount;
	struct str rest;
	int id = mount_id(fd);

	*ret = (struct block_place){.disk = 0};
	buf_init(&text, MOUNTINFO_MAX);
	if (id < 0 || mountinfo_read("/proc/self/mountinfo", &text) < 0)
		return;
	rest = (struct str){buf_at(&text), buf_len(&text)};
	while (rest.len)
		if (block_mount_parse(str_cut(&rest, '\n'), &mount) && mount.id == id)
			take_place(ret, fd, &mount);
}

int block_devices_add(struct block_devices *set, dev_t disk)
{
	for (unsigned i = 0; i < set->count; i++)
		if (set->of[i] == disk)
			return 0;
	if (set->count == BLOCK_DEVICES_MAX)
		return -E2BIG;
	set->of[set->count++] = disk;
	return 0;
}

int block_devices_of(pid_t pid, struct block_devices *ret)
{
	cleanup(buf_close) struct buf text;
	char path[64];
	struct str rest;
	int r;

	ret->count = 0;
	buf_init(&text, MOUNTINFO_MAX);
	snprintf(path, sizeof(path), "/proc/%d/mountinfo", (int)pid);
	r = mountinfo_read(path, &text);
	rest = (struct str){buf_at(&text), buf_len(&text)};
	while (r == 0 && rest.len) {
		struct block_mount mount;
		dev_t disk = block_mount_parse(str_cut(&rest, '\n'), &mount) ? disk_of(&mount) : 0;

		if (disk)
			r = block_devices_add(ret, disk);
	}
	return r;
}
