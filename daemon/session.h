/*
 * Sessions of a sandbox: each a durable name, and while it is used a shell in which commands run
 * one by one, in the order in which they came. A shell that ends is replaced with the next command.
 *
 *	absent ──a command waits──> starting ──STARTED, stored──> ready <──> busy
 *	   ^                            │                           │         │
 *	   └── refused, or the shell has ended, or its tree was ended with a command
 *
 * A session outlives berthd and the sandbox's sleep; its shell outlives berthd (it is a kept exec),
 * and ends with the container.
 */
#ifndef BERTH_DAEMON_SESSION_H
#define BERTH_DAEMON_SESSION_H

#include "daemon/exec.h"
#include "daemon/sandbox.h"
#include "daemon/store_session.h"

#define SESSIONS_MAX      64 /* of a sandbox */
#define SESSION_QUEUE_MAX 64 /* commands that wait in one */

struct session;

/* Somebody who waits for the shell. */
struct session_wait {
	struct list link;
	struct session *session;
	/* Called once, maybe before session_enter() returns: it is its turn, and must exec_new()
	 * with this shell, or session_pass(). */
	void (*ready)(struct session_wait *wait, struct exec_shell *shell);
	void (*failed)(struct session_wait *wait, const struct err *err);
};

/* NULL: there is none. */
struct session *session_find(struct sandbox *sb, struct str id);
/* Not stored before its shell runs. "" for one of ours. ERR_CONFLICT. */
int session_new(struct sandbox *sb, const struct session_fact *fact, struct session **ret,
		struct err *err);
/* What is told of it. */
struct session_view {
	const struct session_fact *fact;
	const char *state;
	unsigned waiting;
	bool is_stored; /* its maker was told that it is there */
};
struct session_view session_view(const struct session *session);
/* In the order in which they were made: the one behind `session`, the first one behind NULL. */
struct session *session_next(struct sandbox *sb, struct session *session);

/* The sandbox runs. 0, or ERR_CAPACITY_EXCEEDED: too many wait. */
int session_enter(struct session *session, struct session_wait *wait, struct err *err);
/* It goes away before its turn. */
void session_cancel(struct session_wait *wait);
/* No command came of the turn. */
void session_pass(struct exec_shell *shell);

/* Ends it with its shell and all that was started there, and forgets it; then `done`. */
typedef void session_done_fn(void *arg, const struct err *err);
int session_delete(struct session *session, session_done_fn *done, void *arg, struct err *err);

/* For the registry and the sandbox. */
void session_init_all(struct sandbox *sb);
void session_restore(struct sandbox *sb, const struct session_fact *fact);
void session_adopt_all(struct sandbox *sb);
/* Init has told of all that it knows. */
void session_adopted_all(struct sandbox *sb);
/* The sandbox runs again: who waits for a turn may have it. */
void session_step_all(struct sandbox *sb);
/* The container is gone: who waits is told. */
void session_lose_all(struct sandbox *sb);
/* The sandbox goes, or berthd. */
void session_free_all(struct sandbox *sb);

#endif
