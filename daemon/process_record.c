#include "daemon/process_record.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "daemon/exec_stranger.h"
#include "daemon/handle_sandbox.h"
#include "daemon/registry.h"
#include "proto/frame.h"
#include "proto/time_text.h"

#define SHOWN_ARGS  16
#define SHOWN_BYTES 200 /* of each */

/* --- what a request says --- */

static int copy_str(struct str *ret, struct str from)
{
	char *copy = malloc(from.len + 1);

	if (!copy)
		return -ENOMEM;
	if (from.len)
		memcpy(copy, from.at, from.len);
	copy[from.len] = '\0';
	free((char *)ret->at);
	*ret = (struct str){copy, from.len};
	return 0;
}

/* The beginning of it, as a frame list. */
static int copy_command(struct process *p, struct str argv)
{
	struct buf list;
	const char *item;
	int r = 0;

	buf_init(&list, SHOWN_ARGS * (SHOWN_BYTES + 1));
	for (int i = 0; r == 0 && i < SHOWN_ARGS && (item = frame_list_next(&argv)); i++) {
		struct str s = {item, strnlen(item, SHOWN_BYTES)};

		s.len = utf8_valid_len(s);
		r = buf_append_str(&list, s);
		if (r == 0)
			r = buf_append(&list, "", 1);
	}
	if (r == 0)
		r = copy_str(&p->command, (struct str){buf_at(&list), buf_len(&list)});
	buf_close(&list);
	return r;
}

static int describe(struct process *p, const struct process_request *request)
{
	struct str cwd = {p->cwd, 0};
	int r = copy_command(p, request->exec.argv);

	if (r == 0)
		r = copy_str(&cwd, request->exec.cwd);
	p->cwd = (char *)cwd.at;
	p->timeout_ms = request->exec.timeout_ms;
	return r;
}

static int take_id(struct str given, struct sandbox_id *ret, struct err *err)
{
	if (!given.len)
		return handle_make_id(ret) == 0 ? 0
						: err_set(err, -EIO, ERR_INTERNAL,
							  "the kernel gives no random bytes");
	if (sandbox_id_parse(given, ret) < 0)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "id must have 1 to 63 letters, digits and dashes, and begin and end "
			       "with a letter or digit");
	return 0;
}

/* Each of them is kept when it has ended, and started with the others. */
static int check_autostart(struct sandbox *sb, const struct sandbox_id *id, struct err *err)
{
	unsigned count = 0;

	list_for_each (node, &sb->processes) {
		struct process *p = list_entry(node, struct process, link);

		count += p->is_autostart && strcmp(p->id.text, id->text) != 0;
	}
	if (count < PROCESS_AUTOSTART_MAX)
		return 0;
	return err_set(err, -EDQUOT, ERR_CONFLICT,
		       "the sandbox has %u processes that start with it, and may have no more: "
		       "DELETE those that are not wanted",
		       count);
}

int process_record_name(struct sandbox *sb, const struct process_request *request,
			struct sandbox_id *ret, struct err *err)
{
	int r = take_id(request->id, ret, err);

	return r == 0 && request->autostart ? check_autostart(sb, ret, err) : r;
}

int process_record_describe(struct process *p, const struct process_request *request)
{
	struct process_request stored = *request;
	struct buf text;
	int r = describe(p, request);

	/* Of one that is not started again only what is shown: its environment may hold secrets. */
	if (!request->autostart) {
		stored.exec.argv = p->command;
		stored.exec.env = (struct str){NULL, 0};
	}
	p->is_autostart = request->autostart;
	buf_init(&text, 8 * AGENT_ARGS_MAX);
	if (r == 0)
		r = process_request_store(&stored, &text);
	if (r == 0)
		r = copy_str(&p->spec, (struct str){buf_at(&text), buf_len(&text)});
	buf_close(&text);
	return r;
}

int process_record_restore(struct process *p, const struct process_fact *fact)
{
	struct process_request request = {.id = {NULL, 0}};
	struct arena arena;
	struct err err;
	int r;

	p->generation = fact->generation;
	p->number = fact->exec;
	p->is_terminal = exec_stranger_is_terminal(fact->exec);
	p->pid = fact->pid;
	p->started_at_ms = fact->started_at_ms;
	p->has_exited = p->is_exit_stored = fact->ended_at_ms < 0;
	p->ended_at_ms = p->has_exited ? -fact->ended_at_ms : fact->ended_at_ms;
	p->main_end = fact->end;
	p->log_start = fact->log_start;
	p->log_end = fact->log_end;
	p->end = fact->end;
	p->is_autostart = fact->is_autostart;
	p->is_over = fact->ended_at_ms > 0;
	p->state = p->is_over ? PROCESS_ENDED : PROCESS_RUNNING;
	arena_init(&arena, 8 * AGENT_ARGS_MAX);
	r = process_request_parse(&arena, fact->spec, &request, &err);
	if (r == 0)
		r = describe(p, &request);
	if (r == 0 && p->is_autostart)
		r = copy_str(&p->spec, fact->spec);
	arena_close(&arena);
	return r;
}

bool process_is_coming_up(const struct sandbox *sb, int64_t limit_ms)
{
	if (registry_now_ms() - sb->started_at_ms > limit_ms)
		return false;
	list_for_each (node, &sb->processes) {
		const struct process *p = list_entry(node, struct process, link);

		if (p->is_autostart && p->state != PROCESS_ENDED)
			return true;
	}
	return false;
}

bool process_autostart_ran(const struct sandbox *sb)
{
	const struct sandbox_receipt *last = &sb->last_sleep;

	/* Then it is not running because somebody wanted that. */
	if (last->mode == SLEEP_STOP && last->why != SLEPT_FAILED &&
	    last->generation == sb->generation)
		return false;
	list_for_each (node, &sb->processes) {
		const struct process *p = list_entry(node, struct process, link);

		bool is_lost = p->state == PROCESS_ENDED && p->end.reason == EXEC_LOST;

		if (p->is_autostart && (is_lost || (p->state == PROCESS_RUNNING && !p->exec)))
			return true;
	}
	return false;
}

/* --- storing --- */

int process_record_save(struct process *p, store_done_fn *done)
{
	struct registry *registry = p->sb->registry;
	/* Only its program has ended: then its time is stored with a minus. */
	bool is_part = p->is_terminal && p->has_exited && p->state < PROCESS_ENDING;
	struct process_fact fact = {
		.sandbox = p->sb->id,
		.id = p->id,
		.generation = p->generation,
		.exec = p->number,
		.pid = p->pid,
		.started_at_ms = p->started_at_ms,
		.ended_at_ms = is_part ? -p->ended_at_ms : p->ended_at_ms,
		.log_start = p->log_start,
		.log_end = p->log_end,
		.is_autostart = p->is_autostart,
		.end = is_part ? p->main_end : p->end,
		.spec = p->spec,
	};
	int r;

	if (registry_is_stopping(registry))
		return 0;
	r = store_process_save(registry_store(registry), &fact, done, p);
	if (r < 0)
		return r;
	process_hold(p);
	/* From now on it is on its way to the disk, and needed only to start it again. */
	if (!p->is_autostart && p->spec.len) {
		free((char *)p->spec.at);
		p->spec = (struct str){NULL, 0};
	}
	return 0;
}

/* The one that ended first, of those that need not be kept, and how many those are. */
static struct process *find_first(struct sandbox *sb, unsigned *ret_count)
{
	struct process *first = NULL;

	*ret_count = 0;
	list_for_each (node, &sb->processes) {
		struct process *p = list_entry(node, struct process, link);

		if (p->state != PROCESS_ENDED || p->is_autostart)
			continue;
		++*ret_count;
		if (!first || p->ended_at_ms < first->ended_at_ms)
			first = p;
	}
	return first;
}

void process_record_prune(struct sandbox *sb, int (*drop)(struct process *p))
{
	struct process *first;
	unsigned ended;
	int r = 0;

	do {
		first = find_first(sb, &ended);
		if (ended > PROCESS_ENDED_MAX)
			r = drop(first);
	} while (r == 0 && ended > PROCESS_ENDED_MAX);
}

/* --- showing --- */

static void write_time(struct json_writer *w, const char *key, int64_t at_ms)
{
	char text[TIME_TEXT_SIZE];

	if (time_text_format(at_ms, text) < 0)
		return;
	json_key(w, key);
	json_text(w, text);
}

static void write_cursor(struct json_writer *w, const char *key, uint64_t cursor)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, cursor);
	json_key(w, key);
	json_text(w, text);
}

static bool is_error(const struct exec_end *end)
{
	return end->reason == EXEC_LOST || end->reason == EXEC_NOT_STARTED;
}

/* NULL while it runs. A terminal's end is that of its program: nobody can see or type any more. */
static const struct exec_end *end_of(const struct process *p)
{
	if (p->is_over)
		return &p->end;
	return p->is_exit_stored ? &p->main_end : NULL;
}

static void write_exit(const struct exec_end *end, struct json_writer *w)
{
	json_key(w, "exit");
	json_object(w);
	json_key(w, "code");
	json_int(w, end->exit_code);
	if (end->signal) {
		json_key(w, "signal");
		json_int(w, end->signal);
	}
	json_key(w, "timedOut");
	json_bool(w, end->reason == EXEC_TIMEOUT);
	json_object_end(w);
}

static void write_error(const struct exec_end *end, struct json_writer *w)
{
	struct str message = str_of(end->message);

	message.len = utf8_valid_len(message);
	json_key(w, "error");
	json_object(w);
	json_key(w, "code");
	json_text(w, exec_reason_name(end->reason));
	json_key(w, "message");
	json_str(w, message);
	json_object_end(w);
}

void process_write_end(const struct process *p, struct json_writer *w)
{
	const struct exec_end *end = end_of(p);

	json_key(w, "state");
	json_text(w, !end ? "running" : is_error(end) ? "error" : "exited");
	if (!end)
		return;
	if (is_error(end))
		write_error(end, w);
	else
		write_exit(end, w);
	exec_end_write(end, w);
}

void process_write(const struct process *p, struct json_writer *w)
{
	struct str command = p->command;
	const char *item;

	json_key(w, "id");
	json_text(w, p->id.text);
	json_key(w, "pid");
	json_int(w, p->pid);
	json_key(w, "command");
	json_array(w);
	while ((item = frame_list_next(&command)))
		json_text(w, item);
	json_array_end(w);
	json_key(w, "cwd");
	json_text(w, p->cwd ? p->cwd : "");
	json_key(w, "generation");
	json_int(w, (int64_t)p->generation);
	json_key(w, "autostart");
	json_bool(w, p->is_autostart);
	write_time(w, "startedAt", p->started_at_ms);
	write_time(w, "started_at", p->started_at_ms);
	if (end_of(p)) {
		write_time(w, "endedAt", p->ended_at_ms);
		write_time(w, "ended_at", p->ended_at_ms);
	}
	process_write_end(p, w);
	json_key(w, "log");
	json_object(w);
	write_cursor(w, "start", p->journal ? journal_start(p->journal) : p->log_start);
	write_cursor(w, "end", p->journal ? journal_end(p->journal) : p->log_end);
	json_object_end(w);
}
