/* Asks a running sandbox's init whether it is there, now. */
#ifndef BERTH_DAEMON_PING_H
#define BERTH_DAEMON_PING_H

#include <stdbool.h>

#include "daemon/agent.h"
#include "daemon/sandbox.h"

#define PING_MS 2000 /* how long init may take */

typedef void ping_done_fn(void *arg, bool has_answered);

/* `done` follows once, never before this returns. -errno: it cannot even be asked. */
int ping_send(struct sandbox *sb, ping_done_fn *done, void *arg);

/* Whoever hears of the answer, it shows that init is there. As agent_send(). */
int ping_nudge(struct sandbox *sb);

/* For the sandbox: a PONG came; nobody will answer any more. */
void ping_answered(struct sandbox *sb, uint64_t nonce);
void ping_lose_all(struct sandbox *sb);

#endif
