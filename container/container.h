/*
 * One container, step by step, as the keeper drives it. Nothing here waits: what takes long (the
 * OCI runtime, removing a tree) is a child that the caller awaits by its pidfd.
 *
 *	prepare ──> create (child) ──> created ──> running <──> frozen
 *	   │            └── fails ──> take_down      │             │
 *	   v                                         │ init's pidfd is readable
 *	fails: nothing is left                       v             v
 *	                                       take_down (child) ──> only its disk is left
 *
 * Names and numbers come from a berthd that may have gone bad: container_prepare() checks each of
 * them, and every path is resolved below our own directory fds without symlinks.
 */
#ifndef BERTH_CONTAINER_CONTAINER_H
#define BERTH_CONTAINER_CONTAINER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"
#include "container/host.h"
#include "container/pool_mark.h"
#include "proto/keeper.h"
#include "proto/sandbox_id.h"

struct container_limits {
	uint64_t memory_bytes, swap_bytes; /* 0: the default */
	uint32_t cpu_milli, pids, files;
	uint64_t file_size;
	uint64_t disk_bytes, inodes;
	struct keeper_io io;
};

struct container_spec {
	struct sandbox_id id;
	uint64_t generation;
	char image[64];
	bool is_read_only, is_ephemeral;
	bool has_disk;         /* from before: without it nothing is started */
	bool is_strict;        /* init gives all that it starts the filter that ends them */
	uint32_t capabilities; /* a set of proto/capability.h */
	struct container_limits limits;
	/* A list of proto/mounts.h, on the heap: there may be many sandboxes, and few that have it.
	 * Whose the spec is, that is its owner's until container_prepare() is over. */
	struct str mounts;
};

void container_spec_close(struct container_spec *spec);

struct container {
	struct container_spec spec;
	uint32_t range; /* number of its id range, recorded below <state>/sandboxes/<id> */
	bool is_pooled; /* its disk is in the pool (pool.h), limited or not */
	char disk_name[POOL_NAME_SIZE]; /* and is called so there */
	bool is_limit_unsure;           /* another limit than spec's may hold there */
	bool is_io_unsure;              /* so may another of io */
	pid_t init_pid;
	int init_pidfd; /* -1 until it runs; the caller closes it after container_take_down() */
	uint64_t init_start;   /* start time of init, with the boot id the proof that a pid is still
				  it */
	uint64_t create_start; /* and of the runtime that made it */
	bool is_ending;        /* it was killed, and no limit is to hold it up any more */
	uint32_t groups_made;
	uint32_t groups_retired; /* those below are nobody's; 0: all of them are gone */
	uint64_t oom_kills_seen;
};

/* What container_prepare() would say to its limits, and to where its disk is. Changes nothing. */
int container_check(const struct container_spec *spec, const struct container_host *host,
		    struct err *err);

/*
 * Makes the sandbox's directories, id range, overlay, bundle, cgroups and bound agent socket. Fast.
 * ERR_INVALID_REQUEST for a bad field, ERR_UNSUPPORTED for a limit that this host cannot hold,
 * ERR_NOT_FOUND for an image that is not there, ERR_FORBIDDEN for a folder of the host that may not
 * be mounted, ERR_START_FAILED for the rest. `c` does not keep the mounts.
 */
int container_prepare(struct container *c, const struct container_host *host,
		      const struct container_spec *spec, struct err *err);

/* Starts the runtime ("create and start"). Returns the child's pidfd; its words go to `ret_log_fd`,
 * a memfd. */
/*
 * A child that looks at each folder of the host in a list of mounts, and ends; one that is on a
 * file system that hangs may keep it. `told_fd` gets a byte before each. Its pidfd.
 */
int container_look(const struct container_host *host, struct str mounts, int told_fd,
		   pid_t *ret_pid);
int container_create(struct container *c, const struct container_host *host, pid_t *ret_pid,
		     int *ret_log_fd, struct err *err);

/*
 * The runtime has ended with `status`. Success: c has init's pid and pidfd (it is alive; whether it
 * answers is berthd's to find out). Failure: ERR_START_FAILED with the runtime's own last words;
 * then container_take_down().
 */
int container_created(struct container *c, const struct container_host *host, int status,
		      int log_fd, struct err *err);

/*
 * A child that ends with 0 when the sandbox's id range is on disk for good: so that after a power
 * loss no disk lacks the range that its files belong to, and none in the pool its mark. While the
 * runtime is at work; nobody may write to the disk before it has ended.
 */
int container_sync(const struct container *c, const struct container_host *host, pid_t *ret_pid);

/* Writes <run>/<id>/record: from now on a later keeper adopts it, as one that was told of. */
int container_record(const struct container *c, const struct container_host *host, struct err *err);

/*
 * SIGKILL to init by its pidfd; everything inside dies with it. Then it is thawed: in v1 nobody
 * dies who is frozen, and runc takes what is frozen for a container that it may not delete.
 */
int container_kill(struct container *c, const struct container_host *host);

/*
 * All of it, init too. 1: it is frozen. 0: not yet, and the caller comes again until it is, or
 * thaws it. -EOPNOTSUPP for all three where there are no cgroups.
 */
int container_freeze(const struct container *c, const struct container_host *host);
/* But for init and that exec group: see container/freezer.h. */
int container_freeze_others(const struct container *c, const struct container_host *host,
			    uint32_t group);
int container_thaw(struct container *c, const struct container_host *host);
int container_is_frozen(const struct container *c, const struct container_host *host);
/* Init was killed while it was frozen by v1, and dies as soon as it is thawed. */
bool container_is_doomed(const struct container *c);

/*
 * Init killed, cgroups killed and removed, overlay unmounted, runtime's state deleted, <run>/<id>
 * removed. Returns a child's pidfd (exit 0: all is gone); also right for a half-made container,
 * whose init only the runtime knows. The disk stays. Read container_stats() before.
 */
int container_take_down(struct container *c, const struct container_host *host, pid_t *ret_pid,
			struct err *err);

/* A container of an earlier keeper, found by its record: 0 and `c` filled if it is still running.
 */
int container_adopt(struct container *c, const struct container_host *host,
		    const struct sandbox_id *id, struct err *err);

/* The next exec group: a v2 cgroup that init (as the sandbox's root) may clone into. */
int container_group_new(struct container *c, const struct container_host *host, uint32_t *ret_group,
			int *ret_dir_fd, struct err *err);
/* The directory of one that was made before; -ENOENT if it is not there any more. */
int container_group_open(const struct container *c, const struct container_host *host,
			 uint32_t group, int *ret_dir_fd);
/* Writes cgroup.kill; the caller then asks until 1: empty. 0: not yet. */
int container_group_kill(const struct container *c, const struct container_host *host,
			 uint32_t group);
int container_group_is_empty(const struct container *c, const struct container_host *host,
			     uint32_t group);

/*
 * Whoever waits for a disk can neither die nor be frozen before that has answered, for which a
 * limit of io may make it wait for hours. So it has none for a while: while it is frozen, which the
 * functions above see to, and while an exec group takes long to end. If it cannot be slowed down
 * again then, is_io_unsure says so, and the caller comes again: to run is what was asked for.
 */
void container_hurry(const struct container *c, const struct container_host *host);
int container_slow_down(struct container *c, const struct container_host *host);

/* As io_guard_start(). */
int container_guard(const struct container_host *host, const _Atomic uint64_t *pulse, int told_fd,
		    pid_t *ret_pid);

/* An empty one that was killed is of no use any more: whoever enters it is killed too. */
int container_group_remove(const struct container *c, const struct container_host *host,
			   uint32_t group);

/* Nobody will use the groups that are there: they are removed, now or when they are empty. */
void container_groups_retire(struct container *c, const struct container_host *host);

/*
 * Other limits for one that runs, frozen or not: 0 is the default, as at its start. ERR_CONFLICT if
 * it holds more memory than that, ERR_UNSUPPORTED for what this host cannot change while it runs.
 * On failure all are as they were. Of `limits` those are read that struct keeper_limit has.
 *
 *	container_limit_begin ──> container_limit_now, or container_limit_work ──>
 *container_limit_end
 */
struct container_change {
	struct container_limits before, after;
};

/* All but what the cgroup holds. */
int container_limit_begin(struct container *c, const struct container_host *host,
			  const struct container_limits *limits, struct container_change *ret,
			  struct err *err);
/* The kernel has to take memory back first, for which nobody may have to wait. */
bool container_limit_takes_long(const struct container *c, const struct container_host *host,
				const struct container_change *change);
int container_limit_now(const struct container *c, const struct container_host *host,
			const struct container_change *change, struct err *err);
/* The same by a child, whose pidfd it returns. If that fails (status 1), *ret_fd has a struct err.
 */
int container_limit_work(const struct container *c, const struct container_host *host,
			 const struct container_change *change, int *ret_fd, struct err *err);
/* That child was killed, or never was: what the cgroup holds is put back. */
void container_limit_undo(const struct container *c, const struct container_host *host,
			  const struct container_change *change);
/* Negative result: the rest is put back, and `err` says why. Else it is recorded. */
int container_limit_end(struct container *c, const struct container_host *host,
			const struct container_change *change, int result, struct err *err);

/* On which processors it runs: all, or all but one. See container/cgroup_cpus.h. */
int container_choose_cpus(const struct container *c, const struct container_host *host,
			  bool is_all);

struct container_stats {
	uint64_t cpu_us, memory_bytes, memory_peak_bytes, pids, oom_kills;
	uint64_t held_bytes; /* of memory_bytes: what cannot be given back */
};
int container_stats(const struct container *c, const struct container_host *host,
		    struct container_stats *ret);
/* The file that counts its out-of-memory kills, to be read; negative: there is none. */
int container_open_counter(const struct container *c, const struct container_host *host);
/* The one with its processor time. */
int container_open_usage(const struct container *c, const struct container_host *host);

/*
 * Another limit for the disk of one that runs; 0: none. ERR_CONFLICT if it has never had one,
 * ERR_UNSUPPORTED if it is ephemeral. The caller has the pool watched (keeper_state.h) afterwards.
 */
int container_limit_disk(struct container *c, const struct container_host *host, uint64_t bytes,
			 struct err *err);

/* Of all that run: bytes that they may write to the pool; 0 if none has its disk there. */
uint64_t container_pool_owes(const struct container *c);
/* 0: it has room for `owed`, and needs no watching. 1: for now. 2: it must grow. */
int container_pool_room(const struct container_host *host, uint64_t owed);
/* A number that is another when something was written there. */
uint64_t container_pool_trace(const struct container_host *host);
/* The limit of its disk there is what spec says, also if that was unsure. */
int container_pool_settle(struct container *c, const struct container_host *host, struct err *err);
/* The disk of this one will be there, but its file is not made yet, or not whole: that takes long,
 * and is for a child; if that fails (status 1), *ret_fd has a struct err. */
bool container_pool_is_unready(const struct container_spec *spec,
			       const struct container_host *host);
int container_pool_prepare(const struct container_spec *spec, const struct container_host *host,
			   pid_t *ret_pid, int *ret_fd);
/* For some seconds that is what whoever wants to open it is told. */
void container_pool_failed(const struct container_host *host, const struct err *err);
/* If it is not open yet: until then it cannot grow. */
int container_pool_open(const struct container_host *host, struct err *err);
/* A child that lets it grow. */
int container_pool_grow(const struct container_host *host, uint64_t owed, pid_t *ret_pid);

/* Children that end by themselves: remove <state>/sandboxes/<id>; count its disk usage (two u64 on
 * stdout's fd). Neither follows a symlink or leaves the file system. */
int container_remove_disk(const struct container_host *host, const struct sandbox_id *id,
			  pid_t *ret_pid, struct err *err);
/* Whatever waits to be removed, of all sandboxes. */
bool container_has_trash(const struct container_host *host);
/* The child has failed: what waited in the pool still does. */
void container_keep_trash(const struct container_host *host);
int container_empty_trash(const struct container_host *host, pid_t *ret_pid, struct err *err);
/* One that does not run has no init_pidfd, and nothing else is asked of it but its id. */
int container_disk_usage(const struct container_host *host, const struct container *c,
			 pid_t *ret_pid, int *ret_fd, struct err *err);

#endif
