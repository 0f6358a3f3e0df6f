/*
 * Which disks files are on, as cgroups want them: by the number of a whole disk, never of a part.
 *
 *	a part of a disk      the disk that it is a part of
 *	device-mapper, loop   that device itself
 *	btrfs                 files have a device number that is no device's; the list of mounts
 *	                      names the disk, if it is one alone
 *	others without one    none: memory, overlays, the network, ZFS
 */
#ifndef BERTH_CONTAINER_BLOCK_DEVICE_H
#define BERTH_CONTAINER_BLOCK_DEVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/str.h"

#define BLOCK_DEVICES_MAX 32

struct block_devices {
	unsigned count;
	dev_t of[BLOCK_DEVICES_MAX];
};

/* Where a folder is. */
struct block_place {
	dev_t disk;         /* 0: on none */
	char type[32];      /* of its file system, "" if that is not known */
	bool is_spread;     /* over several disks, for which there is no common limit */
	bool names_writers; /* what is written later is still known to be whose */
};

void block_place_find(int fd, struct block_place *ret);

/* Once. -E2BIG: there are too many. */
int block_devices_add(struct block_devices *set, dev_t disk);
/* Those of the file systems that a process sees, as far as they have one. */
int block_devices_of(pid_t pid, struct block_devices *ret);

/* A line of /proc/<pid>/mountinfo. */
struct block_mount {
	int id;
	unsigned major, minor;
	struct str type, source;
};

/* False: that is none. */
bool block_mount_parse(struct str line, struct block_mount *ret);

#endif
