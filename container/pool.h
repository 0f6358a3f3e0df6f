/*
 * The disks of sandboxes whose size is limited: as root, all in one btrfs, which is a file.
 *
 *	<state>/pool.img               the file system; pool.img.new: one that is being made
 *	<run>/.pool                    where it is mounted, for the keeper alone
 *	<run>/.pool/<n>-<token>        the disk of the sandbox with range n, a subvolume
 *	           .../{upper, work}   what others have in their folder
 *	           .../gone            what a start has found in its way; a worker removes it
 *	<run>/.pool/lost-...           see pool_lost.h
 *	<state>/sandboxes/<id>/pooled  the token; that it is there says that its disk is here
 *
 * Made at the first start that has such a limit, opened by each keeper when it first needs it. The
 * mount ends with the keeper; what its sandboxes have mounted keeps the file system and its loop
 * device, where the next keeper finds it.
 *
 * Every block of the image is the host's promise before btrfs hears of it: to write where the host
 * has no room would end the whole pool, so the file has no holes, nothing is ever discarded, and it
 * grows, by a worker and nobody else, ahead of what its sandboxes may write. It never shrinks.
 */
#ifndef BERTH_CONTAINER_POOL_H
#define BERTH_CONTAINER_POOL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/host.h"
#include "container/pool_mark.h"

struct ids;
struct pool;

struct pool_place {
	int state_fd, run_fd, sandboxes_fd; /* the caller's, and open as long as the pool */
	struct ids *const *ids;             /* where the ranges of its disks are taken */
};

/* Nothing is made or opened. `facts` are only looked at. */
int pool_new(struct pool **ret, const struct pool_place *place, const struct host_facts *facts);
void pool_free(struct pool *pool);

/* Its image is there, or that cannot be seen. Without one no disk is there any more, either. */
bool pool_is_there(const struct pool *pool);
/* What this host lacks for a pool, or NULL. */
const char *pool_lacks(const struct pool *pool);
/* ERR_UNSUPPORTED: it lacks something. */
int pool_check(const struct pool *pool, struct err *err);

/* Mounted; `may_make`: or made first, unless disks are missed with it. Once it is open this costs
 * nothing. Where it failed to be attached or mounted, that is the answer for some seconds. */
int pool_open(struct pool *pool, bool may_make, struct err *err);
/* Its block device; 0: it is not open. */
dev_t pool_device(const struct pool *pool);
/* Its file must be made, if it may be, or filled with blocks first: a worker does that. */
bool pool_is_unready(const struct pool *pool, bool may_make);
int pool_prepare(struct pool *pool, bool may_make, struct err *err);
/* That has failed. */
void pool_set_failed(struct pool *pool, const struct err *err);
/* The mount, for who reads or removes there; -1: it is not open. */
int pool_fd(const struct pool *pool);

struct pool_disk {
	uint32_t number; /* its range */
	bool is_old;     /* it was written to: if it is missing, no other takes its place */
	char name[POOL_NAME_SIZE]; /* its subvolume's, by pool_open_disk() */
};

/* `disk`: <state>/sandboxes/<id>. Its subvolume in the open pool, made if it is new, and without a
 * limit. */
int pool_open_disk(struct pool *pool, int disk, struct pool_disk *which, struct err *err);
/* 0: none. */
int pool_limit_disk(struct pool *pool, const char *name, uint64_t bytes, struct err *err);

/* `pool_fd`: of one that is open. */
int pool_remove_disk(int pool_fd, const char *name);
int pool_measure_disk(int pool_fd, const char *name, uint64_t *ret_bytes, uint64_t *ret_files);
/* In a worker: waits until what was made is there for good. */
int pool_commit(int pool_fd);

/* `name` in the subvolume's "upper" is gone from there at once, and from the disk later. */
int pool_throw_away(struct pool *pool, int disk, int upper, const char *name);
bool pool_has_thrown(const struct pool *pool);
/* In a worker: 1 if something stayed. The keeper that starts one takes it for done, until it knows
 * better. */
int pool_empty_gone(int pool_fd);
void pool_set_thrown(struct pool *pool, bool has_thrown);

/*
 * `owed`: how much its running sandboxes may write, UINT64_MAX for all. What is not on the host yet
 * must be had before they do.
 */
enum pool_room { POOL_HAS_ALL, POOL_HAS_ENOUGH, POOL_MUST_GROW };
enum pool_room pool_room(const struct pool *pool, uint64_t owed);
/* A number that is another when something was written there. */
uint64_t pool_trace(const struct pool *pool);
/* Takes as much as there should be, or as the host has. May take a while: for the one worker. */
int pool_grow(struct pool *pool, uint64_t owed);
/* What that worker needs open. */
#define POOL_FDS 3
void pool_fds(const struct pool *pool, int ret[POOL_FDS]);

#endif
