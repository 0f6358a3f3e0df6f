/*
 * The disks of sandboxes whose size is limited: as root, all in one btrfs, which is a file.
 *
 *	<state>/pool.img               the file system; pool.img.new: one that is being made
 *	<run>/.pool                    where it is mounted, for the keeper alone
 *	<run>/.pool/<n>/{upper, work}  the disk of the sandbox with range n, a subvolume
 *	<run>/.pool/<n>/gone           what a start has found in its way; a worker removes it
 *	<state>/sandboxes/<id>/pooled  an empty file that says that this is where its disk is
 *
 * Made at the first start that has such a limit, opened by each keeper when it first needs it. The
 * mount ends with the keeper; what its sandboxes have mounted keeps the file system and its loop
 * device, where the next keeper finds it.
 *
 * Every block of the image is the host's promise before btrfs hears of it: to write where the host
 * has no room would end the whole pool, so the file has no holes, nothing is ever discarded, and it
 * grows, by a worker, ahead of what its sandboxes may write. It never shrinks.
 */
#ifndef BERTH_CONTAINER_POOL_H
#define BERTH_CONTAINER_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/host.h"

struct pool;

struct pool_place {
	int state_fd, run_fd, sandboxes_fd; /* the caller's, and open as long as the pool */
};

/* Nothing is made or opened. `facts` are only looked at. */
int pool_new(struct pool **ret, const struct pool_place *place, const struct host_facts *facts);
void pool_free(struct pool *pool);

/* There is one, so that a sandbox without a limit may have its disk there, too. */
bool pool_is_there(const struct pool *pool);
/* What this host lacks for a pool, or NULL. */
const char *pool_lacks(const struct pool *pool);

/* Mounted; `may_make`: or made first. Once it is open this costs nothing. */
int pool_open(struct pool *pool, bool may_make, struct err *err);
/* The mount, for who reads or removes there; -1: it is not open. */
int pool_fd(const struct pool *pool);

/* `disk`: <state>/sandboxes/<id>. */
bool pool_has_disk(int disk);
/* Its subvolume in the open pool, made if it is not there, and without a limit. */
int pool_open_disk(struct pool *pool, int disk, uint32_t number, struct err *err);
/* 0: none. */
int pool_limit_disk(struct pool *pool, uint32_t number, uint64_t bytes, struct err *err);

/* `pool_fd`: of one that is open. */
int pool_remove_disk(int pool_fd, uint32_t number);
int pool_measure_disk(int pool_fd, uint32_t number, uint64_t *ret_bytes, uint64_t *ret_files);

/* `name` in the subvolume's "upper" is gone from there at once, and from the disk later. */
int pool_throw_away(struct pool *pool, int disk, int upper, const char *name);
bool pool_has_thrown(const struct pool *pool);
/* In a worker: 1 if something stayed. The keeper that starts one takes it for done. */
int pool_empty_gone(int pool_fd);
void pool_is_swept(struct pool *pool);

/*
 * `owed`: how much its running sandboxes may write, UINT64_MAX for all. What is not on the host yet
 * must be had before they do.
 */
enum pool_room { POOL_HAS_ALL, POOL_HAS_ENOUGH, POOL_MUST_GROW };
enum pool_room pool_room(const struct pool *pool, uint64_t owed);
/* Takes as much as there should be, or as the host has. May take a while: for a worker. */
int pool_grow(struct pool *pool, uint64_t owed);
/* What that worker needs open. */
#define POOL_FDS 3
void pool_fds(const struct pool *pool, int ret[POOL_FDS]);

#endif
