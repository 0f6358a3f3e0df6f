/*
 * What is asked of a btrfs by ioctl(): subvolumes, their limits, its size. Limits are simple quotas
 * (Linux 6.7), which cost next to nothing; older kernels have only the full ones.
 */
#ifndef BERTH_CONTAINER_BTRFS_H
#define BERTH_CONTAINER_BTRFS_H

#include <stdint.h>

/* All take fds of folders. Again changes nothing. */
int btrfs_enable_quota(int root_fd);

int btrfs_make_subvolume(int dir, const char *name);
/* With all that is in it; its blocks come back a little later. 0 also when there is none. */
int btrfs_destroy_subvolume(int dir, const char *name);

/* Waits until what was made before is on its disk: not all data, but what the tree says. */
int btrfs_commit(int root_fd);

/* 0: no limit. What is used already may be more: then nothing can be added. */
int btrfs_limit(int root, int subvolume, uint64_t bytes);
/* As the limit counts; -ENOENT where the kernel does not tell. */
int btrfs_used(int subvolume, uint64_t *ret);

struct btrfs_room {
	uint64_t size;        /* of the device, as the file system knows it */
	uint64_t unallocated; /* of it, neither data nor metadata has taken yet */
};
int btrfs_room(int root_fd, struct btrfs_room *ret);
/* Takes all that its device has by now. */
int btrfs_grow(int root_fd);

#endif
