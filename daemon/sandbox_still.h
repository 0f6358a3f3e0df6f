/*
 * A running sandbox that stands still for a while, so that its files can be read as they are at one
 * moment: everything in it is frozen but its init and one exec, which reads them. Whoever needs
 * the sandbox meanwhile waits until it is over. One at a time.
 *
 *	begin ──a group──> `hire` ──no start is under way──> FREEZE_OTHERS ──> `still` ──> end
 *	                      └── too late, refused, stopped, too long: `lost` ───────────^
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
	/* Starts the exec that goes on. NULL: it could not, and sandbox_still_end() was called. */
	const struct exec *(*hire)(void *arg);
	/* Nothing but that runs any more. */
	void (*still)(void *arg);
	/* It did not come to that, or is over before the end. Nothing more is called, and
	 * sandbox_still_end() is still owed. */
	void (*lost)(void *arg, const struct err *err);
};

/* Whether this host can do that; ERR_UNSUPPORTED. */
int sandbox_still_check(const struct registry *registry, struct err *err);
/* Nothing comes of it before the first sandbox_still_step(). NULL without memory. */
struct sandbox_still *sandbox_still_begin(struct sandbox *sb, const struct sandbox_still_ops *ops,
					  void *arg);
/* It runs on. Frees it, on the loop. */
void sandbox_still_end(struct sandbox_still *still);

/* Whether everything stands still, or is about to, for the exec of that serial number. */
bool sandbox_still_is_for(const struct sandbox *sb, uint64_t serial);
/* It has begun, init has said something, there is a group. */
void sandbox_still_step(struct sandbox *sb);
/* What could not be thawed after the end is thawed now, if that is owed. */
void sandbox_still_thaw(struct sandbox *sb);
/* For sandbox*.c: it leaves RUNNING. */
void sandbox_still_lose(struct sandbox *sb, const char *why);
/* It is not still any more: that is told on the next turn. */
void sandbox_still_spoil(struct sandbox *sb, const char *why);

#endif
