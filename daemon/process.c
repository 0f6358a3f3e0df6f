#include "daemon/process.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/exec_stranger.h"
#include "daemon/handle_sandbox.h"
#include "daemon/logs.h"
#include "daemon/process_end.h"
#include "daemon/process_output.h"
#include "daemon/process_record.h"
#include "daemon/registry.h"

static const struct exec_ops exec_ops;

/* --- memory --- */

static void on_grace_closed(uv_handle_t *handle)
{
	free(handle->data);
}

static void destroy(struct process *p)
{
	if (p->journal)
		journal_close(p->journal);
	free((char *)p->spec.at);
	free((char *)p->command.at);
	free(p->cwd);
	if (p->has_grace)
		uv_close((uv_handle_t *)&p->grace, on_grace_closed);
	else
		free(p);
}

void process_hold(struct process *p)
{
	p->holders++;
}

void process_release(struct process *p)
{
	if (--p->holders == 0)
		destroy(p);
}

static struct process *process_new(struct sandbox *sb, const struct sandbox_id *id)
{
	struct process *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->sb = sb;
	p->id = *id;
	p->holders = 1; /* the sandbox */
	list_init(&p->starts);
	list_init(&p->ends);
	list_init(&p->viewers);
	list_append(&sb->processes, &p->link);
	sb->processes_len++;
	return p;
}

/* The sandbox has it no more, and what was kept of its output is another's place, or nobody's. */
static void leave_sandbox(struct process *p)
{
	if (p->journal)
		journal_forget(p->journal);
	list_remove(&p->link);
	p->sb->processes_len--;
	p->sb = NULL;
	process_release(p);
}

/* With its output; it has no record. */
static void forget(struct process *p)
{
	logs_remove(registry_logs(p->sb->registry), &p->sb->id, &p->id);
	leave_sandbox(p);
}

/* With its record, too. */
static int drop(struct process *p)
{
	struct registry *registry = p->sb->registry;
	int r = registry_is_stopping(registry)
			? -ESHUTDOWN
			: store_process_delete(registry_store(registry), &p->sb->id, &p->id);

	if (r == 0)
		forget(p);
	return r;
}

struct process *process_find(struct sandbox *sb, const struct sandbox_id *id)
{
	list_for_each (node, &sb->processes) {
		struct process *p = list_entry(node, struct process, link);

		if (strcmp(p->id.text, id->text) == 0)
			return p;
	}
	return NULL;
}

/* --- those who wait --- */

static void tell(struct process *p, struct list *waits, const struct err *err)
{
	struct list now;

	list_init(&now);
	while (!list_is_empty(waits))
		list_move(&now, waits->next);
	while (!list_is_empty(&now)) {
		struct process_wait *wait = list_entry(now.next, struct process_wait, link);

		list_remove(&wait->link);
		wait->done(wait, p, err);
	}
}

int process_wait_start(struct process *p, struct process_wait *wait)
{
	if (p->state != PROCESS_STARTING || p->is_revived)
		return 1;
	list_append(&p->starts, &wait->link);
	return 0;
}

int process_wait_end(struct process *p, struct process_wait *wait)
{
	if (p->state == PROCESS_ENDED)
		return 1;
	list_append(&p->ends, &wait->link);
	return 0;
}

void process_cancel(struct process_wait *wait)
{
	list_remove(&wait->link);
}

/* --- its life --- */

static void be_ended(struct process *p)
{
	process_hold(p); /* whoever is told may let it go */
	p->state = PROCESS_ENDED;
	p->is_over = true;
	tell(p, &p->ends, NULL);
	if (p->journal)
		journal_tell(p->journal);
	process_output_close(p);
	process_release(p);
}

/* Then the next berthd will hear of it again, from init, and say no other thing. */
static void log_unstored(const struct process *p, const char *sentence)
{
	log_error("sandbox=%s process=%s its end is not stored: %s", p->sb ? p->sb->id.text : "",
		  p->id.text, sentence);
}

static void on_end_stored(void *arg, int result, const struct err *err)
{
	struct process *p = arg;
	struct sandbox *sb = p->sb;

	if (result < 0)
		log_unstored(p, err->sentence);
	else if (sb)
		exec_forget(sb, p->generation, p->number);
	if (--p->saves == 0 && p->state == PROCESS_ENDING)
		be_ended(p);
	if (sb)
		process_record_prune(sb, drop); /* which may be this one */
	if (sb && !process_is_ending(sb))
		sandbox_processes_ended(sb);
	process_release(p);
}

void process_save_end(struct process *p)
{
	p->state = PROCESS_ENDING;
	p->saves++;
	if (process_record_save(p, on_end_stored) == 0)
		return;
	log_unstored(p, "too much is being stored");
	if (--p->saves == 0)
		be_ended(p);
}

bool process_is_ending(const struct sandbox *sb)
{
	list_for_each (node, &sb->processes) {
		if (list_entry(node, struct process, link)->state == PROCESS_ENDING)
			return true;
	}
	return false;
}

static void end_with(struct process *p, const struct exec_end *end)
{
	bool is_known = p->is_terminal && p->has_exited; /* since its program has ended */

	p->end = is_known ? p->main_end : *end;
	if (is_known && end->reason == p->main_end.reason)
		memcpy(p->end.message, end->message, sizeof(p->end.message));
	p->end.is_tree_lost = end->is_tree_lost;
	if (!is_known)
		p->ended_at_ms = registry_now_ms();
	if (!is_known && p->is_adopted && p->ended_at_ms > p->started_at_ms)
		p->end.duration_ms = (uint64_t)(p->ended_at_ms - p->started_at_ms);
	if (p->journal) {
		p->log_start = journal_start(p->journal);
		p->log_end = journal_end(p->journal);
		journal_rest(p->journal);
	}
	log_info("sandbox=%s process=%s ended reason=%s exit_code=%d", p->sb->id.text, p->id.text,
		 exec_reason_name(end->reason), end->exit_code);
	process_save_end(p);
}

/* It never ran, and whoever asked for it hears why. Nothing of it stays. */
static void fail_start(struct process *p, enum err_code code, const char *sentence)
{
	struct err err;

	err_set(&err, -ECHILD, code, "%s", sentence);
	process_hold(p);
	forget(p);
	tell(p, &p->starts, &err);
	tell(p, &p->ends, &err);
	process_release(p);
}

static void on_ended(void *arg, const struct exec_end *end)
{
	struct process *p = arg;

	p->exec = NULL;
	if (p->has_grace)
		uv_timer_stop(&p->grace);
	if (p->on_room)
		p->on_room(p->writer);
	if (p->state == PROCESS_STARTING && !p->pid && !p->is_revived) {
		exec_forget(p->sb, p->generation, p->number);
		fail_start(p, end->reason == EXEC_LOST ? ERR_EXEC_TRANSPORT_ERROR : ERR_EXEC_ERROR,
			   end->message[0] ? end->message : "it was ended before it had started");
	} else {
		end_with(p, end);
	}
}

/* Nobody was told of it, and a later berthd would not know it. */
static void fail_run(struct process *p, const struct err *err)
{
	log_error("sandbox=%s process=%s is not stored: %s", p->sb ? p->sb->id.text : "",
		  p->id.text, err->sentence);
	if (p->state == PROCESS_STARTING)
		p->pid = 0; /* so nothing of it stays when it has ended */
	if (p->exec)
		exec_kill(p->exec);
	tell(p, &p->starts, err);
}

static void on_run_stored(void *arg, int result, const struct err *err)
{
	struct process *p = arg;

	if (result < 0) {
		fail_run(p, err);
	} else {
		if (p->state == PROCESS_STARTING)
			p->state = PROCESS_RUNNING;
		tell(p, &p->starts, NULL);
	}
	process_release(p);
}

void process_save_run(struct process *p)
{
	int r = process_record_save(p, on_run_stored);
	struct err err;

	if (r < 0) {
		store_refuse(&err, r);
		fail_run(p, &err);
	}
}

static void on_started(void *arg, uint32_t pid)
{
	struct process *p = arg;

	if (p->is_adopted)
		return;
	p->pid = pid;
	process_save_run(p);
}

static void on_exit_stored(void *arg, int result, const struct err *err)
{
	struct process *p = arg;

	if (result < 0)
		log_unstored(p, err->sentence); /* told when all of it has ended */
	p->is_exit_stored = result == 0;
	if (p->journal)
		journal_tell(p->journal); /* its viewers wait for no survivors */
	process_release(p);
}

/* `ended` follows with the same, when nothing is left. */
static void on_exited(void *arg, const struct exec_end *end)
{
	struct process *p = arg;

	if (p->is_exit_stored)
		return; /* by an earlier berthd, and init says it again */
	p->has_exited = true;
	p->main_end = *end;
	if (!p->is_terminal)
		return;
	p->ended_at_ms = registry_now_ms();
	if (p->is_adopted && p->ended_at_ms > p->started_at_ms)
		p->main_end.duration_ms = (uint64_t)(p->ended_at_ms - p->started_at_ms);
	if (process_record_save(p, on_exit_stored) < 0)
		log_unstored(p, "too much is being stored"); /* told when all of it has ended */
}

static void on_stdin_ready(void *arg)
{
	struct process *p = arg;

	if (p->on_room)
		p->on_room(p->writer);
}

static const struct exec_ops exec_ops = {
	.ended = on_ended,
	.stdin_ready = on_stdin_ready,
	.started = on_started,
	.pull = process_output_pull,
	.exited = on_exited,
};

/* --- starting --- */

static int launch(struct process *p, const struct process_request *request, struct arena *arena,
		  struct err *err)
{
	struct exec_request exec = request->exec;
	int r = handle_env(arena, p->sb, &exec, err);

	if (r == 0)
		r = process_output_open(p, err);
	if (r < 0)
		return r;
	exec.is_kept = exec.has_stdin = true;
	p->state = PROCESS_STARTING;
	p->generation = p->sb->generation;
	p->pid = 0;
	p->started_at_ms = registry_now_ms();
	p->ended_at_ms = 0;
	p->is_adopted = p->is_stdin_ended = p->is_over = false;
	p->has_exited = p->is_exit_stored = p->is_throttled = p->is_input_full = false;
	p->timeout_ms = exec.timeout_ms;
	p->exec = exec_new(p->sb, &exec, &exec_ops, p, err);
	if (!p->exec)
		return -EAGAIN;
	p->number = exec_number(p->exec);
	return 0;
}

/* Its name may be used again when it has ended. */
static int make_way(struct sandbox *sb, const struct sandbox_id *id, struct err *err)
{
	struct process *p = process_find(sb, id);
	int r;

	if (p && p->is_exit_stored && p->state != PROCESS_ENDED)
		return err_set(err, -EEXIST, ERR_CONFLICT,
			       "terminal \"%s\" has exited, but something that it started still "
			       "runs: terminate it first, or choose another ID",
			       id->text);
	if (p && p->state != PROCESS_ENDED)
		return err_set(
			err, -EEXIST, ERR_CONFLICT,
			"a process or terminal \"%s\" is running already: end it first, or choose "
			"another ID",
			id->text);
	r = p ? drop(p) : 0;
	return r < 0 ? store_refuse(err, r) : 0;
}

int process_start(struct sandbox *sb, const struct process_request *request,
		  struct process_wait *wait, struct process **ret, struct err *err)
{
	struct sandbox_id id;
	struct process *p = NULL;
	struct arena arena;
	int r = process_record_name(sb, request, &id, err);

	if (r == 0)
		r = make_way(sb, &id, err);
	if (r < 0)
		return r;
	p = process_new(sb, &id);
	if (p)
		p->is_terminal = request->exec.is_terminal;
	if (!p || process_record_describe(p, request) < 0) {
		if (p)
			forget(p);
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	}
	arena_init(&arena, 4 * AGENT_ARGS_MAX);
	r = launch(p, request, &arena, err);
	arena_close(&arena);
	if (r < 0) {
		forget(p);
		return r;
	}
	list_append(&p->starts, &wait->link);
	*ret = p;
	return 0;
}

static void revive(struct process *p)
{
	struct process_request request = {.id = {NULL, 0}};
	struct exec_end end = {.reason = EXEC_NOT_STARTED, .exit_code = 126};
	struct arena arena;
	struct err err;
	int r;

	arena_init(&arena, 8 * AGENT_ARGS_MAX);
	r = process_request_parse(&arena, p->spec, &request, &err);
	p->is_revived = true;
	if (r == 0)
		r = launch(p, &request, &arena, &err);
	arena_close(&arena);
	list_move(&p->sb->processes, &p->link); /* it is the newest now */
	if (r < 0) {
		log_error("sandbox=%s process=%s does not start: %s", p->sb->id.text, p->id.text,
			  err.sentence);
		p->generation = p->sb->generation;
		p->pid = 0;
		p->started_at_ms = registry_now_ms();
		snprintf(end.message, sizeof(end.message), "%.250s", err.sentence);
		end_with(p, &end);
	}
}

void process_autostart_all(struct sandbox *sb)
{
	struct list *node = sb->processes.next;

	/* Each goes to the end of the list: so many are looked at. */
	for (unsigned left = sb->processes_len; left > 0; left--) {
		struct process *p = list_entry(node, struct process, link);

		node = node->next;
		if (p->is_autostart && p->spec.len && p->state == PROCESS_ENDED &&
		    p->generation != sb->generation)
			revive(p);
	}
}

/* --- those of an earlier berthd --- */

void process_load(struct sandbox *sb, const struct process_fact *fact)
{
	struct process *p = process_new(sb, &fact->id);

	if (!p)
		return;
	if (process_record_restore(p, fact) < 0)
		log_error("sandbox=%s process=%s its record cannot be read", sb->id.text,
			  p->id.text);
}

static void lose(struct process *p, const char *why)
{
	struct exec_end end = {.reason = EXEC_LOST, .exit_code = -1};

	snprintf(end.message, sizeof(end.message), "%.250s", why);
	end_with(p, &end);
}

static void adopt(struct process *p)
{
	int64_t left = p->started_at_ms + (int64_t)p->timeout_ms - registry_now_ms();
	struct err err;

	p->is_adopted = true;
	if (process_output_open(p, &err) == 0)
		p->exec = exec_adopt(p->sb, p->number, &exec_ops, p, &err);
	if (!p->exec)
		lose(p, err.sentence);
	else if (p->timeout_ms)
		exec_set_timeout(p->exec, left > 1 ? (uint64_t)left : 1);
	if (p->exec && exec_stranger_is_owned(p->number))
		exec_kill(p->exec);
}

void process_adopt_all(struct sandbox *sb)
{
	list_for_each_safe (node, &sb->processes) {
		struct process *p = list_entry(node, struct process, link);

		if (p->state != PROCESS_RUNNING || p->exec)
			continue;
		/* The end of an earlier life could not be stored. */
		if (p->generation != sb->generation)
			lose(p, "the sandbox was started anew, and its end is not known");
		else
			adopt(p);
	}
}

void process_lose_all(struct sandbox *sb)
{
	list_for_each_safe (node, &sb->processes) {
		struct process *p = list_entry(node, struct process, link);

		if (p->state == PROCESS_RUNNING && !p->exec)
			lose(p, "the sandbox ended while berthd was away");
		process_proven(p);
	}
}

void process_free_all(struct sandbox *sb)
{
	struct err err;

	if (registry_is_stopping(sb->registry))
		err_set(&err, -ESHUTDOWN, ERR_UNAVAILABLE, "berthd is stopping");
	else
		err_set(&err, -ENOENT, ERR_NOT_FOUND, "the sandbox was deleted meanwhile");
	while (!list_is_empty(&sb->processes)) {
		struct process *p = list_entry(sb->processes.next, struct process, link);

		process_hold(p);
		leave_sandbox(p);
		p->exec = NULL; /* which lives on with init, or is gone */
		/* Who follows it sees that nothing more will come. */
		p->state = PROCESS_ENDED;
		tell(p, &p->starts, &err);
		tell(p, &p->ends, &err);
		if (p->journal)
			journal_tell(p->journal);
		process_release(p);
	}
}
