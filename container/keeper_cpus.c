/*
 * Sandboxes that may use a part of a processor, and run on all processors but one, as long as what
 * they may use together fits there (container/cgroup_cpus.h says what for). Where it does not, as
 * with many that mostly do nothing, they run on all: none may have less than its limit for that.
 * Those that are frozen use nothing. They come back to all but one when there is some room, or two
 * of them could make the keeper move all others time and again.
 */
#include "base/log.h"
#include "container/keeper_state.h"

#define ONE_MILLI    1000
#define ROOM_PERCENT 75

static bool is_part(const struct keeper_sandbox *sb)
{
	uint32_t milli = sb->c.spec.limits.cpu_milli;

	return milli && milli < ONE_MILLI;
}

/* One that is frozen is placed before it is thawed. */
static bool is_awake(const struct keeper_sandbox *sb)
{
	bool is_frozen = sb->freeze.is_wanted && !sb->freeze.besides;

	return sb->state == KEEPER_IS_RUNNING && !is_frozen && !sb->is_kill_wanted;
}

static void place(struct keeper_sandbox *sb)
{
	const struct keeper *k = sb->keeper;
	bool is_all = !is_part(sb) || k->is_crowded;
	enum keeper_cpus wanted = is_all ? KEEPER_CPUS_ALL : KEEPER_CPUS_BUT_ONE;
	int r;

	if (!is_awake(sb) || sb->cpus == wanted)
		return;
	r = container_choose_cpus(&sb->c, k->host, is_all);
	sb->cpus = r < 0 ? KEEPER_CPUS_UNKNOWN : wanted; /* the next time it is tried again */
	if (r < 0)
		log_warn("sandbox=%s its processors cannot be chosen: %s", sb->c.spec.id.text,
			 strerror(-r));
}

static void place_all(struct keeper *k)
{
	for (size_t i = 0; i < KEEPER_BUCKETS; i++)
		list_for_each (node, &k->buckets[i])
			place(list_entry(node, struct keeper_sandbox, node));
}

static bool would_be_crowded(const struct keeper *k)
{
	uint64_t room = (uint64_t)(container_host_cpus(k->host) - 1) * ONE_MILLI;

	return k->part_milli > (k->is_crowded ? room * ROOM_PERCENT / 100 : room);
}

void keeper_cpus_note(struct keeper_sandbox *sb)
{
	struct keeper *k = sb->keeper;
	uint32_t milli = is_awake(sb) && is_part(sb) ? sb->c.spec.limits.cpu_milli : 0;
	bool was_crowded = k->is_crowded;

	if (container_host_cpus(k->host) < 2)
		return;
	k->part_milli += milli;
	k->part_milli -= sb->part_milli;
	sb->part_milli = milli;
	k->is_crowded = would_be_crowded(k);
	if (k->is_crowded != was_crowded)
		place_all(k);
	else
		place(sb);
}
