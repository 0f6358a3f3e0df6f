/*
 * The keeper's insides, for its own files: keeper.c (loop, monitor, end), keeper_requests.c (what
 * berthd asks), keeper_sandbox.c (the life of one sandbox), keeper_freeze.c, keeper_group.c,
 * keeper_disk.c, keeper_binds.c, keeper_cpus.c, keeper_io.c, keeper_limit.c, keeper_pool.c and
 * keeper_adopt.c.
 *
 *	      START                    STARTED           init's pidfd
 *	(new) ──> QUEUED ──> CREATING ──────> RUNNING ──────────────> DYING
 *	             │           │ fails                                │
 *	             v           v              the monitor has its status
 *	          (freed)   TAKING_DOWN <───────────────────────────────┘
 *	                         │
 *	                         ├── never told to be running: FAILED ──> (freed)
 *	                         └── EXITED, told to each berthd
 *	                                └── FORGET, START, REMOVE ──> (freed)
 *
 *	(new), EXITED ── REMOVE ──> REMOVING ──> (freed)
 *
 * Whether one that is RUNNING is frozen stands nowhere here: the kernel is asked. What it is to be
 * does, in struct keeper_freeze.
 */
#ifndef BERTH_CONTAINER_KEEPER_STATE_H
#define BERTH_CONTAINER_KEEPER_STATE_H

#include "container/container.h"
#include "container/job.h"
#include "container/keeper.h"
#include "container/keeper_conn.h"
#include "container/monitor_link.h"
#include "proto/keeper.h"

#define KEEPER_BUCKETS       1024
#define KEEPER_SANDBOXES_MAX 16384
#define KEEPER_QUEUE_MAX     1024 /* starts that wait for their turn */
#define KEEPER_ERRANDS_MAX   256  /* removals and counts that do */
#define KEEPER_RECENT        1024 /* exits whose process nobody has claimed yet */
#define KEEPER_TAKE_DOWN_MAX 3    /* tries until those who wait are told that it takes longer */

enum keeper_state {
	KEEPER_NEW,
	KEEPER_QUEUED,
	KEEPER_CREATING,
	KEEPER_IS_RUNNING,
	KEEPER_DYING,
	KEEPER_TAKING_DOWN,
	KEEPER_HAS_EXITED,
	KEEPER_REMOVING,
	KEEPER_STATES,
};

struct keeper {
	const struct keeper_config *config;
	struct loop loop;
	struct container_host *host;
	struct keeper_conn conn;
	char warning[KEEPER_SENTENCE_MAX + 1];
	struct list buckets[KEEPER_BUCKETS];
	unsigned sandboxes, exited; /* all, and those of them that are HAS_EXITED */
	unsigned unwanted;          /* starts of a connection that is gone, being undone */
	struct job_pool runtimes, syncs, errands, counts;
	struct list usages;
	struct job_pool looks; /* of keeper_binds.c */
	struct list hangs;     /* those that did not end in time */
	unsigned hanging;
	struct job_pool limits;
	struct list changes; /* of limits, in order of arrival */
	struct job sweep;    /* of the trash */
	bool is_sweeping;
	uint64_t sweep_after_ms;
	struct job_pool growths;
	struct job growth; /* of the pool of limited disks */
	struct timer pool;
	bool is_growing, has_no_room, has_no_pool;
	uint64_t look_ms, pool_trace; /* the last time */
	struct timer io;              /* of keeper_io.c */
	struct job_pool guards;
	struct job guard;    /* of io_guard.h */
	struct watch lifted; /* which it tells by this */
	bool is_guarded;
	unsigned slowed;     /* sandboxes that run, and have limits of io */
	uint64_t part_milli; /* of processors: what those of keeper_cpus.c may use together */
	bool is_crowded;     /* which is too much for all processors but one */
	struct watch link, signals;
	struct timer idle, stop, greeting;
	bool is_greeted; /* this berthd has said HELLO */
	bool hello_waits, is_stopping;
	struct keeper_asker hello;
	struct monitor_record recent[KEEPER_RECENT];
	unsigned recent_next;
};

/* Of keeper_freeze.c. */
struct keeper_freeze {
	struct timer timer;
	struct list askers; /* they wait for the same */
	bool is_wanted;     /* to be frozen, or thawed */
	uint32_t besides;   /* frozen but for this exec group and init; 0: all of it is */
	bool is_partial;    /* it was seen to be frozen so */
	uint64_t until_ms;
	unsigned step_ms;
};

struct keeper_sandbox {
	struct list node; /* in its bucket */
	struct keeper *keeper;
	struct container c;
	enum keeper_state state;
	struct job job, sync; /* the latter beside the runtime that creates it */
	struct watch init;
	struct timer timer;
	struct keeper_asker starter;
	struct keeper_next *next; /* a START that waits until it is down; NULL: none does */
	struct list waiters;      /* KILL or REMOVE, answered at the end of it */
	struct list group_ends;   /* of keeper_group.c */
	struct keeper_freeze freeze;
	struct err failure; /* why it did not start; code ERR_NONE: nothing failed */
	int log_fd;
	unsigned tries, stats_tries;
	bool is_syncing;
	bool is_created; /* or not, as create_result says; that waits for the sync */
	int create_result, sync_result;
	bool is_prepared, is_told, is_unwanted, is_kill_wanted;
	bool is_slowed;      /* and counted as such */
	uint32_t part_milli; /* counted in the keeper's */
	enum keeper_cpus { KEEPER_CPUS_ALL, KEEPER_CPUS_BUT_ONE, KEEPER_CPUS_UNKNOWN } cpus;
	bool is_ours; /* init is a child of our monitor, which will have its status */
	bool has_status;
	uint32_t status;
	uint64_t oom_kills;
};

/* keeper.c */
void keeper_answer_done(struct keeper *k, struct keeper_asker asker);
void keeper_answer_failed(struct keeper *k, struct keeper_asker asker, const struct err *err);
__attribute__((format(printf, 4, 5))) void keeper_refuse(struct keeper *k,
							 struct keeper_asker asker,
							 enum err_code code, const char *format,
							 ...);
void keeper_tell_monitor(struct keeper *k, const struct monitor_record *record);
/* Something has ended: is there anything left to wait for? */
void keeper_settle(struct keeper *k);

/* keeper_requests.c. "berthd" is no sandbox for us: <run>/berthd is berthd's own directory. */
bool keeper_id_is_valid(struct str id);
/* As struct keeper_conn calls it. */
int keeper_on_frame(struct keeper_conn *conn, const struct frame_head *head, struct str bytes);
void keeper_greet(struct keeper *k);
/* What has waited for the end of another; `next` may be NULL, and is freed. */
void keeper_start_next(struct keeper *k, struct keeper_next *next);
void keeper_drop_next(struct keeper_sandbox *sb, const struct err *why);

/* keeper_sandbox.c. `id` must be valid. */
struct keeper_sandbox *keeper_sandbox_find(struct keeper *k, struct str id);
/* NULL when there are too many, or no memory; else the spec's mounts are its own. */
struct keeper_sandbox *keeper_sandbox_new(struct keeper *k, const struct container_spec *spec);
void keeper_sandbox_free(struct keeper_sandbox *sb);
void keeper_sandbox_enter(struct keeper_sandbox *sb, enum keeper_state state);
/* 0, or -EBUSY: too many wait; it is not queued then. */
int keeper_sandbox_start(struct keeper_sandbox *sb, struct keeper_asker starter);
/* Its start's second half; `must`: it has waited already. */
int keeper_sandbox_create(struct keeper_sandbox *sb, bool must);
/* It runs: watches its init. */
void keeper_sandbox_run(struct keeper_sandbox *sb);
void keeper_sandbox_kill(struct keeper_sandbox *sb);
void keeper_sandbox_take_down(struct keeper_sandbox *sb);
/* Answered with DONE at the end of it, or FAILED if that fails. */
int keeper_sandbox_wait(struct keeper_sandbox *sb, struct keeper_asker asker);
void keeper_sandbox_answer_waiters(struct keeper_sandbox *sb, const struct err *failure);
/* Its berthd is gone. */
void keeper_sandbox_abandon(struct keeper_sandbox *sb);
void keeper_sandbox_tell_exit(struct keeper_sandbox *sb);
/* Found with its init dead, or half-made: its status may be among the recent ones. */
void keeper_sandbox_bury(struct keeper_sandbox *sb);
/* One exit status of the monitor's. */
void keeper_take_status(struct keeper *k, const struct monitor_record *record);

/* keeper_freeze.c */
void keeper_freeze_init(struct keeper_sandbox *sb);
/* It runs. Answered when all of it is frozen or thawed, as wanted. */
void keeper_freeze(struct keeper_sandbox *sb, bool is_wanted, struct keeper_asker asker);
/* The same, but for init and that exec group. Lasts as long as its berthd. */
void keeper_freeze_others(struct keeper_sandbox *sb, uint32_t group, struct keeper_asker asker);
/* Whoever waits is told that it will not be; what is half frozen is thawed. */
void keeper_freeze_end(struct keeper_sandbox *sb, enum err_code code, const char *why);
/* Its berthd is gone. */
void keeper_freeze_abandon(struct keeper_sandbox *sb);

/* keeper_group.c */
void keeper_group_end(struct keeper_sandbox *sb, uint32_t group, struct keeper_asker asker);
/* Its init has ended, and with it everything in every group. */
void keeper_group_end_all(struct keeper_sandbox *sb);

/* keeper_binds.c. As job_queue(), when the folders that it wants mounted were looked at. */
int keeper_binds_begin(struct keeper_sandbox *sb);

/* keeper_cpus.c. Whether it runs, is frozen, or how much it may use may be another thing now. */
void keeper_cpus_note(struct keeper_sandbox *sb);

/* keeper_disk.c */
void keeper_disk_remove(struct keeper_sandbox *sb);
void keeper_disk_usage(struct keeper *k, const struct sandbox_id *id, struct keeper_asker asker);
/* Empties the trash, if it has not just been tried in vain. */
void keeper_disk_sweep(struct keeper *k);

/* keeper_io.c */
void keeper_io_init(struct keeper *k);
/* Its limits of io were to be set again: if they were not, they will be. */
void keeper_io_check(struct keeper_sandbox *sb);
/* Whether it runs, or has such limits, may be another thing now. */
void keeper_io_note(struct keeper_sandbox *sb);

/* keeper_limit.c. It runs. Those of one sandbox are done and answered one after the other. */
void keeper_limit(struct keeper_sandbox *sb, const struct container_limits *limits,
		  struct keeper_asker asker);

/* keeper_pool.c. One whose disk is in the pool is there, or its limit is another now. */
void keeper_pool_init(struct keeper *k);
void keeper_pool_watch(struct keeper *k);
/* As keeper_sandbox_create(), when a child has made the pool's file, or filled it, if it has to. */
int keeper_pool_begin_start(struct keeper_sandbox *sb);
/* One is started, and may have its disk there. */
void keeper_pool_begin(struct keeper_sandbox *sb);

/* keeper_adopt.c */
struct keeper_sandbox *keeper_sandbox_find_init(struct keeper *k, pid_t pid, uint64_t start);
/* Before anything is served. */
int keeper_adopt(struct keeper *k, struct err *err);

#endif
