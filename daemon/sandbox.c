#include "daemon/sandbox.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/process_stat.h"
#include "daemon/exec.h"
#include "daemon/exec_stranger.h"
#include "daemon/logs.h"
#include "daemon/ping.h"
#include "daemon/process.h"
#include "daemon/registry.h"
#include "daemon/sandbox_group.h"
#include "daemon/session.h"

#define BIT(state) (1u << (state))

/* What is waited for in STARTING and DESTROYING. */
enum phase {
	PHASE_STORE,
	PHASE_KEEPER,
	PHASE_ADOPT,
	PHASE_AGENT,
	PHASE_UNDO,
	PHASE_DISK,
	PHASE_FACT,
};

/* clang-format off */
static const char *const names[SANDBOX_STATE_COUNT] = {
	"cold", "starting", "running", "stopping", "destroying",
};

static const unsigned moves[SANDBOX_STATE_COUNT] = {
	[SANDBOX_COLD]       = BIT(SANDBOX_STARTING) | BIT(SANDBOX_DESTROYING),
	[SANDBOX_STARTING]   = BIT(SANDBOX_RUNNING) | BIT(SANDBOX_COLD),
	[SANDBOX_RUNNING]    = BIT(SANDBOX_STOPPING) | BIT(SANDBOX_COLD),
	[SANDBOX_STOPPING]   = BIT(SANDBOX_COLD),
	[SANDBOX_DESTROYING] = BIT(SANDBOX_COLD),
};
/* clang-format on */

static void step(struct sandbox *sb);

bool sandbox_state_is_known(struct str name)
{
	for (size_t i = 0; i < array_len(names); i++) {
		if (str_eq(name, str_of(names[i])))
			return true;
	}
	return str_eq(name, STR("failed")) || str_eq(name, STR("frozen"));
}

const char *sandbox_state_name(const struct sandbox *sb)
{
	return sb->state == SANDBOX_COLD && sb->last_failure.err.code != ERR_NONE
		       ? "failed"
		       : names[sb->state];
}

static void enter(struct sandbox *sb, enum sandbox_state state)
{
	assert(moves[sb->state] & BIT(state));
	log_info("sandbox=%s generation=%llu %s -> %s", sb->id.text,
		 (unsigned long long)sb->generation, names[sb->state], names[state]);
	sb->state = state;
}

void sandbox_tell(struct sandbox *sb, struct list *waits, const struct err *err)
{
	struct list now;

	/* Whoever is told may wait anew: that is another turn. */
	list_init(&now);
	while (!list_is_empty(waits))
		list_move(&now, waits->next);
	while (!list_is_empty(&now)) {
		struct sandbox_wait *wait = list_entry(now.next, struct sandbox_wait, link);

		/* Its init died while others were told: they wait for the next. */
		if (waits == &sb->uses && !err && sb->state != SANDBOX_RUNNING) {
			list_move(waits, &wait->link);
			continue;
		}
		list_remove(&wait->link);
		wait->done(wait, sb, err);
	}
}

static void note_failure(struct sandbox *sb, const struct err *err)
{
	log_error("sandbox=%s generation=%llu failed: %s", sb->id.text,
		  (unsigned long long)sb->generation, err->sentence);
	sb->last_failure.err = *err;
	sb->last_failure.at_ms = registry_now_ms();
}

static struct keeper *keeper_of(struct sandbox *sb)
{
	return registry_keeper(sb->registry);
}

static struct keeper_ref ref_of(const struct sandbox *sb)
{
	return (struct keeper_ref){str_of(sb->id.text), sb->generation};
}

/* --- the end of a life --- */

/* Nothing of the container is left. `why`: it was not asked for. */
static void gone(struct sandbox *sb, const struct err *why)
{
	/* First of all: whoever is told below may ask for it again. */
	enter(sb, SANDBOX_COLD);
	sb->init_pid = 0;
	sb->is_kill_owed = false;
	if (sb->agent)
		agent_free(take(sb->agent));
	exec_lose_all(sb, why ? why->sentence : NULL);
	exec_stranger_forget_all(sb);
	session_lose_all(sb);
	ping_lose_all(sb);
	sandbox_groups_drop(sb);
	if (why)
		note_failure(sb, why);
	/* Who waited for one that could not be adopted gets a new life of it instead. */
	if (why && sb->phase == PHASE_UNDO && !sb->is_adopting)
		sandbox_tell(sb, &sb->uses, why);
	sb->is_adopting = false;
	step(sb);
}

static void on_killed(struct keeper_call *call, struct keeper_answer *answer)
{
	struct sandbox *sb = container_of(call, struct sandbox, call);

	if (answer->result < 0 && answer->err.code != ERR_NOT_FOUND &&
	    answer->err.code != ERR_SANDBOX_RESTARTED) {
		/* The keeper tells when it is down at last, or is asked again when it is back. */
		sb->is_kill_owed = true;
		if (sb->is_condemned)
			exec_lose_all(sb, answer->err.sentence);
		sandbox_tell(sb, &sb->stops, &answer->err);
		sandbox_tell(sb, &sb->deletes, &answer->err);
		sandbox_tell(sb, &sb->uses, &answer->err);
		return;
	}
	if (sb->state == SANDBOX_STOPPING)
		gone(sb, sb->is_condemned ? &sb->err : NULL);
	else if (sb->state == SANDBOX_STARTING && sb->phase == PHASE_UNDO)
		gone(sb, &sb->err);
}

static void kill_container(struct sandbox *sb)
{
	struct keeper_ref ref = ref_of(sb);

	sb->is_kill_owed = false;
	sb->call.done = on_killed;
	keeper_ask(keeper_of(sb), &sb->call, KEEPER_KILL, &ref);
}

/* The start has failed half-way: what is there is taken down first. */
static void undo(struct sandbox *sb, const struct err *why)
{
	sb->err = *why;
	sb->phase = PHASE_UNDO;
	kill_container(sb);
}

void sandbox_condemn(struct sandbox *sb, const struct err *why)
{
	if (sb->state == SANDBOX_STARTING && sb->phase == PHASE_AGENT)
		undo(sb, why); /* what it told of execs that are adopted makes no sense */
	if (sb->state != SANDBOX_RUNNING)
		return;
	sb->err = *why;
	sb->is_condemned = true;
	enter(sb, SANDBOX_STOPPING);
	kill_container(sb);
}

/* --- starting --- */

static void fail_start(struct sandbox *sb, const struct err *err)
{
	struct err copy = *err;

	note_failure(sb, &copy);
	enter(sb, SANDBOX_COLD);
	sandbox_tell(sb, &sb->uses, &copy);
	step(sb);
	sandbox_discard(sb);
}

/* One that an earlier berthd has started: as the kernel tells of its init, to a hundredth. */
static int64_t started_before_ms(const struct sandbox *sb)
{
	struct process_stat stat;
	struct timespec up;

	if (process_stat(sb->init_pid, &stat) < 0 || clock_gettime(CLOCK_BOOTTIME, &up) < 0)
		return registry_now_ms();
	return registry_now_ms() - (up.tv_sec * 1000 + up.tv_nsec / 1000000) +
	       (int64_t)(stat.start * 1000 / (uint64_t)sysconf(_SC_CLK_TCK));
}

static void on_agent_ready(void *arg)
{
	struct sandbox *sb = arg;
	bool is_new;

	if (sb->state != SANDBOX_STARTING || sb->phase != PHASE_AGENT)
		return; /* what it told before was reason enough to end it */
	sb->last_failure.err.code = ERR_NONE;
	sb->started_at_ms = sb->is_adopting ? started_before_ms(sb) : registry_now_ms();
	is_new = !sb->is_adopting;
	sb->is_adopting = false;
	enter(sb, SANDBOX_RUNNING);
	sandbox_groups_refill(sb); /* an adopted one has none */
	exec_adopted_all(sb);
	if (is_new)
		process_autostart_all(sb);
	session_adopted_all(sb);
	sandbox_tell(sb, &sb->uses, NULL);
	step(sb);
}

static void on_agent_event(void *arg, const struct agent_event *event)
{
	switch (event->type) {
	case AGENT_PONG:
		ping_answered(arg, event->pong.nonce);
		break;
	case AGENT_USAGE_IS:
	case AGENT_QUIET:
	case AGENT_HEARTBEAT:
		break; /* nobody has asked yet */
	default:
		exec_event(arg, event);
	}
}

static void on_agent_lost(void *arg, const struct err *err)
{
	struct sandbox *sb = arg;
	struct err why = *err;

	if (sb->state == SANDBOX_RUNNING) {
		sandbox_condemn(sb, &why);
	} else if (sb->state == SANDBOX_STARTING && sb->phase == PHASE_AGENT) {
		why.code = ERR_START_FAILED;
		undo(sb, &why);
	}
}

static const struct agent_ops agent_ops = {on_agent_ready, on_agent_event, on_agent_lost};

static void greet(struct sandbox *sb, pid_t pid)
{
	char path[PATH_MAX];
	struct err err;

	sb->phase = PHASE_AGENT;
	sb->init_pid = pid;
	snprintf(path, sizeof(path), "%s/%s/agent.sock", registry_run_dir(sb->registry),
		 sb->id.text);
	sb->agent = agent_new(&(struct agent_config){
		.loop = registry_loop(sb->registry),
		.path = path,
		.pid = pid,
		.ops = &agent_ops,
		.arg = sb,
	});
	if (!sb->agent) {
		err_set(&err, -ENOMEM, ERR_INTERNAL, "out of memory");
		undo(sb, &err);
	}
}

static void on_started(struct keeper_call *call, struct keeper_answer *answer)
{
	struct sandbox *sb = container_of(call, struct sandbox, call);

	if (answer->result < 0) {
		fail_start(sb, &answer->err);
		return;
	}
	sandbox_groups_keep(sb, answer);
	greet(sb, (pid_t)answer->started.pid);
}

static void ask_keeper(struct sandbox *sb)
{
	const struct settings *s = &sb->settings;
	struct keeper_start start = {
		.id = str_of(sb->id.text),
		.generation = sb->generation,
		.flags = s->is_read_only ? KEEPER_START_READ_ONLY : 0,
		.image = str_of(s->image),
		.memory_bytes = s->limits.memory_bytes,
		.swap_bytes = s->limits.swap_bytes,
		.cpu_milli = s->limits.cpu_milli,
		.pids = s->limits.pids,
		.files = s->limits.files,
		.file_size = s->limits.file_size,
	};

	sb->phase = PHASE_KEEPER;
	sb->call.done = on_started;
	keeper_start(keeper_of(sb), &sb->call, &start);
}

static void on_generation_stored(void *arg, int result, const struct err *err)
{
	struct sandbox *sb = arg;
	struct err stopping;

	if (result == 0 && registry_is_stopping(sb->registry))
		result = err_set(&stopping, -ESHUTDOWN, ERR_UNAVAILABLE, "berthd is stopping");
	if (result < 0)
		fail_start(sb, result == -ESHUTDOWN ? &stopping : err);
	else
		ask_keeper(sb);
}

/* A generation is used up even if its start fails: two starts never share one. */
static int begin_start(struct sandbox *sb, struct err *err)
{
	int r;

	sb->generation++;
	sb->is_outdated = false;
	r = sandbox_save_generation(sb, on_generation_stored, sb);
	if (r < 0)
		return err_set(err, r, ERR_UNAVAILABLE, "too much is being stored: try again");
	sb->phase = PHASE_STORE;
	enter(sb, SANDBOX_STARTING);
	return 0;
}

/* --- destroying --- */

static void on_fact_deleted(void *arg, int result, const struct err *err)
{
	struct sandbox *sb = arg;
	struct err why = *err;

	enter(sb, SANDBOX_COLD);
	if (result < 0) {
		sandbox_tell(sb, &sb->deletes, &why);
		step(sb);
		return;
	}
	logs_remove(registry_logs(sb->registry), &sb->id, NULL);
	registry_unlink(sb->registry, sb); /* whoever is told must not find it any more */
	sandbox_tell(sb, &sb->deletes, NULL);
	sandbox_tell(sb, &sb->stops, NULL);
	err_set(&why, -ENOENT, ERR_NOT_FOUND, "the sandbox was deleted meanwhile");
	sandbox_tell(sb, &sb->uses, &why);
	sandbox_tell(sb, &sb->changes, &why);
	sandbox_free(sb);
}

static void on_disk_removed(struct keeper_call *call, struct keeper_answer *answer)
{
	struct sandbox *sb = container_of(call, struct sandbox, call);
	struct err err = answer->err;

	sb->phase = PHASE_FACT;
	if (answer->result == 0 && !registry_is_stopping(sb->registry) &&
	    store_sandbox_delete(registry_store(sb->registry), &sb->id, on_fact_deleted, sb) == 0)
		return;
	if (answer->result == 0)
		err_set(&err, -EBUSY, ERR_UNAVAILABLE, "too much is being stored: try again");
	enter(sb, SANDBOX_COLD);
	sandbox_tell(sb, &sb->deletes, &err);
	step(sb);
}

static void begin_destroy(struct sandbox *sb)
{
	struct keeper_ref ref = {str_of(sb->id.text), 0};

	enter(sb, SANDBOX_DESTROYING);
	sb->phase = PHASE_DISK;
	sb->call.done = on_disk_removed;
	keeper_ask(keeper_of(sb), &sb->call, KEEPER_REMOVE, &ref);
}

/* --- what is next --- */

static void step(struct sandbox *sb)
{
	struct err err;

	switch (sb->state) {
	case SANDBOX_COLD:
		if (process_is_ending(sb))
			break; /* nobody hears that all has ended before that is stored */
		sandbox_tell(sb, &sb->stops, NULL);
		if (!list_is_empty(&sb->deletes))
			begin_destroy(sb);
		else if (!list_is_empty(&sb->uses) && begin_start(sb, &err) < 0)
			sandbox_tell(sb, &sb->uses, &err);
		break;
	case SANDBOX_RUNNING:
		sandbox_tell(sb, &sb->uses, NULL);
		if (!list_is_empty(&sb->stops) || !list_is_empty(&sb->deletes)) {
			sb->is_condemned = false;
			enter(sb, SANDBOX_STOPPING);
			kill_container(sb);
		}
		break;
	case SANDBOX_STARTING:
	case SANDBOX_STOPPING:
	case SANDBOX_DESTROYING:
	case SANDBOX_STATE_COUNT:
		break; /* the answer that is waited for steps on */
	}
}

void sandbox_processes_ended(struct sandbox *sb)
{
	if (sb->state == SANDBOX_COLD)
		step(sb);
}

/* It is neither here nor gone, and that may stay so: nobody shall wait for it. */
static int check_owed(const struct sandbox *sb, struct err *err)
{
	if (!sb->is_kill_owed)
		return 0;
	return err_set(
		err, -EAGAIN, ERR_UNAVAILABLE,
		"the sandbox could not be ended: try again, or restart Berth if berth-keeper "
		"is gone (`berth down`, then `berth up`)");
}

/* An init that was killed a moment ago: the loop has not heard of it yet, but its user must not. */
static void check_init(struct sandbox *sb)
{
	struct err err;

	if (sb->state != SANDBOX_RUNNING || !agent_is_gone(sb->agent))
		return;
	err_set(&err, -EPIPE, ERR_EXEC_TRANSPORT_ERROR, "the sandbox's init has ended");
	sandbox_condemn(sb, &err);
}

int sandbox_use(struct sandbox *sb, struct sandbox_wait *wait, struct err *err)
{
	int r;

	sb->active_at_ms = registry_now_ms();
	check_init(sb);
	if (sb->state == SANDBOX_RUNNING)
		return 1;
	if (check_owed(sb, err) < 0)
		return -EAGAIN;
	if (sb->is_unreadable) {
		*err = sb->last_failure.err;
		return -EBADMSG;
	}
	/* A stop that is still there waits for what it ended to be stored: it would end the new
	 * life too. */
	if (sb->state == SANDBOX_COLD && list_is_empty(&sb->deletes) && list_is_empty(&sb->stops)) {
		r = begin_start(sb, err);
		if (r < 0)
			return r;
	}
	list_append(&sb->uses, &wait->link);
	return 0;
}

bool sandbox_use_again(struct sandbox *sb, struct sandbox_wait *wait)
{
	struct err err;

	if (wait->is_second)
		return false;
	wait->is_second = true;
	return sandbox_use(sb, wait, &err) == 0;
}

int sandbox_stop(struct sandbox *sb, struct sandbox_wait *wait, struct err *err)
{
	if (sb->state == SANDBOX_COLD)
		return 1;
	if (check_owed(sb, err) < 0)
		return -EAGAIN;
	list_append(&sb->stops, &wait->link);
	step(sb);
	return 0;
}

int sandbox_delete(struct sandbox *sb, struct sandbox_wait *wait, struct err *err)
{
	if (check_owed(sb, err) < 0)
		return -EAGAIN;
	list_append(&sb->deletes, &wait->link);
	step(sb);
	return 0;
}

void sandbox_cancel(struct sandbox_wait *wait)
{
	list_remove(&wait->link);
}

/* --- for the registry --- */

/* Asked for, and the keeper was lost before it could say what came of it. */
static bool is_start_open(const struct sandbox *sb)
{
	return sb->state == SANDBOX_STARTING && sb->phase == PHASE_KEEPER;
}

static void on_adopted(struct keeper_call *call, struct keeper_answer *answer)
{
	struct sandbox *sb = container_of(call, struct sandbox, call);

	if (answer->result < 0 && answer->err.code != ERR_UNAVAILABLE) {
		undo(sb, &answer->err);
		return;
	}
	if (answer->frame && answer->frame->fds_len == 1)
		sb->oom_fd = take_fd(&answer->frame->fds[0]);
	greet(sb, sb->init_pid);
}

/* Its groups are an earlier berthd's, or were lost on the way to us. */
static void take_over(struct sandbox *sb, pid_t pid)
{
	struct keeper_ref ref = ref_of(sb);

	sb->phase = PHASE_ADOPT;
	sb->is_adopting = true;
	sb->init_pid = pid;
	registry_adopting(sb->registry, sb);
	sb->call.done = on_adopted;
	keeper_ask(keeper_of(sb), &sb->call, KEEPER_ADOPT, &ref);
}

/* It ran when we came, or the keeper was gone for a while and says so again. */
void sandbox_adopt(struct sandbox *sb, const struct keeper_running *running)
{
	sb->is_seen = true;
	if (sb->is_kill_owed) {
		kill_container(sb);
	} else if (is_start_open(sb)) {
		keeper_cancel(keeper_of(sb), &sb->call);
		take_over(sb, (pid_t)running->pid);
	} else if (sb->state == SANDBOX_COLD) {
		enter(sb, SANDBOX_STARTING);
		take_over(sb, (pid_t)running->pid);
	}
}

void sandbox_exited(struct sandbox *sb, const struct keeper_exited *exited)
{
	struct err why;

	sb->is_seen = true;
	err_set(&why, -ECHILD, ERR_EXEC_TRANSPORT_ERROR,
		"the sandbox's first process ended (%s): everything in it ended with it",
		exited->oom_kills ? "out of memory" : "killed or crashed");
	if (is_start_open(sb)) {
		keeper_cancel(keeper_of(sb), &sb->call);
		why.code = ERR_START_FAILED;
		fail_start(sb, &why);
	} else if (sb->state == SANDBOX_RUNNING) {
		gone(sb, &why);
	} else if (sb->state == SANDBOX_STARTING &&
		   (sb->phase == PHASE_AGENT || sb->phase == PHASE_ADOPT)) {
		keeper_cancel(keeper_of(sb), &sb->call);
		why.code = ERR_START_FAILED;
		sb->phase = PHASE_UNDO; /* and there is nothing to take down */
		gone(sb, &why);
	} else if (sb->is_kill_owed) {
		gone(sb, sb->is_condemned || sb->state == SANDBOX_STARTING ? &sb->err : NULL);
	}
}

void sandbox_vanished(struct sandbox *sb)
{
	struct err why;

	err_set(&why, -ECHILD, ERR_EXEC_TRANSPORT_ERROR,
		"the container was gone when berth-keeper came back");
	if (sb->state == SANDBOX_RUNNING)
		gone(sb, &why);
	else if (sb->is_kill_owed)
		gone(sb, sb->is_condemned || sb->state == SANDBOX_STARTING ? &sb->err : NULL);
}
