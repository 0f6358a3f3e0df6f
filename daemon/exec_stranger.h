/*
 * Execs that this berthd neither started nor adopted: an earlier one started them, and its client
 * went away with it, or nobody remembers them, so they are ended with all that came of them. What
 * a command had left running when it finished stays, unless it was kept.
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
#include "proto/exec_request.h"

/*
 * The number for an exec of ours, so that a later berthd can end it. A file worker is left to end
 * by itself, as it does when its input ends: killed half-way, it would leave half of its work.
 */
uint64_t exec_stranger_number(uint32_t serial, const struct exec_request *request,
			      const struct sandbox_group *group);
bool exec_stranger_is_kept(uint64_t number);
bool exec_stranger_is_terminal(uint64_t number);
/* Kept, and it keeps its sandbox awake. */
bool exec_stranger_is_held(uint64_t number);
/* It was for one client alone, who went with the berthd that started it. */
bool exec_stranger_is_owned(uint64_t number);
/* The group that it says; false: none. */
bool exec_stranger_group(uint64_t number, uint32_t *ret_group);
/* The serial is taken: no exec of ours gets it. */
void exec_stranger_seen(struct sandbox *sb, uint32_t serial);

/* What init says of an exec that is not ours, or not any more. */
void exec_stranger_event(struct sandbox *sb, const struct agent_event *event);

/* A command of an earlier berthd runs in the session that is this process. */
bool exec_stranger_is_in(const struct sandbox *sb, uint32_t pid);

/* The container is gone, or we go. */
void exec_stranger_forget_all(struct sandbox *sb);

#endif
