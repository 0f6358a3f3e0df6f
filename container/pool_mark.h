/*
 * <state>/sandboxes/<id>/pooled: that a sandbox's disk is in the pool (pool.h), and which one there
 * is its. A range is given to another some day, and folders and pool may be restored from different
 * moments: so a token that was drawn when the disk was made stands in the mark and in the
 * subvolume's name, and only what agrees is opened or destroyed.
 */
#ifndef BERTH_CONTAINER_POOL_MARK_H
#define BERTH_CONTAINER_POOL_MARK_H

#include <stdint.h>

#define POOL_MARK      "pooled"
#define POOL_TOKEN_LEN 16
#define POOL_NAME_SIZE 32 /* "<range>-<token>" */

/* `disk`: <state>/sandboxes/<id>. 1, 0, or negative: that cannot be seen, and may be either. */
int pool_has_disk(int disk);
/* One of all that are below <state>/sandboxes, but for its trash. */
int pool_has_disks(int sandboxes_fd);

/* The name of its subvolume. -ENOENT: there is no mark, or no range; -EBADMSG: it is not whole. */
int pool_mark_read(int disk, char ret[POOL_NAME_SIZE]);
/* One of all that are below <state>/sandboxes, but for its trash, has the mark of this subvolume.
 */
int pool_mark_is_in(int sandboxes_fd, const char *name);
/* With a new token. -EEXIST: there is one. */
int pool_mark_make(int disk, uint32_t number, char ret[POOL_NAME_SIZE]);

/* The number and the token in such a name; -EINVAL: it is none. */
int pool_name_parse(const char *name, uint32_t *ret_number, const char **ret_token);

#endif
