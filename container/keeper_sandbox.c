#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "container/keeper_state.h"

#define CREATE_MS    30000 /* a runtime that takes longer hangs */
#define TAKE_DOWN_MS 60000
#define RETRY_MS     200
#define RETRY_MAX_MS 10000
#define STATUS_MS    2000 /* the monitor tells within a millisecond, unless it is gone */
#define WAITERS_MAX  64   /* for one and the same end */
#define STATS_MAX    25
#define MOVES(state) (1u << (state))

struct waiter {
	struct list node;
	struct keeper_asker asker;
};

/* clang-format off */
static const unsigned moves[KEEPER_STATES] = {
	[KEEPER_NEW]         = MOVES(KEEPER_QUEUED) | MOVES(KEEPER_IS_RUNNING) | MOVES(KEEPER_DYING) |
			       MOVES(KEEPER_TAKING_DOWN) | MOVES(KEEPER_HAS_EXITED) |
			       MOVES(KEEPER_REMOVING),
	[KEEPER_QUEUED]      = MOVES(KEEPER_CREATING),
	[KEEPER_CREATING]    = MOVES(KEEPER_IS_RUNNING) | MOVES(KEEPER_TAKING_DOWN),
	[KEEPER_IS_RUNNING]  = MOVES(KEEPER_DYING),
	[KEEPER_DYING]       = MOVES(KEEPER_TAKING_DOWN),
	[KEEPER_TAKING_DOWN] = MOVES(KEEPER_HAS_EXITED),
	[KEEPER_HAS_EXITED]  = MOVES(KEEPER_REMOVING),
	[KEEPER_REMOVING]    = MOVES(KEEPER_TAKING_DOWN),
};
/* clang-format on */

static const char *const names[KEEPER_STATES] = {
	"new", "queued", "creating", "running", "dying", "taking_down", "exited", "removing",
};

void keeper_sandbox_enter(struct keeper_sandbox *sb, enum keeper_state state)
{
	assert(moves[sb->state] & MOVES(state));
	if (sb->state == KEEPER_HAS_EXITED)
		sb->keeper->exited--;
	if (state == KEEPER_HAS_EXITED)
		sb->keeper->exited++;
	log_debug("sandbox=%s generation=%llu state=%s", sb->c.spec.id.text,
		  (unsigned long long)sb->c.spec.generation, names[state]);
	sb->state = state;
	keeper_io_note(sb);
	keeper_cpus_note(sb);
}

/* --- the table --- */

static struct list *bucket_of(struct keeper *k, struct str id)
{
	uint32_t hash = 2166136261u;

	for (size_t i = 0; i < id.len; i++)
		hash = (hash ^ (unsigned char)id.at[i]) * 16777619u;
	return &k->buckets[hash % KEEPER_BUCKETS];
}

struct keeper_sandbox *keeper_sandbox_find(struct keeper *k, struct str id)
{
	struct list *bucket = bucket_of(k, id);

	list_for_each (node, bucket) {
		struct keeper_sandbox *sb = list_entry(node, struct keeper_sandbox, node);

		if (str_eq(str_of(sb->c.spec.id.text), id))
			return sb;
	}
	return NULL;
}

static void on_init_ready(struct watch *watch);
static void on_time(struct timer *timer);

struct keeper_sandbox *keeper_sandbox_new(struct keeper *k, const struct container_spec *spec)
{
	struct keeper_sandbox *sb =
		k->sandboxes < KEEPER_SANDBOXES_MAX ? calloc(1, sizeof(*sb)) : NULL;

	if (!sb)
		return NULL;
	sb->keeper = k;
	sb->c.spec = *spec;
	sb->c.init_pidfd = -1;
	sb->log_fd = -1;
	job_init(&sb->job);
	job_init(&sb->sync);
	watch_init(&sb->init, on_init_ready);
	timer_init(&sb->timer, on_time);
	list_init(&sb->waiters);
	list_init(&sb->group_ends);
	keeper_freeze_init(sb);
	list_append(bucket_of(k, str_of(spec->id.text)), &sb->node);
	k->sandboxes++;
	return sb;
}

void keeper_sandbox_free(struct keeper_sandbox *sb)
{
	struct keeper_next *next = take(sb->next);
	struct keeper *k = sb->keeper;

	if (sb->c.init_pid > 0)
		keeper_tell_monitor(k, &(struct monitor_record){.kind = MONITOR_SEEN,
								.pid = sb->c.init_pid,
								.start = sb->c.init_start});
	if (sb->state == KEEPER_HAS_EXITED)
		k->exited--;
	if (sb->is_unwanted)
		k->unwanted--;
	k->sandboxes--;
	keeper_sandbox_answer_waiters(sb, NULL);
	keeper_group_end_all(sb);
	keeper_freeze_end(sb, ERR_NOT_FOUND, "it has ended");
	watch_stop(&sb->init, &k->loop);
	timer_stop(&sb->timer);
	close_fdp(&sb->c.init_pidfd);
	close_fdp(&sb->log_fd);
	container_spec_close(&sb->c.spec);
	list_remove(&sb->node);
	free(sb);
	keeper_start_next(k, next);
	keeper_settle(k);
}

int keeper_sandbox_wait(struct keeper_sandbox *sb, struct keeper_asker asker)
{
	struct waiter *waiter;
	unsigned count = 0;

	list_for_each (node, &sb->waiters)
		count++;
	if (count >= WAITERS_MAX)
		return -EBUSY;
	waiter = calloc(1, sizeof(*waiter));
	if (!waiter)
		return -ENOMEM;
	waiter->asker = asker;
	list_append(&sb->waiters, &waiter->node);
	return 0;
}

void keeper_sandbox_answer_waiters(struct keeper_sandbox *sb, const struct err *failure)
{
	while (!list_is_empty(&sb->waiters)) {
		struct waiter *waiter = list_entry(sb->waiters.next, struct waiter, node);

		if (failure)
			keeper_answer_failed(sb->keeper, waiter->asker, failure);
		else
			keeper_answer_done(sb->keeper, waiter->asker);
		list_remove(&waiter->node);
		free(waiter);
	}
}

/* --- its end --- */

void keeper_sandbox_tell_exit(struct keeper_sandbox *sb)
{
	struct keeper_exited exited = {
		.id = str_of(sb->c.spec.id.text),
		.generation = sb->c.spec.generation,
		.status = sb->status,
		.is_known = sb->has_status,
		.oom_kills = sb->oom_kills,
	};

	keeper_conn_answer(&sb->keeper->conn, (struct keeper_asker){sb->keeper->conn.serial, 0},
			   &(struct keeper_answer){.type = KEEPER_EXITED,
						   .fields = keeper_exited_fields,
						   .value = &exited});
}

static void finish_down(struct keeper_sandbox *sb)
{
	struct keeper *k = sb->keeper;

	if (!sb->is_told) {
		keeper_answer_failed(k, sb->starter, &sb->failure);
		keeper_sandbox_free(sb);
		return;
	}
	sb->tries = 0;
	keeper_sandbox_enter(sb, KEEPER_HAS_EXITED);
	if (k->is_greeted)
		keeper_sandbox_tell_exit(sb);
	keeper_sandbox_answer_waiters(sb, NULL);
	keeper_settle(k);
}

static int begin_take_down(struct job *job)
{
	struct keeper_sandbox *sb = container_of(job, struct keeper_sandbox, job);
	struct err err = {0};
	pid_t pid;
	int r = container_take_down(&sb->c, sb->keeper->host, &pid, &err);

	if (r < 0)
		log_error("sandbox=%s cannot be taken down: %s", sb->c.spec.id.text, err.sentence);
	return r;
}

/* Without end: who forgot it would leave processes behind, and an id that cannot be started. */
static uint64_t retry_ms(const struct keeper_sandbox *sb)
{
	unsigned doublings = sb->tries < 8 ? sb->tries : 8;
	uint64_t ms = (uint64_t)RETRY_MS << doublings;

	return ms < RETRY_MAX_MS ? ms : RETRY_MAX_MS;
}

/* It is not down, so nobody is told that it has exited; but nobody has to wait for that either. */
static void tell_delay(struct keeper_sandbox *sb)
{
	struct err err = {0};

	err_set(&err, -EBUSY, ERR_INTERNAL,
		"sandbox \"%s\" cannot be taken down yet; that is tried until it works",
		sb->c.spec.id.text);
	keeper_sandbox_answer_waiters(sb, &err);
	keeper_drop_next(sb, &err);
	if (!sb->is_told)
		keeper_answer_failed(sb->keeper, sb->starter, &sb->failure);
	sb->starter = (struct keeper_asker){0};
}

static void on_take_down_end(struct job *job, int result, int status)
{
	struct keeper_sandbox *sb = container_of(job, struct keeper_sandbox, job);

	if (result == 0 && status == 0) {
		finish_down(sb);
		return;
	}
	log_error("sandbox=%s was not taken down whole status=%d try=%u", sb->c.spec.id.text,
		  status, sb->tries);
	if (++sb->tries == KEEPER_TAKE_DOWN_MAX)
		tell_delay(sb);
	timer_start(&sb->timer, &sb->keeper->loop, retry_ms(sb));
}

static void queue_take_down(struct keeper_sandbox *sb)
{
	sb->job.begin = begin_take_down;
	sb->job.on_end = on_take_down_end;
	sb->job.timeout_ms = TAKE_DOWN_MS;
	job_queue(&sb->job, &sb->keeper->runtimes, true);
}

void keeper_sandbox_take_down(struct keeper_sandbox *sb)
{
	keeper_sandbox_enter(sb, KEEPER_TAKING_DOWN);
	queue_take_down(sb);
}

/* The status is there, or will never be. The counter goes with the cgroup: it is read first. */
static void leave_dying(struct keeper_sandbox *sb)
{
	struct container_stats stats;
	int r = container_stats(&sb->c, sb->keeper->host, &stats);

	timer_stop(&sb->timer);
	if (r == 0 && stats.oom_kills > sb->oom_kills)
		sb->oom_kills = stats.oom_kills;
	/* An end for lack of memory must not look like another, just because memory is short. */
	if (r < 0 && r != -EOPNOTSUPP && r != -ENODEV) {
		log_error("sandbox=%s its numbers cannot be read: %s", sb->c.spec.id.text,
			  strerror(-r));
		if (sb->stats_tries++ < STATS_MAX) {
			timer_start(&sb->timer, &sb->keeper->loop, RETRY_MS);
			return;
		}
	}
	if (sb->is_told)
		keeper_tell_monitor(sb->keeper,
				    &(struct monitor_record){.kind = MONITOR_KEEP,
							     .pid = sb->c.init_pid,
							     .start = sb->c.init_start,
							     .status = sb->status,
							     .is_known = sb->has_status,
							     .id = sb->c.spec.id,
							     .generation = sb->c.spec.generation,
							     .oom_kills = sb->oom_kills});
	keeper_sandbox_take_down(sb);
}

static void on_init_ready(struct watch *watch)
{
	struct keeper_sandbox *sb = container_of(watch, struct keeper_sandbox, init);

	watch_stop(watch, &sb->keeper->loop);
	keeper_group_end_all(sb);
	keeper_freeze_end(sb, ERR_NOT_FOUND, "it has ended");
	keeper_sandbox_enter(sb, KEEPER_DYING);
	if (sb->has_status || !sb->is_ours)
		leave_dying(sb);
	else
		timer_start(&sb->timer, &sb->keeper->loop, STATUS_MS);
}

static void on_time(struct timer *timer)
{
	struct keeper_sandbox *sb = container_of(timer, struct keeper_sandbox, timer);

	if (sb->state == KEEPER_DYING) {
		if (!sb->has_status)
			log_warn("sandbox=%s the status of its init is unknown",
				 sb->c.spec.id.text);
		leave_dying(sb);
	} else {
		queue_take_down(sb);
	}
}

void keeper_take_status(struct keeper *k, const struct monitor_record *record)
{
	struct keeper_sandbox *sb = keeper_sandbox_find_init(k, record->pid, record->start);

	if (!sb) {
		/* Perhaps an init whose runtime we have not heard of yet; else any orphan. */
		k->recent[k->recent_next++ % KEEPER_RECENT] = *record;
		keeper_tell_monitor(k, &(struct monitor_record){.kind = MONITOR_SEEN,
								.pid = record->pid,
								.start = record->start});
		return;
	}
	sb->status = record->status;
	sb->has_status = record->is_known;
	if (sb->state == KEEPER_DYING)
		leave_dying(sb);
}

/* --- its start --- */

static void answer_started(struct keeper_sandbox *sb, struct err *err)
{
	struct keeper *k = sb->keeper;
	struct keeper_started started = {.pid = (uint32_t)sb->c.init_pid};
	int fds[KEEPER_GROUPS_FIRST + 2];
	unsigned count = 0;

	while (container_host_abilities(k->host) & KEEPER_HAS_GROUPS &&
	       count < KEEPER_GROUPS_FIRST) {
		uint32_t group;

		if (container_group_new(&sb->c, k->host, &group, &fds[count], err) < 0)
			break;
		if (count++ == 0)
			started.groups = group;
	}
	if (err->code == ERR_NONE) {
		fds[count] = container_open_counter(&sb->c, k->host);
		started.has_counter = fds[count] >= 0;
		count += started.has_counter;
		fds[count] = container_open_usage(&sb->c, k->host);
		started.has_usage = fds[count] >= 0;
		count += started.has_usage;
		sb->is_told = true;
		keeper_conn_answer(&k->conn, sb->starter,
				   &(struct keeper_answer){.type = KEEPER_STARTED,
							   .fields = keeper_started_fields,
							   .value = &started,
							   .fds = fds,
							   .fd_count = count});
	}
	while (count > 0)
		close(fds[--count]);
}

/* The monitor may have told of its end before we knew that it is its end. */
static void look_for_status(struct keeper_sandbox *sb)
{
	const struct monitor_record *recent = sb->keeper->recent;

	for (unsigned i = 0; i < KEEPER_RECENT && sb->c.init_pid > 0; i++) {
		if (recent[i].pid == sb->c.init_pid && recent[i].start == sb->c.init_start) {
			sb->status = recent[i].status;
			sb->has_status = recent[i].is_known;
		}
	}
}

void keeper_sandbox_bury(struct keeper_sandbox *sb)
{
	look_for_status(sb);
	if (!sb->is_told) {
		/* As a start that nobody waits for: it may be asked for again after HELLO. */
		sb->keeper->unwanted += !sb->is_unwanted;
		sb->is_unwanted = true;
		keeper_sandbox_take_down(sb);
		return;
	}
	keeper_sandbox_enter(sb, KEEPER_DYING);
	leave_dying(sb);
}

void keeper_sandbox_run(struct keeper_sandbox *sb)
{
	struct keeper *k = sb->keeper;
	int r;

	keeper_sandbox_enter(sb, KEEPER_IS_RUNNING);
	look_for_status(sb);
	r = watch_start(&sb->init, &k->loop, sb->c.init_pidfd, EPOLLIN);
	if (r < 0) {
		log_error("sandbox=%s cannot be watched, so it is killed: %s", sb->c.spec.id.text,
			  strerror(-r));
		container_kill(&sb->c, sb->keeper->host);
		keeper_sandbox_enter(sb, KEEPER_DYING);
		timer_start(&sb->timer, &k->loop, STATUS_MS);
	}
}

static void finish_create(struct keeper_sandbox *sb);

static int begin_sync(struct job *job)
{
	struct keeper_sandbox *sb = container_of(job, struct keeper_sandbox, sync);
	pid_t pid;

	return container_sync(&sb->c, sb->keeper->host, &pid);
}

static void on_sync_end(struct job *job, int result, int status)
{
	struct keeper_sandbox *sb = container_of(job, struct keeper_sandbox, sync);
	struct job_pool *runtimes = &sb->keeper->runtimes;

	sb->is_syncing = false;
	sb->sync_result = job->is_late ? -ETIMEDOUT : result == 0 && status != 0 ? -EIO : result;
	if (!sb->is_created)
		return;
	finish_create(sb);
	job_pool_release(runtimes);
}

static void sync_range(struct keeper_sandbox *sb)
{
	sb->sync.begin = begin_sync;
	sb->sync.on_end = on_sync_end;
	sb->sync.timeout_ms = CREATE_MS;
	sb->is_created = false;
	sb->is_syncing = true;
	job_queue(&sb->sync, &sb->keeper->syncs, true);
}

static int begin_create(struct job *job)
{
	struct keeper_sandbox *sb = container_of(job, struct keeper_sandbox, job);
	struct container_spec spec = sb->c.spec;
	pid_t pid;
	int r;

	keeper_sandbox_enter(sb, KEEPER_CREATING);
	r = container_prepare(&sb->c, sb->keeper->host, &spec, &sb->failure);
	container_spec_close(&spec);
	keeper_pool_begin(sb); /* or it was full */
	if (r < 0) {
		sb->c = (struct container){.spec = spec, .init_pidfd = -1};
		return r;
	}
	sb->is_prepared = true;
	r = container_create(&sb->c, sb->keeper->host, &pid, &sb->log_fd, &sb->failure);
	if (r >= 0)
		sync_range(sb);
	return r;
}

/* What came in between while the runtime was at work. */
static void check_wanted(struct keeper_sandbox *sb, struct err *err)
{
	if (sb->is_kill_wanted || sb->is_unwanted)
		err_set(err, -ECANCELED, ERR_CONFLICT, "the sandbox was killed while it started");
}

static int check_sync(struct keeper_sandbox *sb)
{
	if (sb->sync_result == 0)
		return 0;
	return err_set(&sb->failure, sb->sync_result, ERR_START_FAILED,
		       "cannot write to disk for good which user ids the sandbox has: %s",
		       strerror(-sb->sync_result));
}

/* The runtime and the sync have both ended. */
static void finish_create(struct keeper_sandbox *sb)
{
	int result = sb->create_result;

	if (result == 0)
		result = check_sync(sb);
	if (result == 0)
		result = container_record(&sb->c, sb->keeper->host, &sb->failure);
	if (result < 0) {
		if (sb->failure.code == ERR_NONE)
			err_set(&sb->failure, result, ERR_START_FAILED,
				"the runtime cannot be started: %s", strerror(-result));
		keeper_sandbox_take_down(sb);
		return;
	}
	sb->is_ours = true;
	keeper_sandbox_run(sb);
	keeper_io_check(sb);
	check_wanted(sb, &sb->failure);
	if (sb->failure.code == ERR_NONE)
		answer_started(sb, &sb->failure);
	if (sb->failure.code != ERR_NONE)
		container_kill(&sb->c, sb->keeper->host);
}

static void on_create_end(struct job *job, int result, int status)
{
	struct keeper_sandbox *sb = container_of(job, struct keeper_sandbox, job);
	struct keeper *k = sb->keeper;

	keeper_disk_sweep(k);
	if (!sb->is_prepared && result == -EEXIST) {
		keeper_sandbox_take_down(sb); /* what is in the way; the next START will do */
		return;
	}
	if (!sb->is_prepared) {
		keeper_answer_failed(k, sb->starter, &sb->failure);
		keeper_sandbox_free(sb);
		return;
	}
	/* At once: a number means this process now, and perhaps another later. */
	if (result == 0)
		result = container_created(&sb->c, k->host, status, sb->log_fd, &sb->failure);
	close_fdp(&sb->log_fd);
	sb->log_fd = -1;
	if (job->is_late)
		result = err_set(&sb->failure, -ETIMEDOUT, ERR_TIMEOUT,
				 "the runtime did not finish within %d seconds", CREATE_MS / 1000);
	sb->create_result = result;
	sb->is_created = true;
	if (sb->is_syncing)
		job_pool_hold(&k->runtimes);
	else
		finish_create(sb);
}

int keeper_sandbox_create(struct keeper_sandbox *sb, bool must)
{
	sb->job.begin = begin_create;
	sb->job.on_end = on_create_end;
	sb->job.timeout_ms = CREATE_MS;
	return job_queue(&sb->job, &sb->keeper->runtimes, must);
}

int keeper_sandbox_start(struct keeper_sandbox *sb, struct keeper_asker starter)
{
	sb->starter = starter;
	keeper_sandbox_enter(sb, KEEPER_QUEUED);
	return keeper_binds_begin(sb);
}

void keeper_sandbox_kill(struct keeper_sandbox *sb)
{
	sb->is_kill_wanted = true;
	if (sb->state == KEEPER_IS_RUNNING) {
		keeper_freeze_end(sb, ERR_CONFLICT, "it is being killed");
		container_kill(&sb->c, sb->keeper->host);
	} else if (sb->state == KEEPER_QUEUED && job_cancel(&sb->job)) {
		check_wanted(sb, &sb->failure);
		keeper_answer_failed(sb->keeper, sb->starter, &sb->failure);
		keeper_sandbox_free(sb);
	}
}

/*
 * Nobody will hear that it started, so it must not have: a waiting start is forgotten, one under
 * way is undone, and the next HELLO waits for that.
 */
void keeper_sandbox_abandon(struct keeper_sandbox *sb)
{
	keeper_drop_next(sb, &sb->failure); /* whom nobody tells */
	if (sb->state == KEEPER_QUEUED && job_cancel(&sb->job)) {
		keeper_sandbox_free(sb);
	} else if (sb->state == KEEPER_CREATING || (!sb->is_told && sb->state != KEEPER_REMOVING)) {
		sb->keeper->unwanted += !sb->is_unwanted;
		sb->is_unwanted = true;
	}
}
