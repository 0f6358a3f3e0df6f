/*
 * What a sandbox's settings have mounted inside: folders of the host, and file systems in memory.
 *
 *	bind, as root    its owner's files are those of root inside, and what root inside makes is
 *	                 that owner's on the host; all others are nobody. A folder of the host's
 *	                 root is not mapped, and can only be read: who could write there as root
 *	                 would leave set-uid programs of the host's root. The same with a group:
 *	                 that of the folder is root's inside if it is the owner's primary group;
 *	                 a folder of another can only be read.
 *	bind, rootless   as it is: its owner is nobody inside, where it has the rights of others
 *	tmpfs            root's inside, and everybody's to write
 *
 * A bind shows one file system: what the host has or will have mounted below it stays outside.
 */
#ifndef BERTH_CONTAINER_BINDS_H
#define BERTH_CONTAINER_BINDS_H

#include "base/err.h"
#include "base/str.h"
#include "container/host_state.h"
#include "container/ids.h"

/*
 * `mounts` was checked by mounts_check(), `root` is the sandbox's, attached and writable. Targets
 * are made if they are missing, below its own file system and through no link.
 */
int binds_mount(const struct container_host *host, struct str mounts, struct id_map map, int root,
		struct err *err);

/* Only looks at each folder of the host, for as long as that takes; see container_look(). */
void binds_look(const struct container_host *host, struct str mounts, int told_fd);

#endif
