/*
 * What a running sandbox holds of its cgroups: exec groups made ready by the keeper, the file that
 * counts the kernel's out-of-memory kills, and the one with its processor time. For sandbox.c;
 * execs use daemon/sandbox.h.
 */
#ifndef BERTH_DAEMON_SANDBOX_GROUP_H
#define BERTH_DAEMON_SANDBOX_GROUP_H

#include "daemon/keeper.h"
#include "daemon/sandbox.h"

/* The descriptors that came with STARTED. */
void sandbox_groups_keep(struct sandbox *sb, struct keeper_answer *answer);
/* And with ADOPTED; there are no groups among them. */
void sandbox_adopted_keep(struct sandbox *sb, struct keeper_answer *answer);
/* Groups are made before they are needed: an exec never waits for the keeper. */
void sandbox_groups_refill(struct sandbox *sb);
/* The container is gone, or we go. */
void sandbox_groups_drop(struct sandbox *sb);

#endif
