/*
 * A running sandbox that stands still for a while, so that its files can be read as they are at one
 * moment: everything in it is frozen but its init and one exec, which reads them. Whoever needs
 * the sandbox meanwhile waits until it is over. One at a time.
 *
 *	begin ──nothing is being started any more──> FREEZE_OTHERS ──> `still` ──> end
 *	             └── too late, refused, stopped, too long: `lost`, and it runs on ──^
 */
#ifndef BERTH_DAEMON_SANDBOX_STILL_H
#define BERTH_DAEMON_SANDBOX_STILL_H

#include "base/err.h"
#include "daemon/exec.h"
#include "daemon/sandbox.h"

#define STILL_BEGIN_MS 10000           /* that it may take until all is frozen */
#define STILL_MAX_MS   (5 * 60 * 1000) /* that it lasts */

struct sandbox_still;

struct sandbox_still_ops {
	/* Nothing but the exec runs any more. Never before sandbox_still_begin() returns. */
	void (*still)(void *arg);
	/* It did not come to that, or is over before the end. Nothing more is called, and
	 * sandbox_still_end() is still owed. */
	void (*lost)(void *arg, const struct err *err);
};

/* Whether this host can do that; ERR_UNSUPPORTED. */
int sandbox_still_check(const struct registry *registry, struct err *err);
/* `exec` is about to be started. NULL and `err` if it cannot be tried. */
struct sandbox_still *sandbox_still_begin(struct sandbox *sb, const struct exec *exec,
					  const struct sandbox_still_ops *ops, void *arg,
					  struct err *err);
/* It runs on. Frees it, on the loop. */
void sandbox_still_end(struct sandbox_still *still);

/* For sandbox*.c: init has said something; it leaves RUNNING. */
void sandbox_still_step(struct sandbox *sb);
void sandbox_still_lose(struct sandbox *sb, const char *why);
/* It is not still any more: that is told on the next turn. */
void sandbox_still_spoil(struct sandbox *sb, const char *why);

#endif
