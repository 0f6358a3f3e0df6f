#include "daemon/sandbox_still.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/registry.h"
#include "daemon/sandbox_group.h"
#include "daemon/sandbox_state.h"

struct sandbox_still {
	struct sandbox *sb; /* NULL: it is lost, or the sandbox goes on */
	const struct sandbox_still_ops *ops;
	void *arg;
	bool is_hired;  /* whoever goes on */
	uint32_t group; /* of it */
	uint64_t serial;
	uv_timer_t timer;
	struct keeper_call call;
	bool is_asked;   /* the keeper was, so it may be frozen */
	const char *why; /* it is spoiled; NULL: it is not */
};

/* --- the end --- */

/* It has ended, or sleeps: what is thawed then is all of it. */
static bool is_moot(enum err_code code)
{
	return code == ERR_NOT_FOUND || code == ERR_SANDBOX_RESTARTED || code == ERR_CONFLICT;
}

static void on_thawed(struct keeper_call *call, struct keeper_answer *answer)
{
	struct sandbox *sb = container_of(call, struct sandbox, thaw_call);

	sb->is_thawing = false;
	if (answer->result == 0 || is_moot(answer->err.code))
		sb->is_thaw_owed = false;
	else
		log_warn("sandbox=%s is not thawed yet: %s", sb->id.text, answer->err.sentence);
}

void sandbox_still_thaw(struct sandbox *sb)
{
	struct keeper_ref ref = sandbox_ref(sb);

	if (!sb->is_thaw_owed || sb->is_thawing)
		return;
	sb->is_thawing = true;
	sb->thaw_call.done = on_thawed;
	keeper_ask(registry_keeper(sb->registry), &sb->thaw_call, KEEPER_THAW, &ref);
}

static void thaw(struct sandbox *sb)
{
	sb->is_thaw_owed = true;
	sandbox_still_thaw(sb);
}

/* From now on the sandbox is everybody's again. */
static void release(struct sandbox_still *s)
{
	struct sandbox *sb = take(s->sb);

	uv_timer_stop(&s->timer);
	keeper_cancel(registry_keeper(sb->registry), &s->call);
	sb->still = NULL;
	if (s->is_asked && (sb->state == SANDBOX_RUNNING || sb->state == SANDBOX_STOPPING))
		thaw(sb);
}

static void lose(struct sandbox_still *s, const struct err *err)
{
	struct err why = *err;

	release(s);
	s->ops->lost(s->arg, &why);
}

static void on_closed(uv_handle_t *handle)
{
	free(container_of((uv_timer_t *)handle, struct sandbox_still, timer));
}

void sandbox_still_end(struct sandbox_still *still)
{
	struct sandbox *sb = still->sb;

	if (sb)
		release(still);
	uv_close((uv_handle_t *)&still->timer, on_closed);
	if (sb && !registry_is_stopping(sb->registry))
		sandbox_step(sb); /* who has waited meanwhile */
}

void sandbox_still_lose(struct sandbox *sb, const char *why)
{
	struct err err;

	if (!sb->still)
		return;
	err_set(&err, -ECANCELED, ERR_CONFLICT, "the sandbox did not stand still any longer: %s",
		why);
	lose(sb->still, &err);
}

/* --- the beginning --- */

static void on_over(uv_timer_t *timer)
{
	struct sandbox_still *s = container_of(timer, struct sandbox_still, timer);
	struct sandbox *sb = s->sb;

	if (!s->why)
		s->why = s->is_asked ? "that lasted for five minutes"
				     : "its commands took too long to begin";
	sandbox_still_lose(sb, s->why);
	sandbox_step(sb);
}

void sandbox_still_spoil(struct sandbox *sb, const char *why)
{
	if (!sb->still)
		return;
	sb->still->why = why;
	uv_timer_start(&sb->still->timer, on_over, 0, 0);
}

static void on_frozen(struct keeper_call *call, struct keeper_answer *answer)
{
	struct sandbox_still *s = container_of(call, struct sandbox_still, call);
	struct sandbox *sb = s->sb;

	if (answer->result == 0 && s->why)
		return; /* what spoils it is told first */
	if (answer->result == 0) {
		uv_timer_start(&s->timer, on_over, STILL_MAX_MS, 0);
		s->ops->still(s->arg);
		return;
	}
	lose(s, &answer->err);
	sandbox_step(sb);
}

/* Its group must be one that it is alone in, and that can be told from the others. */
static void hire(struct sandbox_still *s)
{
	struct sandbox *sb = s->sb;
	const struct exec *exec;

	sandbox_groups_refill(sb);
	if (!sb->groups_len)
		return;
	s->is_hired = true;
	exec = s->ops->hire(s->arg);
	if (!exec)
		return; /* and it is over */
	s->group = exec_group(exec);
	s->serial = agent_serial(exec_number(exec));
	if (!s->group)
		sandbox_still_spoil(sb, "the command that reads has no group of its own");
}

/* Init waits for what it starts: in a group that is frozen it would wait for us. */
void sandbox_still_step(struct sandbox *sb)
{
	struct sandbox_still *s = sb->still;

	if (!s || s->is_asked || s->why || sb->state != SANDBOX_RUNNING)
		return;
	if (!s->is_hired) {
		hire(s);
		return;
	}
	if (exec_awaited(sb) == EXEC_AWAIT_START)
		return;
	s->is_asked = true;
	s->call.done = on_frozen;
	keeper_freeze_others(
		registry_keeper(sb->registry), &s->call,
		&(struct keeper_group_ref){str_of(sb->id.text), sb->generation, s->group});
}

bool sandbox_still_is_for(const struct sandbox *sb, uint64_t serial)
{
	return sb->still && sb->still->is_asked && sb->still->serial == serial;
}

int sandbox_still_check(const struct registry *registry, struct err *err)
{
	uint32_t needed = KEEPER_CAN_FREEZE | KEEPER_HAS_GROUPS;

	if ((keeper_abilities(registry_keeper(registry)) & needed) == needed)
		return 0;
	return err_set(
		err, -EOPNOTSUPP, ERR_UNSUPPORTED,
		"freeze: this host cannot freeze commands one by one: that needs a cgroup v2 "
		"(beside v1 will do) that is ours, as root or as a user's service; leave "
		"freeze out, or stop what writes before");
}

struct sandbox_still *sandbox_still_begin(struct sandbox *sb, const struct sandbox_still_ops *ops,
					  void *arg)
{
	struct sandbox_still *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->sb = sb;
	s->ops = ops;
	s->arg = arg;
	list_init(&s->call.link);
	uv_timer_init(registry_loop(sb->registry), &s->timer);
	uv_timer_start(&s->timer, on_over, STILL_BEGIN_MS, 0);
	sb->still = s;
	return s;
}
