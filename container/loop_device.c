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
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"

#define BLOCK_SIZE   4096 /* as btrfs has it, and no disk has larger ones */
#define TRIES        64   /* for a device that nobody else is faster at */
#define LOCK_MS      500  /* in which a device that lets go of a file has done it */
#define LOCK_STEP_MS 10

static void close_dirp(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

/*
 * False only if it is certain: it has no file, or one of another name. It is not opened for that,
 * as that of somebody else is none of our business.
 */
static bool may_be_ours(int sys, const char *device, const char *name)
{
	char path[NAME_MAX + 32], text[PATH_MAX + 32], *base;
	cleanup_fd int fd = -1;
	ssize_t len;

	snprintf(path, sizeof(path), "%s/loop/backing_file", device);
	fd = openat(sys, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno != ENOENT;
	len = read(fd, text, sizeof(text) - 1);
	if (len <= 0)
		return len < 0;
	text[len] = '\0';
	text[strcspn(text, "\n")] = '\0';
	base = strrchr(text, '/');
	return strncmp(base ? base + 1 : text, name, strlen(name)) == 0;
}

/* 1: it is attached to this file. 0: to another, or to none. */
static int has_file(int device, const struct stat *file)
{
	struct loop_info64 info;

	if (ioctl(device, LOOP_GET_STATUS64, &info) < 0)
		return errno == ENXIO ? 0 : -errno;
	return info.lo_device == file->st_dev && info.lo_inode == file->st_ino;
}

/* As find(), for one device. That it cannot be opened says nothing about whose it is. */
static int look_at(const struct stat *file, const char *path, int *ret_fd)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	int r;

	/* ENXIO: it has let go just now. */
	if (fd < 0)
		return errno == ENXIO ? 0 : -errno;
	r = has_file(fd, file);
	if (r <= 0)
		return r;
	*ret_fd = open(path, O_RDWR | O_CLOEXEC);
	return *ret_fd < 0 ? -errno : 1;
}

/* 1: it is attached to that device. 0: to none. Negative: it may be attached to one. */
static int find(const struct stat *file, const char *name, char ret_path[LOOP_DEVICE_PATH_MAX],
		int *ret_fd)
{
	cleanup_fd int sys = open("/sys/block", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_fd int copy = sys < 0 ? -1 : openat(sys, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup(close_dirp) DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *entry;

	if (!dir)
		return -errno;
	take_fd(&copy);
	while ((errno = 0, entry = readdir(dir))) {
		int r;

		if (strncmp(entry->d_name, "loop", 4) != 0 || strlen(entry->d_name) > 12 ||
		    !may_be_ours(sys, entry->d_name, name))
			continue;
		snprintf(ret_path, LOOP_DEVICE_PATH_MAX, "/dev/%.12s", entry->d_name);
		r = look_at(file, ret_path, ret_fd);
		if (r != 0)
			return r;
	}
	return -errno;
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

/*
 * The device keeps the open file, and so the lock, for as long as it is attached: whoever looks
 * wrongly, or at the same time, gets no second one. One that is letting go is none any more, but
 * has its file for a moment.
 */
static int find_or_attach(int file_fd, const char *name, char ret_path[LOOP_DEVICE_PATH_MAX])
{
	const struct timespec pause = {.tv_nsec = LOCK_STEP_MS * 1000000};
	struct stat file;
	int fd = -1;

	if (fstat(file_fd, &file) < 0)
		return -errno;
	for (int waited = 0;; waited += LOCK_STEP_MS) {
		int r = find(&file, name, ret_path, &fd);

		if (r != 0)
			return r < 0 ? r : fd;
		if (flock(file_fd, LOCK_EX | LOCK_NB) == 0)
			return attach(file_fd, name, ret_path);
		if (errno != EWOULDBLOCK || waited >= LOCK_MS)
			return -errno;
		nanosleep(&pause, NULL);
	}
}

int loop_device_open(int file_fd, const char *name, char ret_path[LOOP_DEVICE_PATH_MAX],
		     struct err *err)
{
	int fd = find_or_attach(file_fd, name, ret_path);

	if (fd == -EWOULDBLOCK)
		return err_set(err, fd, ERR_START_FAILED,
			       "another process holds a lock on %s, so another loop device may "
			       "have it: end that process, or detach that device (losetup -j)",
			       name);
	if (fd < 0)
		return err_set(err, fd, ERR_START_FAILED, "no loop device for %s: %s", name,
			       strerror(-fd));
	return fd;
}

int loop_device_grow(int device_fd)
{
	return ioctl(device_fd, LOOP_SET_CAPACITY, 0) < 0 ? -errno : 0;
}
