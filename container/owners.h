/* Groups of the host's users, by /etc/passwd and /etc/group alone: no library of the host's. */
#ifndef BERTH_CONTAINER_OWNERS_H
#define BERTH_CONTAINER_OWNERS_H

#include <sys/types.h>

/*
 * The primary group of the owner of something that is of group `gid`. One who is not in
 * /etc/passwd has a group of the same number, if that is `gid` and /etc/group does not give it to
 * anybody else. -ENOENT: it is not known.
 */
int owners_group(uid_t uid, gid_t gid, gid_t *ret);

#endif
