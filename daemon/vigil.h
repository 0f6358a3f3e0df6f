/*
 * What nobody tells of a running sandbox is looked for: whether the kernel has killed in it for
 * want of memory, and whether an init that somebody waits for is still there. One timer for all of
 * them; it stands still while there is nothing to look at, so that sandboxes that sleep cost
 * nothing. A look at one is the read of one small file, and of a list.
 *
 * Init is asked by a ping when a start or a connect is not answered, or when a command runs that it
 * has said nothing of for init_timeout. One that says nothing for as long again is condemned. Time
 * is counted in ticks, and in each the loop has read what was there: a berthd that was held up
 * itself does not take that for init's silence.
 */
#ifndef BERTH_DAEMON_VIGIL_H
#define BERTH_DAEMON_VIGIL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "daemon/keeper.h"
#include "proto/json.h"

struct registry;
struct sandbox;
struct sandbox_oom;
struct vigil;

#define VIGIL_TICK_MAX_MS 2000
#define VIGIL_TICKS_MIN   8 /* in one init_timeout */

/* NULL without memory. Frees itself on the loop. */
struct vigil *vigil_new(struct registry *registry, unsigned init_timeout_ms);
void vigil_free(struct vigil *vigil);

/* There may be something to look at: it runs now, or has something to do. */
void vigil_begin(struct sandbox *sb);
/* For the registry: what an earlier berthd has seen, of the generation that it has now or before.
 */
void vigil_load(struct sandbox *sb, const struct sandbox_oom *last);
/* For sandbox*.c: its next life begins; its init has said something, or could say nothing. */
void vigil_renew(struct sandbox *sb);
void vigil_heard(struct sandbox *sb);

/* Looks now. How often the kernel has killed in this life; negative: that cannot be known. */
int64_t vigil_look(struct sandbox *sb);
/* Its init has ended. True, with `why`: for want of memory. */
bool vigil_judge_exit(struct sandbox *sb, const struct keeper_exited *exited, struct err *why);

/* `last_oom`, into an object that the caller has opened. */
void vigil_write_oom(const struct sandbox *sb, struct json_writer *w);

#endif
