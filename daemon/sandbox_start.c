/* A sandbox's way to its container: a new one, or one that runs since before us. */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/process_stat.h"
#include "daemon/activity.h"
#include "daemon/config.h"
#include "daemon/context.h"
#include "daemon/events.h"
#include "daemon/exec.h"
#include "daemon/exec_stranger.h"
#include "daemon/ping.h"
#include "daemon/port_connect.h"
#include "daemon/process.h"
#include "daemon/registry.h"
#include "daemon/sandbox_expiry.h"
#include "daemon/sandbox_group.h"
#include "daemon/sandbox_sleep.h"
#include "daemon/sandbox_state.h"
#include "daemon/sandbox_still.h"
#include "daemon/session.h"
#include "daemon/trust.h"
#include "daemon/usage.h"
#include "daemon/vigil.h"

static struct keeper *keeper_of(struct sandbox *sb)
{
	return registry_keeper(sb->registry);
}

/* --- starting --- */

static void fail_start(struct sandbox *sb, const struct err *err)
{
	struct err copy = *err;

	sandbox_note_failure(sb, &copy);
	event_add(sb, "failed", event_write_err, &copy);
	sandbox_enter(sb, SANDBOX_COLD);
	sandbox_asleep(sb);
	sandbox_tell(sb, &sb->uses, &copy);
	sandbox_step(sb);
	if (!sandbox_limits_go_on(sb))
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
	bool is_new, has_failed = sb->last_failure.err.code != ERR_NONE;

	if (sb->state != SANDBOX_STARTING || sb->phase != PHASE_AGENT)
		return; /* what it told before was reason enough to end it */
	exec_stranger_seen(sb, agent_serial_seen(sb->agent));
	if (has_failed && !sb->is_unreadable) {
		sb->last_failure.err.code = ERR_NONE;
		sandbox_save_failure(sb);
	}
	sb->started_at_ms = sb->is_adopting ? started_before_ms(sb) : registry_now_ms();
	is_new = !sb->is_adopting;
	sb->is_adopting = false;
	sandbox_enter(sb, SANDBOX_RUNNING);
	sandbox_note_wake(sb, is_new ? WOKE_STOPPED : sb->is_woken ? WOKE_FROZEN : WOKE_ADOPTED);
	sb->is_woken = false;
	sandbox_awake(sb);
	if (is_new && (has_failed || sb->generation == 1))
		event_add(sb, "started", NULL, NULL); /* it did not sleep before */
	else if (is_new)
		sandbox_tell_woke(sb, WOKE_STOPPED);
	sandbox_save_disk(sb);
	activity_wake(sb);
	sandbox_groups_refill(sb); /* an adopted one has none */
	exec_adopted_all(sb);
	/* Also of one that is adopted: its berthd may have died before it came to that. */
	if (sb->state == SANDBOX_RUNNING && !sb->is_stop_left)
		process_autostart_all(sb);
	session_adopted_all(sb);
	context_adopted_all(sb);
	if (sb->state == SANDBOX_RUNNING && sb->is_stop_left) {
		sandbox_terminate(sb); /* who needs it gets the next life */
		return;
	}
	session_step_all(sb);
	context_step_all(sb);
	sandbox_tell(sb, &sb->uses, NULL);
	sandbox_step(sb);
}

static void on_agent_event(void *arg, const struct agent_event *event)
{
	vigil_heard(arg);
	switch (event->type) {
	case AGENT_PONG:
		ping_answered(arg, event->pong.nonce);
		break;
	case AGENT_USAGE_IS:
		activity_used(arg, event->usage.cpu_us);
		usage_told(arg, event->usage.cpu_us);
		break;
	case AGENT_QUIET:
		sandbox_quiet(arg);
		break;
	case AGENT_HEARTBEAT:
		activity_touch(arg);
		break;
	case AGENT_CONNECTED:
	case AGENT_CONNECT_FAILED:
	case AGENT_LISTENING_IS:
		port_connect_answered(arg, event);
		break;
	default:
		exec_event(arg, event);
		sandbox_still_step(arg);
	}
}

static void on_agent_lost(void *arg, const struct err *err)
{
	struct sandbox *sb = arg;
	struct err why = *err;

	if (sb->state == SANDBOX_RUNNING || sb->state == SANDBOX_FROZEN) {
		sandbox_condemn(sb, &why);
	} else if (sb->state == SANDBOX_STOPPING && sb->phase == PHASE_QUIET) {
		sandbox_kill(sb);
	} else if (sb->state == SANDBOX_STARTING && sb->phase == PHASE_AGENT) {
		why.code = ERR_START_FAILED;
		sandbox_undo(sb, &why);
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
		sandbox_undo(sb, &err);
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
	sandbox_limits_go_on(sb);
}

static void ask_keeper(struct sandbox *sb)
{
	const struct settings *s = &sb->settings;
	struct err err;
	struct keeper_start start = {
		.id = str_of(sb->id.text),
		.generation = sb->generation,
		.flags = (s->is_read_only ? KEEPER_START_READ_ONLY : 0) |
			 (s->is_ephemeral ? KEEPER_START_EPHEMERAL : 0) |
			 (sb->has_disk && !s->is_ephemeral ? KEEPER_START_HAS_DISK : 0),
		.image = str_of(s->image),
		.memory_bytes = s->limits.memory_bytes,
		.swap_bytes = s->limits.swap_bytes,
		.cpu_milli = s->limits.cpu_milli,
		.pids = s->limits.pids,
		.files = s->limits.files,
		.file_size = s->limits.file_size,
		.disk_bytes = s->limits.disk_bytes,
		.inodes = s->limits.inodes,
		.io = {s->limits.io_read, s->limits.io_write, s->limits.io_read_ops,
		       s->limits.io_write_ops},
		.mounts = s->mounts,
	};

	if (allowance_check(sb->registry, &s->limits, &err) < 0 ||
	    trust_start(sb->registry, s->trust, &start, &err) < 0) {
		fail_start(sb, &err);
		return;
	}
	sb->is_ephemeral = s->is_ephemeral;
	sb->is_strict = start.flags & KEEPER_START_STRICT;
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

/* Two starts never share a generation. */
int sandbox_start(struct sandbox *sb, struct err *err)
{
	int r = config_check_binds(registry_daemon(sb->registry), sb->settings.mounts, err);

	if (r < 0)
		return r;
	sb->generation++;
	vigil_renew(sb);
	sb->is_outdated = sb->is_thaw_owed = false;
	r = sandbox_save_generation(sb, on_generation_stored, sb);
	if (r < 0)
		return store_refuse(err, r);
	sb->phase = PHASE_STORE;
	sb->asleep_since_ms = 0; /* which is stored with the generation */
	sandbox_enter(sb, SANDBOX_STARTING);
	return 0;
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
		sandbox_undo(sb, &answer->err);
		return;
	}
	sandbox_adopted_keep(sb, answer);
	greet(sb, sb->init_pid);
}

void sandbox_take_over(struct sandbox *sb, pid_t pid)
{
	struct keeper_ref ref = sandbox_ref(sb);

	sb->phase = PHASE_ADOPT;
	activity_end(sb);
	sb->is_adopting = true;
	sb->init_pid = pid;
	registry_adopting(sb->registry, sb);
	sb->call.done = on_adopted;
	keeper_ask(keeper_of(sb), &sb->call, KEEPER_ADOPT, &ref);
	sandbox_limits_go_on(sb);
}

/* It ran when we came, or the keeper was gone for a while and says so again. */
void sandbox_adopt(struct sandbox *sb, const struct keeper_running *running)
{
	sb->is_seen = true;
	sb->is_ephemeral = running->is_ephemeral;
	sb->is_strict = running->is_strict;
	if (sb->is_kill_owed) {
		sandbox_kill(sb);
	} else if (is_start_open(sb)) {
		keeper_cancel(keeper_of(sb), &sb->call);
		sandbox_take_over(sb, (pid_t)running->pid);
	} else if (sb->state == SANDBOX_FROZEN && sb->phase == PHASE_STILL && !running->is_frozen) {
		/* The keeper was away when it was asked to, and did not come to it. */
		sandbox_thawed(sb);
	} else if (sb->state == SANDBOX_RUNNING && running->is_frozen) {
		sandbox_enter(sb, SANDBOX_FROZEN);
		sandbox_thaw(sb);
	} else if (sb->state == SANDBOX_COLD && running->is_frozen) {
		/* Its init cannot answer now, and need not: whoever wakes it adopts it. */
		sandbox_enter(sb, SANDBOX_FROZEN);
		sb->phase = PHASE_STILL;
		sb->init_pid = (pid_t)running->pid;
		activity_rest(sb);
	} else if (sb->state == SANDBOX_COLD) {
		sandbox_enter(sb, SANDBOX_STARTING);
		sandbox_take_over(sb, (pid_t)running->pid);
	}
	sandbox_limits_renew(sb);
}

/* While no berthd was there. */
static void end_left_stop(struct sandbox *sb)
{
	sb->is_stop_left = false;
	sandbox_note_sleep(sb, SLEEP_STOP, sb->why);
}

void sandbox_exited(struct sandbox *sb, const struct keeper_exited *exited)
{
	struct err why;

	sb->is_seen = true;
	err_set(&why, -ECHILD, ERR_EXEC_TRANSPORT_ERROR,
		"the sandbox's first process ended (killed or crashed): everything in it ended "
		"with it");
	/* That its line broke was heard first, and is less than that. */
	if (vigil_judge_exit(sb, exited, &why) && sb->is_condemned &&
	    sb->err.code == ERR_EXEC_TRANSPORT_ERROR)
		sb->err = why;
	if (is_start_open(sb)) {
		keeper_cancel(keeper_of(sb), &sb->call);
		why.code = ERR_START_FAILED;
		fail_start(sb, &why);
	} else if (sb->state == SANDBOX_RUNNING || sb->state == SANDBOX_FROZEN) {
		keeper_cancel(keeper_of(sb), &sb->call);
		sandbox_gone(sb, &why);
	} else if (sb->state == SANDBOX_STOPPING && sb->phase == PHASE_QUIET) {
		sandbox_gone(sb, NULL); /* asked for, and it was faster */
	} else if (sb->state == SANDBOX_STARTING &&
		   (sb->phase == PHASE_AGENT || sb->phase == PHASE_ADOPT)) {
		keeper_cancel(keeper_of(sb), &sb->call);
		why.code = ERR_START_FAILED;
		sb->phase = PHASE_UNDO; /* and there is nothing to take down */
		sandbox_gone(sb, &why);
	} else if (sb->is_kill_owed) {
		sandbox_gone(sb,
			     sb->is_condemned || sb->state == SANDBOX_STARTING ? &sb->err : NULL);
	} else if (sb->state == SANDBOX_COLD && sb->is_stop_left) {
		end_left_stop(sb);
	} else if (sb->state == SANDBOX_COLD && sandbox_ended_unseen(sb)) {
		sandbox_note_sleep(sb, SLEEP_STOP, SLEPT_FAILED);
		sandbox_note_death(sb, &why); /* while no berthd was there */
	}
}

void sandbox_vanished(struct sandbox *sb)
{
	struct err why;

	err_set(&why, -ECHILD, ERR_EXEC_TRANSPORT_ERROR,
		"the container was gone when berth-keeper came back");
	if (sb->state == SANDBOX_RUNNING || sb->state == SANDBOX_FROZEN) {
		keeper_cancel(keeper_of(sb), &sb->call);
		sandbox_gone(sb, &why);
	} else if (sb->state == SANDBOX_STOPPING && sb->phase == PHASE_QUIET) {
		sandbox_gone(sb, NULL);
	} else if (sb->is_kill_owed) {
		sandbox_gone(sb,
			     sb->is_condemned || sb->state == SANDBOX_STARTING ? &sb->err : NULL);
	} else if (sb->state == SANDBOX_COLD && sb->is_stop_left) {
		end_left_stop(sb);
	}
}
