/*
 * One sandbox: the actor behind an ID. Found only through the registry.
 *
 *	 cold ──> starting ──> running ──> stopping ──> cold
 *	  │          │          ^   │
 *	  │          │          └─ frozen
 *	  │          └── fails: cold, with last_failure
 *	  └──> destroying ──> freed
 *
 * Whoever needs the container waits with a sandbox_use; all who wait share one start. Starting goes
 * through phases: the new generation is stored, the keeper starts the container, init answers. Only
 * then it is running. Lifecycle operations run one at a time; execs run side by side.
 */
#ifndef BERTH_DAEMON_SANDBOX_H
#define BERTH_DAEMON_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

#include "base/err.h"
#include "base/list.h"
#include "daemon/agent.h"
#include "daemon/allowance.h"
#include "daemon/keeper.h"
#include "daemon/store.h"
#include "daemon/store_sandbox.h"
#include "daemon/usage.h"
#include "daemon/wallclock.h"
#include "proto/sandbox_id.h"
#include "proto/settings.h"

struct activity;
struct exec;
struct registry;
struct sandbox;
struct save;
struct sandbox_still;
struct watcher;

enum sandbox_state {
	SANDBOX_COLD,
	SANDBOX_STARTING,
	SANDBOX_RUNNING,
	SANDBOX_FROZEN, /* or about to be, or not any more: whoever needs it waits */
	SANDBOX_STOPPING,
	SANDBOX_DESTROYING,
	SANDBOX_STATE_COUNT,
};

/* Somebody who waits: for the container to run, to be stopped, or for everything to be gone. */
struct sandbox_wait {
	struct list link;
	/* Called once, never before the call that made it wait returns. err: NULL on success. */
	void (*done)(struct sandbox_wait *wait, struct sandbox *sb, const struct err *err);
	bool is_second; /* see sandbox_use_again() */
};

#define SANDBOX_GROUPS_MAX 16 /* exec groups kept ready */

struct sandbox_group {
	int fd; /* its directory; -1: the host has none */
	uint32_t number;
};

/* Why it went to sleep, and whence it woke. */
enum slept_why {
	SLEPT_ASKED,
	SLEPT_IDLE,
	SLEPT_MAX_AWAKE,
	SLEPT_STOP_AFTER,
	SLEPT_CAPACITY,
	SLEPT_MEMORY,
	SLEPT_FAILED,
};
/* Why it is no more. */
enum destroy_why { DESTROY_REQUEST, DESTROY_PRUNE, DESTROY_DELETE_AFTER };

enum woke_from { WOKE_FROZEN, WOKE_STOPPED, WOKE_ADOPTED };

/* Of its last sleep, or its last wake. */
struct sandbox_receipt {
	enum sleep_mode mode; /* SLEEP_AUTO: there was none */
	enum slept_why why;
	enum woke_from from;
	bool is_ephemeral; /* its disk ends with it */
	uint64_t generation;
	int64_t at_ms;
};

struct sandbox {
	struct registry *registry;
	struct sandbox_id id;
	struct settings settings;
	int64_t created_at_ms, started_at_ms, active_at_ms;
	uint64_t generation;
	struct sandbox_failure last_failure;
	struct sandbox_oom last_oom;
	bool is_ephemeral; /* the disk of its last life was in memory, whatever is set by now */
	bool is_reserved;  /* a run's, or kept warm for one: others may look at it, and delete it */
	bool is_strict;    /* of this life: SIGSYS is the filter's, see daemon/trust.h */
	uint64_t oom_seen; /* kills of this life that were noted */
	/* Of background output, and since when by the loop's clock: see exec_kept_pull(). */
	uint64_t pulled_since_ms;
	size_t pulled_bytes;

	bool has_disk;       /* it has run, and what it wrote is kept: a start without that fails */
	bool is_stored;      /* its fact is on disk: until then it is nobody's but its maker's */
	bool is_unreadable;  /* its stored settings are: nothing is started with others */
	unsigned saves;      /* under way */
	struct list changes; /* who waits for the change of settings that is under way */
	bool is_changing;
	struct save *limit_save; /* the change that waits for the start; of sandbox_save.c */
	struct save *asked_save; /* the one that waits for the keeper */
	bool is_outdated;        /* it was started with other settings than it has now */

	enum sandbox_state state;
	unsigned phase;                           /* of starting and destroying; sandbox.c knows */
	struct list uses, sleeps, stops, deletes; /* who waits */
	bool is_wake_wanted;                      /* though nobody waits for it */
	bool is_woken;                            /* thawed to be adopted, and not to be stopped */
	bool is_start_due;                        /* see autostart.h */
	bool is_stop_wanted;
	bool is_stop_left;            /* begun by an earlier berthd */
	enum slept_why why;           /* it is being stopped */
	enum destroy_why destroy_why; /* set by who asks for that first */
	struct sandbox_receipt last_sleep, last_wake;
	struct activity *activity;
	int64_t asleep_since_ms; /* 0: it is awake; of sandbox_expiry.c, as what follows */
	struct wall_timer expiry;
	struct sandbox_wait expiry_wait;
	struct list place;    /* of capacity.c */
	uint64_t room_due_ms; /* as long as it waits there */
	bool is_seen;         /* the keeper's list named it */
	bool is_adopting;     /* STARTING, but it was started before */
	bool is_kill_owed;    /* the keeper was away when it was asked to */
	bool is_condemned;    /* STOPPING because of `err` */
	struct err err;

	struct keeper_call call, group_call;
	struct keeper_call thaw_call, limit_call; /* of sandbox_still.c and sandbox_save.c */
	bool is_group_asked, is_thawing, is_thaw_owed;
	int oom_fd;   /* the file that counts its out-of-memory kills; -1: there is none */
	int usage_fd; /* the one that counts its processor time */
	struct agent *agent;
	pid_t init_pid;
	struct list execs;
	unsigned execs_len;
	uint32_t last_exec;
	struct list sessions, shells; /* of session.c */
	unsigned sessions_len;
	struct list contexts, kernels; /* of context.c */
	size_t unread_bytes;           /* that its kernels hold of reports without an end */
	unsigned contexts_len;
	uint64_t last_call;    /* of a context; no other life of berthd has had it */
	struct list strangers; /* of exec_stranger.c */
	unsigned strangers_told;
	struct sandbox_still *still; /* of sandbox_still.c; NULL: it goes on */
	struct watcher *watcher;     /* of watch.c; NULL: nobody watches */
	struct list processes;       /* of process.c; also those that have ended */
	unsigned processes_len;
	struct list alarms; /* of alarm.c, by name */
	unsigned alarms_len, alarms_changing, alarms_adding;
	struct list ports; /* of port.c, by number */
	unsigned ports_len;
	struct list port_changes;       /* in order; the first is under way */
	char alias[SANDBOX_ALIAS_SIZE]; /* what previews call it; "": its ID */
	struct list connects;           /* of port_connect.c */
	unsigned connects_len;
	uint32_t last_connect;
	struct list upstreams; /* of upstream.c: all connections to its ports */
	struct usage usage;    /* of usage.c; upstream.c counts bytes there */
	struct allowance_watch watch;
	struct list pings;
	uint64_t last_ping;
	/* Ticks of vigil.c since init was heard while something waits for it; since it was asked.
	 */
	unsigned silent_ticks, asked_ticks;
	struct sandbox_group groups[SANDBOX_GROUPS_MAX];
	unsigned groups_len;
};

/* What its state is called: the states, and "failed", which is to be cold because of a failure. */
#define SANDBOX_WORDS (SANDBOX_STATE_COUNT + 1)
const char *sandbox_state_name(const struct sandbox *sb);
size_t sandbox_state_number(const struct sandbox *sb);
const char *sandbox_state_word(size_t number);
/* Whether a sandbox can ever be called so. */
bool sandbox_state_is_known(struct str name);

/*
 * Each: 1 if it is so already, and nobody waits; 0 if `wait` is called later; negative with `err`
 * if it cannot even be tried. sandbox_delete()'s sandbox is freed after the last `done`.
 */
int sandbox_use(struct sandbox *sb, struct sandbox_wait *wait, struct err *err);
/*
 * What it was used for could not begin. If that is because its init has just died, `wait` is called
 * when the next one runs: true, at most once for each wait.
 */
bool sandbox_use_again(struct sandbox *sb, struct sandbox_wait *wait);
int sandbox_stop(struct sandbox *sb, struct sandbox_wait *wait, struct err *err);
int sandbox_delete(struct sandbox *sb, struct sandbox_wait *wait, struct err *err);
/* The one who waits is gone. What was begun for it goes on. */
void sandbox_cancel(struct sandbox_wait *wait);

/*
 * Stores the generation as it is now; or `settings`, which become the sandbox's when they are
 * stored, and belong to the call from here on, whatever it returns. -EBUSY, -ENOMEM, -ESHUTDOWN:
 * `done` will not be called. One change of settings at a time: see sandbox_change(). Limits that
 * can change while it runs hold in its container first, or nothing is stored, and `done` says why.
 */
int sandbox_save_generation(struct sandbox *sb, store_done_fn *done, void *arg);
int sandbox_save_settings(struct sandbox *sb, struct settings *settings, store_done_fn *done,
			  void *arg);
/* As last_failure is now; what cannot be stored is logged. */
void sandbox_save_failure(const struct sandbox *sb);
/* As last_oom is now. */
void sandbox_save_oom(const struct sandbox *sb);
/* It runs, on a disk that is to be there the next time. */
void sandbox_save_disk(struct sandbox *sb);
/* 1: no change is under way; 0: `wait` is called when it is over, and must ask again. */
int sandbox_change(struct sandbox *sb, struct sandbox_wait *wait);
/* One that was never stored, and that nothing holds any more, goes. */
void sandbox_discard(struct sandbox *sb);
/* Being deleted, or about to be. */
bool sandbox_is_leaving(const struct sandbox *sb);

/* An exec group that nothing lives in; fd -1 where the host has none, or none is at hand now. */
struct sandbox_group sandbox_group_take(struct sandbox *sb);
/* A file of it, to be read; a negative errno, -ENOENT and -ENODEV when the keeper removed it. */
int sandbox_group_open(const struct sandbox *sb, struct sandbox_group group, const char *file);
/* Back again, when it is empty. */
void sandbox_group_give(struct sandbox *sb, struct sandbox_group group);

/* How often the kernel has killed in it for want of memory; negative: that cannot be known. */
int64_t sandbox_oom_kills(const struct sandbox *sb);

/* The container cannot be trusted any more: it is ended, and `why` becomes the last failure. */
void sandbox_condemn(struct sandbox *sb, const struct err *why);

/* For process.c: the ends of those that ran are stored. */
void sandbox_processes_ended(struct sandbox *sb);

/* For sandbox*.c: calls all who wait there now. */
void sandbox_tell(struct sandbox *sb, struct list *waits, const struct err *err);

/* For the registry. */
struct sandbox *sandbox_new(struct registry *registry, const struct sandbox_id *id);
void sandbox_free(struct sandbox *sb);
void sandbox_adopt(struct sandbox *sb, const struct keeper_running *running);
void sandbox_exited(struct sandbox *sb, const struct keeper_exited *exited);
void sandbox_vanished(struct sandbox *sb);

/* For capacity.c: there is room for the start that waits for it, or `err` says why there is none.
 * It may be freed. */
void sandbox_room(struct sandbox *sb, const struct err *err);

#endif
