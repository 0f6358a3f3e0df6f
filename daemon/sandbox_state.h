/*
 * What the files of a sandbox share: sandbox.c says what comes next, sandbox_start.c starts and
 * adopts it, sandbox_sleep.c puts it to sleep. Nobody else looks inside.
 */
#ifndef BERTH_DAEMON_SANDBOX_STATE_H
#define BERTH_DAEMON_SANDBOX_STATE_H

#include "daemon/sandbox.h"

/* What is waited for in STARTING, FROZEN, STOPPING and DESTROYING. */
enum phase {
	PHASE_STORE,
	PHASE_KEEPER,
	PHASE_ADOPT,
	PHASE_AGENT,
	PHASE_UNDO,
	PHASE_FREEZE, /* FROZEN: it is about to be */
	PHASE_STILL,  /* FROZEN: somebody who needs it */
	PHASE_THAW,   /* FROZEN: not any more */
	PHASE_QUIET,  /* STOPPING: its processes were asked to end */
	PHASE_KILL,   /* STOPPING: the keeper was asked to end it */
	PHASE_DISK,
	PHASE_FACT,
};

/* The only way into a state. */
void sandbox_enter(struct sandbox *sb, enum sandbox_state state);
/* What is next, now that something has happened? */
void sandbox_step(struct sandbox *sb);

void sandbox_note_failure(struct sandbox *sb, const struct err *err);
/* The same of one that ran, and an event. */
void sandbox_note_death(struct sandbox *sb, const struct err *why);
/* Nothing of the container is left. `why`: it was not asked for. */
void sandbox_gone(struct sandbox *sb, const struct err *why);
void sandbox_kill(struct sandbox *sb);
/* The start has failed half-way: what is there is taken down first. */
void sandbox_undo(struct sandbox *sb, const struct err *why);

/* sandbox_save.c. It is known whether it has a container: a change of its limits goes on. True, if
 * one waited for that, and will discard it. */
bool sandbox_limits_go_on(struct sandbox *sb);
/* It is about to be removed: the change that waits for the keeper has failed. */
void sandbox_limits_drop(struct sandbox *sb);
/* It runs since before us, or since before this keeper: as it is stored, and not as it may be. */
void sandbox_limits_renew(struct sandbox *sb);

/* -EAGAIN: it is neither here nor gone, and that may stay so, so nobody shall wait for it. */
int sandbox_check_owed(const struct sandbox *sb, struct err *err);

/* sandbox_start.c. A generation is used up even if its start fails. */
int sandbox_start(struct sandbox *sb, struct err *err);
/* Its groups are an earlier berthd's, or were lost on the way to us. */
void sandbox_take_over(struct sandbox *sb, pid_t pid);

static inline struct keeper_ref sandbox_ref(const struct sandbox *sb)
{
	return (struct keeper_ref){str_of(sb->id.text), sb->generation};
}

#endif
