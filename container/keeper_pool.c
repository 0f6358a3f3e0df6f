/*
 * Growing the pool of limited disks (pool.h) ahead of those who write to it. It is looked at only
 * while sandboxes run that have their disks there: often while they may write more than it has.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "container/keeper_state.h"

#define LOOK_MS    200   /* in which less is written than it is ahead */
#define SLOW_MS    2000  /* it has all, unless somebody else has taken of it */
#define NO_ROOM_MS 5000  /* the host had none: when it is asked again */
#define GROW_MS    60000 /* a worker that takes longer hangs */
#define PREPARE_MS 600000
#define CALM_MS    500 /* nothing was written for a while */
#define IS_ENOUGH  0
#define MUST_GROW  2

static uint64_t owed_by_all(const struct keeper *k)
{
	uint64_t owed = 0;

	for (size_t i = 0; i < KEEPER_BUCKETS; i++) {
		list_for_each (node, &k->buckets[i]) {
			const struct keeper_sandbox *sb =
				list_entry(node, struct keeper_sandbox, node);
			uint64_t more =
				sb->state == KEEPER_IS_RUNNING || sb->state == KEEPER_CREATING
					? container_pool_owes(&sb->c)
					: 0;

			owed = more > UINT64_MAX - owed ? UINT64_MAX : owed + more;
		}
	}
	return owed;
}

static int begin_grow(struct job *job)
{
	struct keeper *k = container_of(job, struct keeper, growth);
	pid_t pid;

	return container_pool_grow(k->host, owed_by_all(k), &pid);
}

static void on_grow_end(struct job *job, int result, int status)
{
	struct keeper *k = container_of(job, struct keeper, growth);
	bool has_failed = result < 0 || status != 0;

	if (has_failed && !k->has_no_room)
		log_warn("the pool of limited disks cannot grow: the host's disk is full, or %s",
			 result < 0 ? strerror(-result) : "its worker failed");
	k->has_no_room = has_failed;
	k->is_growing = false;
	if (owed_by_all(k))
		timer_start(&k->pool, &k->loop, has_failed ? NO_ROOM_MS : LOOK_MS);
	keeper_settle(k);
}

static void grow(struct keeper *k)
{
	job_init(&k->growth);
	k->growth.begin = begin_grow;
	k->growth.on_end = on_grow_end;
	k->growth.timeout_ms = GROW_MS;
	k->is_growing = true;
	job_queue(&k->growth, &k->growths, true);
}

/* Those whose limits an earlier keeper was about to change, or could not be set without it. */
static void settle_limits(struct keeper *k)
{
	for (size_t i = 0; i < KEEPER_BUCKETS; i++) {
		list_for_each (node, &k->buckets[i]) {
			struct keeper_sandbox *sb = list_entry(node, struct keeper_sandbox, node);
			struct err unused;

			if (sb->state != KEEPER_IS_RUNNING)
				continue;
			container_pool_settle(&sb->c, k->host, &unused);
			if (sb->c.is_pooled && sb->c.is_io_unsure)
				container_slow_down(&sb->c, k->host);
		}
	}
}

/* Without it those that were adopted write on, in what it had then. */
static bool is_open(struct keeper *k)
{
	struct err err = {0};
	int r = container_pool_open(k->host, &err);

	if (r < 0 && !k->has_no_pool)
		log_warn("the pool of limited disks cannot grow until it can be opened, which is "
			 "tried again: %s",
			 err.sentence);
	if (r == 0 && k->has_no_pool)
		log_info("the pool of limited disks is open again");
	k->has_no_pool = r < 0;
	if (r == 0)
		settle_limits(k);
	return r == 0;
}

/* Where nobody writes, as when all are frozen, it is looked at less and less often. */
static uint64_t next_look_ms(struct keeper *k)
{
	uint64_t trace = container_pool_trace(k->host);

	k->look_ms = trace != k->pool_trace ? LOOK_MS : k->look_ms * 5 / 4;
	k->look_ms = k->look_ms < LOOK_MS ? LOOK_MS : k->look_ms > CALM_MS ? CALM_MS : k->look_ms;
	k->pool_trace = trace;
	return k->look_ms;
}

static void on_look(struct timer *timer)
{
	struct keeper *k = container_of(timer, struct keeper, pool);
	uint64_t owed = owed_by_all(k);
	int room;

	if (owed && !is_open(k)) {
		timer_start(timer, &k->loop, SLOW_MS);
		return;
	}
	room = container_pool_room(k->host, owed);
	if (room == MUST_GROW)
		grow(k);
	else if (owed)
		timer_start(timer, &k->loop, room == IS_ENOUGH ? SLOW_MS : next_look_ms(k));
}

/* --- its file --- */

static int begin_prepare(struct job *job)
{
	struct keeper_sandbox *sb = container_of(job, struct keeper_sandbox, job);
	pid_t pid;

	/* Another start has waited for it. */
	if (!container_pool_is_unready(&sb->c.spec, sb->keeper->host))
		return -EALREADY;
	return container_pool_prepare(&sb->c.spec, sb->keeper->host, &pid, &sb->log_fd);
}

/* What failed is the answer to who wants to open it now, this start before all. */
static void on_prepare_end(struct job *job, int result, int status)
{
	struct keeper_sandbox *sb = container_of(job, struct keeper_sandbox, job);
	struct err err = {0};

	if (result == 0 && status != 0 && read(sb->log_fd, &err, sizeof(err)) != sizeof(err))
		err_set(&err, -EIO, ERR_START_FAILED,
			job->is_late ? "the pool of limited disks was not made ready within %d "
				       "seconds"
				     : "the pool of limited disks was not made ready: its worker "
				       "of at most %d seconds was killed",
			PREPARE_MS / 1000);
	if (err.code != ERR_NONE)
		container_pool_failed(sb->keeper->host, &err);
	close_fdp(&sb->log_fd);
	sb->log_fd = -1;
	keeper_sandbox_create(sb, true);
}

int keeper_pool_begin_start(struct keeper_sandbox *sb)
{
	if (!container_pool_is_unready(&sb->c.spec, sb->keeper->host))
		return keeper_sandbox_create(sb, false);
	sb->job.begin = begin_prepare;
	sb->job.on_end = on_prepare_end;
	sb->job.timeout_ms = PREPARE_MS;
	return job_queue(&sb->job, &sb->keeper->growths, true);
}

void keeper_pool_init(struct keeper *k)
{
	job_pool_init(&k->growths, &k->loop, 1, 1);
	timer_init(&k->pool, on_look);
}

void keeper_pool_watch(struct keeper *k)
{
	if (!k->is_growing)
		timer_start(&k->pool, &k->loop, 0);
}

void keeper_pool_begin(struct keeper_sandbox *sb)
{
	if (sb->c.is_pooled)
		keeper_pool_watch(sb->keeper);
}
