/*
 * A file as a block device. It lets go of the file by itself (autoclear) when nobody has it open or
 * mounted any more, so what is killed leaves none behind.
 */
#ifndef BERTH_CONTAINER_LOOP_DEVICE_H
#define BERTH_CONTAINER_LOOP_DEVICE_H

#include "base/err.h"

#define LOOP_DEVICE_PATH_MAX 32

/*
 * The device that this file is attached to already, as an earlier keeper left it to sandboxes that
 * live on, or else a new one: the same file system behind two devices would ruin it. When it cannot
 * be seen that there is none, that fails, and a lock on the file, which lives as long as a device
 * of ours has it, keeps a second one away whatever was seen. Its fd and its path. `name`: that of
 * the file, by which an attached one is found.
 */
int loop_device_open(int file_fd, const char *name, char ret_path[LOOP_DEVICE_PATH_MAX],
		     struct err *err);

/* The file has grown. */
int loop_device_grow(int device_fd);

#endif
