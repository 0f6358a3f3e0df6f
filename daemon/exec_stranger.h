/*
 * Execs that this berthd did not start: an earlier one did, and its client went away with it, so
 * they are ended with all that came of them. What a command had left running when it finished
 * stays.
 *
 * Init tells of an exec by its number only; so the number says which exec group it is in. Init may
 * lie about it: then the keeper finds no such group in this sandbox, or another one of it ends.
 */
#ifndef BERTH_DAEMON_EXEC_STRANGER_H
#define BERTH_DAEMON_EXEC_STRANGER_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/agent.h"
#include "daemon/sandbox.h"

/*
 * The number for an exec of ours, so that a later berthd can end it. A file worker is left to end
 * by itself, as it does when its input ends: killed half-way, it would leave half of its work.
 */
uint64_t exec_stranger_number(uint32_t serial, bool is_worker, const struct sandbox_group *group);

/* What init says of an exec that is not ours, or not any more. */
void exec_stranger_event(struct sandbox *sb, const struct agent_event *event);

/* The container is gone, or we go. */
void exec_stranger_forget_all(struct sandbox *sb);

#endif
