/*
 * How far a sandbox is trusted, and what follows from it. Its limits become the sandbox's own when
 * it names the preset; capabilities and the filter are looked up at each start.
 *
 * In a strict sandbox nobody inside can send SIGSYS. Who dies of it there has tried a system call
 * that ordinary programs never try, and is told to have: EXEC_VIOLATION. (Or has a filter of its
 * own, or has set a timer for that signal: then it says so of itself.)
 */
#ifndef BERTH_DAEMON_TRUST_H
#define BERTH_DAEMON_TRUST_H

#include "base/err.h"
#include "proto/keeper.h"
#include "proto/settings.h"

struct registry;
struct sandbox;

/*
 * For settings in which `trust` or a limit is new: what is not said becomes the preset's. `sb` is
 * whose they will be, or NULL if there is none yet.
 * ERR_FORBIDDEN for more than it allows, ERR_UNSUPPORTED for a runtime that is not ours,
 * ERR_UNAVAILABLE as long as nobody knows what this host can hold.
 */
int trust_settle(const struct registry *registry, const struct sandbox *sb,
		 struct settings *settings, struct err *err);

/* Sets capabilities and flags of a START. ERR_UNSUPPORTED as above. */
int trust_start(const struct registry *registry, enum trust trust, struct keeper_start *start,
		struct err *err);

#endif
