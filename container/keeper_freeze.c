/*
 * Freezing and thawing a sandbox, and looking until it is so. Of the two the one that was asked for
 * last counts: whoever waits for the other is told that it will not be.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "container/keeper_state.h"

#define STEP_MIN_MS 1
#define STEP_MAX_MS 5
#define LIMIT_MS    2000
#define ASKERS_MAX  64

struct freeze_asker {
	struct list node;
	struct keeper_asker asker;
};

/* Nobody waits any more. */
static void answer_all(struct keeper_sandbox *sb, const struct err *failure)
{
	timer_stop(&sb->freeze.timer);
	while (!list_is_empty(&sb->freeze.askers)) {
		struct freeze_asker *one =
			list_entry(sb->freeze.askers.next, struct freeze_asker, node);

		if (failure)
			keeper_answer_failed(sb->keeper, one->asker, failure);
		else
			keeper_answer_done(sb->keeper, one->asker);
		list_remove(&one->node);
		free(one);
	}
}

/* What is not frozen whole is not left half frozen. */
static void fail(struct keeper_sandbox *sb, const struct err *failure)
{
	if (sb->freeze.is_wanted && container_thaw(&sb->c, sb->keeper->host) == 0) {
		sb->freeze.is_wanted = sb->freeze.is_partial = false;
		keeper_cpus_note(sb);
	}
	keeper_io_check(sb);
	answer_all(sb, failure);
}

static void fail_late(struct keeper_sandbox *sb)
{
	struct err err = {0};

	if (sb->freeze.is_wanted)
		err_set(&err, -ETIMEDOUT, ERR_TIMEOUT,
			"a process of sandbox \"%s\" hangs in the kernel and was not frozen within "
			"%d seconds, so all of them run on",
			sb->c.spec.id.text, LIMIT_MS / 1000);
	else
		err_set(&err, -ETIMEDOUT, ERR_TIMEOUT,
			"sandbox \"%s\" is still frozen %d seconds after it was thawed: somebody "
			"else holds its cgroup",
			sb->c.spec.id.text, LIMIT_MS / 1000);
	fail(sb, &err);
}

static void fail_broken(struct keeper_sandbox *sb, int error)
{
	struct err err = {0};

	if (error == -EBUSY)
		err_set(&err, error, ERR_CONFLICT,
			"sandbox \"%s\" runs something that is in no group of its own, as when "
			"many "
			"commands begin at once; it cannot be frozen without all the rest",
			sb->c.spec.id.text);
	else if (error == -ESRCH)
		err_set(&err, error, ERR_NOT_FOUND,
			"sandbox \"%s\" was killed while it was frozen, and ends now",
			sb->c.spec.id.text);
	else
		err_set(&err, error, ERR_INTERNAL, "sandbox \"%s\" cannot be %s: %s",
			sb->c.spec.id.text, sb->freeze.is_wanted ? "frozen" : "thawed",
			strerror(-error));
	fail(sb, &err);
}

/* 1: it is frozen. */
static int freeze(struct keeper_sandbox *sb)
{
	const struct container_host *host = sb->keeper->host;

	return sb->freeze.besides ? container_freeze_others(&sb->c, host, sb->freeze.besides)
				  : container_freeze(&sb->c, host);
}

/* 1: it is thawed. -ESRCH: that, too, but it dies now, and nobody is to be told that it runs. */
static int thaw(struct keeper_sandbox *sb)
{
	bool is_doomed = container_is_doomed(&sb->c);
	int r = container_thaw(&sb->c, sb->keeper->host);

	keeper_io_check(sb);
	if (r == 0)
		r = container_is_frozen(&sb->c, sb->keeper->host);
	if (r == 0 && is_doomed)
		return -ESRCH;
	return r < 0 ? r : !r;
}

static void look(struct timer *timer)
{
	struct keeper_sandbox *sb = container_of(timer, struct keeper_sandbox, freeze.timer);
	struct keeper *k = sb->keeper;
	int r = sb->freeze.is_wanted ? freeze(sb) : thaw(sb);

	if (r < 0) {
		fail_broken(sb, r);
	} else if (r > 0) {
		sb->freeze.is_partial = sb->freeze.is_wanted && sb->freeze.besides;
		answer_all(sb, NULL);
	} else if (loop_now_ms() >= sb->freeze.until_ms) {
		fail_late(sb);
	} else {
		timer_start(timer, &k->loop, sb->freeze.step_ms);
		if (sb->freeze.step_ms < STEP_MAX_MS)
			sb->freeze.step_ms++;
	}
}

static int add_asker(struct keeper_sandbox *sb, struct keeper_asker asker)
{
	struct freeze_asker *one;
	unsigned count = 0;

	list_for_each (node, &sb->freeze.askers)
		count++;
	one = count < ASKERS_MAX ? calloc(1, sizeof(*one)) : NULL;
	if (!one)
		return -ENOMEM;
	one->asker = asker;
	list_append(&sb->freeze.askers, &one->node);
	return 0;
}

void keeper_freeze_init(struct keeper_sandbox *sb)
{
	list_init(&sb->freeze.askers);
	timer_init(&sb->freeze.timer, look);
}

/* besides: 0, or the group that goes on. */
static void begin(struct keeper_sandbox *sb, bool is_wanted, uint32_t besides,
		  struct keeper_asker asker)
{
	struct keeper *k = sb->keeper;
	const char *id = sb->c.spec.id.text;

	if (!(container_host_abilities(k->host) & KEEPER_CAN_FREEZE)) {
		keeper_refuse(
			k, asker, ERR_UNSUPPORTED,
			"sandbox \"%s\" has no cgroup that can be frozen: that needs root or a "
			"delegated cgroup, and a host that has a freezer",
			id);
		return;
	}
	/* v1: who is frozen does not die. */
	if (is_wanted && sb->is_kill_wanted) {
		keeper_refuse(k, asker, ERR_CONFLICT, "sandbox \"%s\" is being killed", id);
		return;
	}
	if (sb->freeze.is_wanted != is_wanted || sb->freeze.besides != besides)
		keeper_freeze_end(sb, ERR_CONFLICT,
				  is_wanted ? "it is being frozen again" : "it is being thawed");
	if (list_is_empty(&sb->freeze.askers)) {
		sb->freeze.until_ms = loop_now_ms() + LIMIT_MS;
		sb->freeze.step_ms = STEP_MIN_MS;
	}
	if (add_asker(sb, asker) < 0) {
		keeper_refuse(k, asker, ERR_CAPACITY_EXCEEDED, "too many wait for it already");
		return;
	}
	sb->freeze.is_wanted = is_wanted;
	sb->freeze.besides = besides;
	keeper_cpus_note(sb);
	look(&sb->freeze.timer);
}

void keeper_freeze(struct keeper_sandbox *sb, bool is_wanted, struct keeper_asker asker)
{
	begin(sb, is_wanted, 0, asker);
}

void keeper_freeze_others(struct keeper_sandbox *sb, uint32_t group, struct keeper_asker asker)
{
	if (group == 0)
		keeper_refuse(sb->keeper, asker, ERR_INVALID_REQUEST, "no exec group is called 0");
	else if (!(container_host_abilities(sb->keeper->host) & KEEPER_HAS_GROUPS))
		keeper_refuse(sb->keeper, asker, ERR_UNSUPPORTED, "this host has no exec groups");
	else
		begin(sb, true, group, asker);
}

void keeper_freeze_end(struct keeper_sandbox *sb, enum err_code code, const char *why)
{
	struct err err = {0};

	if (list_is_empty(&sb->freeze.askers))
		return;
	err_set(&err, -ECANCELED, code, "sandbox \"%s\" was not %s: %s", sb->c.spec.id.text,
		sb->freeze.is_wanted ? "frozen" : "thawed", why);
	fail(sb, &err);
}

void keeper_freeze_abandon(struct keeper_sandbox *sb)
{
	keeper_freeze_end(sb, ERR_CONFLICT, "nobody waits for it");
	if (sb->freeze.is_partial)
		container_thaw(&sb->c, sb->keeper->host);
	keeper_io_check(sb);
	sb->freeze.is_partial = false;
}
