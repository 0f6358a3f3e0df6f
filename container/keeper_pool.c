/*
 * Growing the pool of limited disks (pool.h) ahead of those who write to it. It is looked at only
 * while sandboxes run that have their disks there: often while they may write more than it has.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "container/keeper_state.h"

#define LOOK_MS    200   /* in which less is written than it is ahead */
#define SLOW_MS    2000  /* it has all, unless somebody else has taken of it */
#define NO_ROOM_MS 5000  /* the host had none: when it is asked again */
#define GROW_MS    60000 /* a worker that takes longer hangs */
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
	return r == 0;
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
		timer_start(timer, &k->loop, room == IS_ENOUGH ? SLOW_MS : LOOK_MS);
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
