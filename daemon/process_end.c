#include "daemon/process_end.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "daemon/registry.h"

/* --- what has ended, as far as anybody knows --- */

bool process_is_tree_lost(const struct process *p)
{
	return p->state == PROCESS_ENDED && p->end.is_tree_lost && p->sb &&
	       p->generation == p->sb->generation && p->sb->state != SANDBOX_COLD &&
	       p->sb->state != SANDBOX_DESTROYING;
}

/* Whoever wants to be sure that it is gone gets that with the end of its sandbox. */
static void prove(struct process *p)
{
	struct err err;

	p->state = PROCESS_ENDING;
	p->is_proof_due = true;
	err_set(&err, -ETIMEDOUT, ERR_TIMEOUT,
		"that nothing of process \"%s\" was left could not be proven, so the whole sandbox "
		"was stopped",
		p->id.text);
	sandbox_condemn(p->sb, &err);
}

void process_proven(struct process *p)
{
	if (!p->is_proof_due)
		return;
	p->is_proof_due = p->end.is_tree_lost = false;
	snprintf(p->end.message, sizeof(p->end.message), "%s", EXEC_UNPROVEN);
	process_save_end(p);
}

/* --- what runs --- */

static void on_grace_over(uv_timer_t *timer)
{
	struct process *p = timer->data;

	if (p->exec)
		exec_kill(p->exec);
}

static void end_gently(struct process *p, uint64_t grace_ms)
{
	if (!p->has_grace)
		uv_timer_init(registry_loop(p->sb->registry), &p->grace);
	p->has_grace = true;
	p->grace.data = p;
	uv_timer_start(&p->grace, on_grace_over, grace_ms, 0);
	exec_signal(p->exec, SIGTERM);
	exec_ask_end(p->exec);
}

void process_end(struct process *p, uint64_t grace_ms)
{
	bool was_autostart = p->is_autostart;

	p->is_autostart = false;
	if (process_is_tree_lost(p))
		prove(p);
	else if (!p->exec && was_autostart && p->state >= PROCESS_ENDING)
		process_save_end(p);
	if (!p->exec)
		return;
	if (was_autostart && p->state == PROCESS_RUNNING)
		process_save_run(p);
	if (grace_ms)
		end_gently(p, grace_ms);
	else
		exec_kill(p->exec);
}

void process_signal(struct process *p, int signal)
{
	if (p->exec)
		exec_signal(p->exec, signal);
}
