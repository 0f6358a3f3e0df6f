#include "container/loop_device.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/loop.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define BLOCK_SIZE 4096 /* as btrfs has it, and no disk has larger ones */
#define TRIES      64   /* for a device that nobody else is faster at */

static void close_dirp(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

/* Without opening it: that of somebody else is none of our business. */
static bool may_be_ours(int sys, const char *device, const char *name)
{
	char path[NAME_MAX + 32], text[PATH_MAX + 32], *base;
	cleanup_fd int fd = -1;
	ssize_t len;

	snprintf(path, sizeof(path), "%s/loop/backing_file", device);
	fd = openat(sys, path, O_RDONLY | O_CLOEXEC);
	len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (len <= 0)
		return false;
	text[len] = '\0';
	text[strcspn(text, "\n")] = '\0';
	base = strrchr(text, '/');
	return strncmp(base ? base + 1 : text, name, strlen(name)) == 0;
}

static bool has_file(int device, const struct stat *file)
{
	struct loop_info64 info;

	return ioctl(device, LOOP_GET_STATUS64, &info) == 0 && info.lo_device == file->st_dev &&
	       info.lo_inode == file->st_ino;
}

/* -ENOENT: it is attached to none. */
static int find(const struct stat *file, const char *name, char ret_path[LOOP_DEVICE_PATH_MAX])
{
	cleanup_fd int sys = open("/sys/block", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_fd int copy = sys < 0 ? -1 : openat(sys, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup(close_dirp) DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *entry;

	if (!dir)
		return -errno;
	take_fd(&copy);
	while ((errno = 0, entry = readdir(dir))) {
		cleanup_fd int fd = -1;

		if (strncmp(entry->d_name, "loop", 4) != 0 || strlen(entry->d_name) > 12 ||
		    !may_be_ours(sys, entry->d_name, name))
			continue;
		snprintf(ret_path, LOOP_DEVICE_PATH_MAX, "/dev/%.12s", entry->d_name);
		fd = open(ret_path, O_RDWR | O_CLOEXEC);
		/* One that cannot be looked at may be it. ENXIO: it has let go just now. */
		if (fd < 0 && errno != ENXIO)
			return -errno;
		if (fd >= 0 && has_file(fd, file))
			return take_fd(&fd);
	}
	return errno ? -errno : -ENOENT;
}

static int attach(int file_fd, const char *name, char ret_path[LOOP_DEVICE_PATH_MAX])
{
	/* Past the page cache: the file system on top keeps there what it needs already. */
	struct loop_config config = {.fd = (uint32_t)file_fd,
				     .block_size = BLOCK_SIZE,
				     .info.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO};
	cleanup_fd int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);

	if (control < 0)
		return -errno;
	snprintf((char *)config.info.lo_file_name, LO_NAME_SIZE, "%s", name);
	for (int i = 0; i < TRIES; i++) {
		int number = ioctl(control, LOOP_CTL_GET_FREE);
		cleanup_fd int fd = -1;

		if (number < 0)
			return -errno;
		snprintf(ret_path, LOOP_DEVICE_PATH_MAX, "/dev/loop%d", number);
		fd = open(ret_path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			return -errno;
		if (ioctl(fd, LOOP_CONFIGURE, &config) == 0)
			return take_fd(&fd);
		/* Somebody else has taken it in between. */
		if (errno != EBUSY)
			return -errno;
	}
	return -EBUSY;
}

int loop_device_open(int file_fd, const char *name, char ret_path[LOOP_DEVICE_PATH_MAX],
		     struct err *err)
{
	struct stat file;
	int fd = fstat(file_fd, &file) < 0 ? -errno : find(&file, name, ret_path);

	if (fd == -ENOENT)
		fd = attach(file_fd, name, ret_path);
	if (fd < 0)
		return err_set(err, fd, ERR_START_FAILED, "no loop device for %s: %s", name,
			       strerror(-fd));
	return fd;
}

int loop_device_grow(int device_fd)
{
	return ioctl(device_fd, LOOP_SET_CAPACITY, 0) < 0 ? -errno : 0;
}
