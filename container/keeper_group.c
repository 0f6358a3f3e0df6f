/* Ending an exec group, and proving that it is empty. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "container/keeper_state.h"

#define STEP_MIN_MS 1
#define STEP_MAX_MS 5
#define LIMIT_MS    5000
#define PATIENCE_MS 200 /* who dies takes less, unless it waits for a disk */

struct group_end {
	struct list node;
	struct keeper_sandbox *sandbox;
	struct timer timer;
	struct keeper_asker asker;
	uint32_t group;
	uint64_t until_ms;
	unsigned step_ms;
	bool is_hurried;
};

static void free_end(struct group_end *end)
{
	timer_stop(&end->timer);
	list_remove(&end->node);
	free(end);
}

static void look(struct timer *timer)
{
	struct group_end *end = container_of(timer, struct group_end, timer);
	struct keeper *k = end->sandbox->keeper;
	int r = container_group_is_empty(&end->sandbox->c, k->host, end->group);

	/* Somebody was on the way into it and came after the kill. */
	if (r > 0 && container_group_remove(&end->sandbox->c, k->host, end->group) == -EBUSY) {
		container_group_kill(&end->sandbox->c, k->host, end->group);
		r = 0;
	}
	if (r == 0 && loop_now_ms() < end->until_ms) {
		if (loop_now_ms() + LIMIT_MS >= end->until_ms + PATIENCE_MS) {
			container_hurry(&end->sandbox->c, k->host);
			end->is_hurried = true;
		}
		timer_start(&end->timer, &k->loop, end->step_ms);
		if (end->step_ms < STEP_MAX_MS)
			end->step_ms++;
		return;
	}
	if (end->is_hurried) {
		container_slow_down(&end->sandbox->c, k->host);
		keeper_io_check(end->sandbox);
	}
	if (r > 0 || r == -ENOENT)
		keeper_answer_done(k, end->asker);
	else if (r == 0)
		keeper_refuse(k, end->asker, ERR_TIMEOUT,
			      "processes of the exec group were still there after %d seconds",
			      LIMIT_MS / 1000);
	else
		keeper_refuse(k, end->asker, ERR_INTERNAL,
			      "whether the exec group is empty cannot be read: %s", strerror(-r));
	free_end(end);
}

void keeper_group_end(struct keeper_sandbox *sb, uint32_t group, struct keeper_asker asker)
{
	struct group_end *end = NULL;
	int r = container_group_kill(&sb->c, sb->keeper->host, group);

	if (r == 0)
		end = calloc(1, sizeof(*end));
	if (!end) {
		keeper_refuse(sb->keeper, asker, r == -ENOENT ? ERR_NOT_FOUND : ERR_INTERNAL,
			      "the exec group %u cannot be killed: %s", group,
			      strerror(r < 0 ? -r : ENOMEM));
		return;
	}
	end->sandbox = sb;
	end->asker = asker;
	end->group = group;
	end->until_ms = loop_now_ms() + LIMIT_MS;
	end->step_ms = STEP_MIN_MS;
	timer_init(&end->timer, look);
	list_append(&sb->group_ends, &end->node);
	look(&end->timer);
}

void keeper_group_end_all(struct keeper_sandbox *sb)
{
	while (!list_is_empty(&sb->group_ends)) {
		struct group_end *end = list_entry(sb->group_ends.next, struct group_end, node);

		keeper_answer_done(sb->keeper, end->asker);
		free_end(end);
	}
}
