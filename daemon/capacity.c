#include "daemon/capacity.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/host.h"
#include "base/log.h"
#include "daemon/activity.h"
#include "daemon/registry.h"
#include "daemon/sandbox_sleep.h"

#define FLOOR_PART  20 /* of the memory there is */
#define FLOOR_MAX   (512ULL * 1024 * 1024)
#define WAIT_MAX_MS 30000 /* that a start waits for others to give way */
#define LOOK_MS     1000  /* at the memory, and after those who wait */
#define LOOK_FAR_MS 5000  /* at the memory, while there is twice enough */
#define NAMED_MAX   5     /* of those that are in the way */
#define NAMES_SIZE  256

struct capacity {
	struct registry *registry;
	struct capacity_limits limits;
	uv_timer_t timer;
	struct list live;    /* struct sandbox: all that have a container */
	struct list waiting; /* struct sandbox: cold, in order of arrival */
	unsigned running, frozen;
	bool is_stopping;
};

static struct capacity *capacity_of(const struct sandbox *sb)
{
	return registry_capacity(sb->registry);
}

static bool has_container(enum sandbox_state state)
{
	return state != SANDBOX_COLD && state != SANDBOX_DESTROYING;
}

static struct sandbox *sandbox_at(struct list *node)
{
	return list_entry(node, struct sandbox, place);
}

static uint64_t now_of(const struct capacity *c)
{
	return uv_now(registry_loop(c->registry));
}

/* Without those that nobody needs any more. */
static unsigned waiting_len(const struct capacity *c)
{
	unsigned len = 0;

	list_for_each (node, &c->waiting)
		len += !list_is_empty(&sandbox_at(node)->uses);
	return len;
}

static bool has_room(const struct capacity *c)
{
	return !c->limits.running || c->running < c->limits.running;
}

/* --- what is in the way --- */

struct holder {
	const struct sandbox *sb;
	int64_t since_ms; /* INT64_MAX: nothing holds it */
	const char *why;
};

static struct holder holder_of(const struct sandbox *sb)
{
	struct holder holder = {sb, INT64_MAX, NULL};

	holder.why = activity_held_by(sb, &holder.since_ms);
	if (!holder.why && sb->state == SANDBOX_RUNNING)
		holder.why = "idle";
	if (!holder.why)
		holder.why = sandbox_state_name(sb);
	return holder;
}

/* Who is held for the longest time comes first. Returns how many. */
static unsigned find_holders(const struct capacity *c, struct holder ret[NAMED_MAX])
{
	unsigned len = 0;

	list_for_each (node, &c->live) {
		struct holder holder = holder_of(sandbox_at(node));
		unsigned at = len;

		while (at && ret[at - 1].since_ms > holder.since_ms)
			at--;
		if (at == NAMED_MAX)
			continue;
		if (len < NAMED_MAX)
			len++;
		memmove(ret + at + 1, ret + at, (len - 1 - at) * sizeof(*ret));
		ret[at] = holder;
	}
	return len;
}

static void name_holders(const struct capacity *c, char ret[NAMES_SIZE])
{
	struct holder holders[NAMED_MAX];
	unsigned len = find_holders(c, holders), i;
	size_t used = 0;

	ret[0] = '\0';
	/* As many as fit, with room for what follows. */
	for (i = 0; i < len && used + 96 < NAMES_SIZE; i++)
		used += (size_t)snprintf(ret + used, NAMES_SIZE - used, "%s%s (%s)", i ? ", " : "",
					 holders[i].sb->id.text, holders[i].why);
	if (i < c->running)
		snprintf(ret + used, NAMES_SIZE - used, " and %u more", c->running - i);
}

static int refuse_running(const struct capacity *c, struct err *err)
{
	char names[NAMES_SIZE];

	name_holders(c, names);
	return err_set(err, -EBUSY, ERR_CAPACITY_EXCEEDED,
		       "max_running is %u, %u sandboxes have a container, and none of them is "
		       "frozen and free to give way: %s; stop one (`berth stop ID`), try later, or "
		       "raise max_running",
		       c->limits.running, c->running, names);
}

static int check_memory(const struct capacity *c, struct err *err)
{
	uint64_t available = c->limits.memory_floor ? host_memory_available() : UINT64_MAX;

	if (available >= c->limits.memory_floor)
		return 0;
	return err_set(err, -ENOMEM, ERR_CAPACITY_EXCEEDED,
		       "only %" PRIu64 " MiB of the host's memory are available, and memory_floor "
		       "is %" PRIu64 " MiB: stop something (%u sandboxes have a container), try "
		       "later, or lower memory_floor",
		       available >> 20, c->limits.memory_floor >> 20, c->running);
}

/* Half of the places are left to those whom somebody has asked for. */
bool capacity_has_spare(const struct capacity *c)
{
	struct err err;

	return check_memory(c, &err) == 0 &&
	       (!c->limits.running || 2 * (c->running + 1) <= c->limits.running);
}

int capacity_check_new(const struct capacity *capacity, struct err *err)
{
	size_t count = registry_count(capacity->registry);

	if (!capacity->limits.sandboxes || count < capacity->limits.sandboxes)
		return 0;
	return err_set(err, -EBUSY, ERR_CAPACITY_EXCEEDED,
		       "max_sandboxes is %u, and there are %zu sandboxes: remove some (`berth "
		       "prune`, `berth rm ID`), or raise max_sandboxes",
		       capacity->limits.sandboxes, count);
}

/* --- giving way --- */

struct survey {
	unsigned ending, resting;
	struct sandbox *oldest; /* of those that rest */
};

static struct survey look_around(const struct capacity *c)
{
	struct survey s = {0};

	list_for_each (node, &c->live) {
		struct sandbox *sb = sandbox_at(node);

		if (sandbox_is_ending(sb))
			s.ending++;
		if (!sandbox_is_spare(sb))
			continue;
		s.resting++;
		if (!s.oldest || sb->active_at_ms < s.oldest->active_at_ms)
			s.oldest = sb;
	}
	return s;
}

static void give_way(struct sandbox *sb, enum slept_why why)
{
	log_info("sandbox=%s gives way reason=%s", sb->id.text,
		 why == SLEPT_MEMORY ? "memory" : "capacity");
	sandbox_fall_asleep(sb, why);
}

/* For so many that are to start, counting those who go already. All of it, or nothing. */
static int make_room(struct capacity *c, unsigned wanted)
{
	struct survey s = look_around(c);
	int64_t missing = (int64_t)c->running + wanted - s.ending - c->limits.running;

	if (!c->limits.running || missing <= 0)
		return 0;
	if (missing > s.resting)
		return -EBUSY;
	for (; missing > 0; missing--)
		give_way(look_around(c).oldest, SLEPT_CAPACITY);
	return 0;
}

/* --- the timer --- */

static void on_timer(uv_timer_t *timer);

/* After so long at the latest. */
static void look_in(struct capacity *c, uint64_t ms)
{
	bool is_sooner =
		!uv_is_active((uv_handle_t *)&c->timer) || uv_timer_get_due_in(&c->timer) > ms;

	if (is_sooner && !c->is_stopping)
		uv_timer_start(&c->timer, on_timer, ms, 0);
}

static void answer(struct sandbox *sb, const struct err *err)
{
	list_remove(&sb->place);
	sandbox_room(sb, err);
}

static void serve(struct capacity *c)
{
	struct err err;

	while (!list_is_empty(&c->waiting) && has_room(c)) {
		bool is_short = check_memory(c, &err) < 0;

		answer(sandbox_at(c->waiting.next), is_short ? &err : NULL);
	}
}

/* Those for whom nobody gives way any more wait in vain; who came last gives up first. */
static void settle(struct capacity *c)
{
	struct err err;

	while (!list_is_empty(&c->waiting) &&
	       sandbox_at(c->waiting.next)->room_due_ms <= now_of(c)) {
		err_set(&err, -ETIMEDOUT, ERR_CAPACITY_EXCEEDED,
			"the sandbox that gives way to this one has not ended yet: try again");
		answer(sandbox_at(c->waiting.next), &err);
	}
	while (!list_is_empty(&c->waiting) && make_room(c, waiting_len(c)) < 0) {
		refuse_running(c, &err);
		answer(sandbox_at(c->waiting.prev), &err);
	}
}

/* While memory is short. One at a time: the next only if that was not enough. */
static uint64_t relieve(struct capacity *c)
{
	uint64_t floor = c->limits.memory_floor, available;
	struct survey s;

	if (!floor || !c->frozen)
		return UINT64_MAX;
	available = host_memory_available();
	if (available >= floor)
		return available / 2 < floor ? LOOK_MS : LOOK_FAR_MS;
	s = look_around(c);
	if (!s.ending && s.oldest)
		give_way(s.oldest, SLEPT_MEMORY);
	return LOOK_MS;
}

static void on_timer(uv_timer_t *timer)
{
	struct capacity *c = container_of(timer, struct capacity, timer);
	uint64_t next_ms;

	serve(c);
	settle(c);
	next_ms = relieve(c);
	if (!list_is_empty(&c->waiting))
		next_ms = LOOK_MS;
	if (next_ms != UINT64_MAX)
		look_in(c, next_ms);
}

/* --- who comes and goes --- */

int capacity_admit(struct sandbox *sb, struct err *err)
{
	struct capacity *c = capacity_of(sb);

	if (!list_is_empty(&sb->place))
		return 0; /* it waits already */
	if (check_memory(c, err) < 0) {
		look_in(c, 0);
		return -ENOMEM;
	}
	if (has_room(c) && list_is_empty(&c->waiting))
		return 1;
	if (make_room(c, waiting_len(c) + 1) < 0)
		return refuse_running(c, err);
	sb->room_due_ms = now_of(c) + WAIT_MAX_MS;
	list_append(&c->waiting, &sb->place);
	look_in(c, has_room(c) ? 0 : LOOK_MS);
	return 0;
}

void capacity_moved(struct sandbox *sb, enum sandbox_state from)
{
	struct capacity *c = capacity_of(sb);
	bool had = has_container(from), has = has_container(sb->state);

	if (!had)
		list_remove(&sb->place); /* it does not wait any more */
	if (had && !has) {
		list_remove(&sb->place);
		c->running--;
	} else if (!had && has) {
		list_append(&c->live, &sb->place);
		c->running++;
	}
	c->frozen += sb->state == SANDBOX_FROZEN;
	c->frozen -= from == SANDBOX_FROZEN;
	if (had && !has && (!list_is_empty(&c->waiting) || c->frozen))
		look_in(c, 0);
	else if (sb->state == SANDBOX_FROZEN)
		look_in(c, LOOK_MS);
}

void capacity_reclaimed(struct sandbox *sb)
{
	if (!list_is_empty(&capacity_of(sb)->waiting))
		look_in(capacity_of(sb), 0);
}

/* --- life --- */

uint64_t capacity_floor_default(uint64_t memory_bytes)
{
	uint64_t part = memory_bytes / FLOOR_PART;

	return part < FLOOR_MAX ? part : FLOOR_MAX;
}

struct capacity *capacity_new(struct registry *registry, const struct capacity_limits *limits)
{
	struct capacity *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->registry = registry;
	c->limits = *limits;
	list_init(&c->live);
	list_init(&c->waiting);
	uv_timer_init(registry_loop(registry), &c->timer);
	return c;
}

void capacity_set(struct capacity *capacity, const struct capacity_limits *limits)
{
	capacity->limits = *limits;
	look_in(capacity, 0);
}

void capacity_stop(struct capacity *capacity)
{
	capacity->is_stopping = true;
	uv_timer_stop(&capacity->timer);
}

static void on_closed(uv_handle_t *handle)
{
	free(container_of((uv_timer_t *)handle, struct capacity, timer));
}

void capacity_free(struct capacity *capacity)
{
	uv_close((uv_handle_t *)&capacity->timer, on_closed);
}

/* --- showing --- */

static void write_limit(struct json_writer *w, const char *key, uint64_t limit)
{
	json_key(w, key);
	limit ? json_int(w, (int64_t)limit) : json_null(w);
}

static void write_count(struct json_writer *w, const char *key, uint64_t count)
{
	json_key(w, key);
	json_int(w, (int64_t)count);
}

void capacity_write(const struct capacity *capacity, struct json_writer *w)
{
	uint64_t available = host_memory_available();

	json_object(w);
	write_limit(w, "max_sandboxes", capacity->limits.sandboxes);
	write_limit(w, "max_running", capacity->limits.running);
	write_limit(w, "memory_floor_bytes", capacity->limits.memory_floor);
	write_count(w, "sandboxes", registry_count(capacity->registry));
	write_count(w, "running", capacity->running);
	write_count(w, "frozen", capacity->frozen);
	write_count(w, "waiting", waiting_len(capacity));
	json_key(w, "memory_available_bytes");
	available == UINT64_MAX ? json_null(w) : json_int(w, (int64_t)available);
	json_object_end(w);
}
