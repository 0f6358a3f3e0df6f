#include "daemon/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/exec_stranger.h"
#include "daemon/handle_sandbox.h"
#include "daemon/registry.h"
#include "daemon/sandbox_sleep.h"

#define GRACE_MS  500               /* between SIGINT to a command, and the end of its shell */
#define ARENA_MAX (8 * 1024 * 1024) /* for the environment of a shell, once */

enum session_state { SESSION_ABSENT, SESSION_STARTING, SESSION_STORING, SESSION_READY };

/* One shell, until nothing of its tree is left. */
struct shell {
	struct list link;        /* sandbox's shells */
	struct session *session; /* NULL: that is gone */
	struct sandbox *sb;
	struct exec *exec;
	uint64_t generation, number;
	uint32_t pid;
};

struct session {
	struct list link; /* sandbox's sessions */
	struct sandbox *sb;
	struct session_fact fact; /* its texts are `texts` */
	char *texts;
	enum session_state state;
	struct shell *shell;    /* the one for commands */
	struct shell *last;     /* one that has ended, and left something running */
	struct shell *ending;   /* the one whose tree is being ended */
	struct exec_shell face; /* for the command whose turn it is */
	bool is_doomed;         /* its shell is ended, with the command of an earlier berthd */
	bool is_busy, is_fresh, is_restarted, is_leaving, is_forgetting, is_stored, is_dead,
		is_timer_closed;
	unsigned saves; /* under way */
	struct list queue;
	unsigned queue_len;
	uv_timer_t timer;
	session_done_fn *done;
	void *done_arg;
};

static void step(struct session *s);

/* --- its memory --- */

static void release(struct session *s)
{
	if (!s->is_dead || s->saves || !s->is_timer_closed)
		return;
	free(s->texts);
	free(s);
}

static void on_timer_closed(uv_handle_t *handle)
{
	struct session *s = handle->data;

	s->is_timer_closed = true;
	release(s);
}

static void session_free(struct session *s)
{
	list_for_each (node, &s->sb->shells) {
		struct shell *shell = list_entry(node, struct shell, link);

		if (shell->session == s)
			shell->session = NULL;
	}
	list_remove(&s->link);
	s->sb->sessions_len--;
	s->is_dead = true;
	uv_close((uv_handle_t *)&s->timer, on_timer_closed);
}

static void shell_free(struct shell *shell)
{
	list_remove(&shell->link);
	free(shell);
}

static void on_end_wanted(struct exec_shell *face);
static void on_command_over(struct exec_shell *face, struct exec_end *end);

static struct session *make(struct sandbox *sb, const struct session_fact *fact)
{
	struct session *s = calloc(1, sizeof(*s));

	if (s)
		s->texts = session_fact_copy(&s->fact, fact);
	if (!s || !s->texts) {
		free(s);
		return NULL;
	}
	s->sb = sb;
	s->fact.sandbox = sb->id;
	s->face.end = on_end_wanted;
	s->face.over = on_command_over;
	list_init(&s->queue);
	uv_timer_init(registry_loop(sb->registry), &s->timer);
	s->timer.data = s;
	list_append(&sb->sessions, &s->link);
	sb->sessions_len++;
	return s;
}

/* --- who waits --- */

static void fail_all(struct session *s, const struct err *err)
{
	while (!list_is_empty(&s->queue)) {
		struct session_wait *wait = list_entry(s->queue.next, struct session_wait, link);

		list_remove(&wait->link);
		s->queue_len--;
		wait->failed(wait, err);
	}
}

/* Nobody was told of it yet. */
static void discard(struct session *s)
{
	if (!s->is_dead && !s->is_stored && !s->shell && !s->saves && !s->is_busy &&
	    list_is_empty(&s->queue) && !s->is_leaving)
		session_free(s);
}

static void fail_start(struct session *s, const char *why, int code)
{
	struct err err;

	err_set(&err, -ENOEXEC, code, "the session's shell cannot be started: %s", why);
	s->state = SESSION_ABSENT;
	fail_all(s, &err);
	discard(s);
}

/* --- its shell --- */

static void forget(struct session *s);

/* Those that it has, or had: these are there because something of them runs on. */
static struct shell *shell_after(const struct session *s, struct list *node)
{
	while ((node = node->next) != &s->sb->shells) {
		struct shell *shell = list_entry(node, struct shell, link);

		if (shell->session == s)
			return shell;
	}
	return NULL;
}

/* Everything that was to end has ended. */
static void check_leaving(struct session *s)
{
	/* Its command and its shell may tell of their ends one after the other. */
	if (s->is_leaving && !s->is_forgetting && !s->is_busy && !shell_after(s, &s->sb->shells))
		forget(s);
}

static void on_stored(void *arg, int result, const struct err *err)
{
	struct session *s = arg;
	struct err why = *err;

	s->saves--;
	if (s->is_dead) {
		release(s);
		return;
	}
	s->is_stored = s->is_stored || result == 0;
	if (s->state == SESSION_STORING)
		s->state = result < 0 ? SESSION_ABSENT : SESSION_READY;
	if (result < 0 && s->shell)
		exec_kill(s->shell->exec);
	if (result < 0)
		fail_all(s, &why);
	step(s);
}

static int save(struct session *s)
{
	int r = registry_is_stopping(s->sb->registry)
			? -ESHUTDOWN
			: store_session_save(registry_store(s->sb->registry), &s->fact, on_stored,
					     s);

	s->saves += r == 0;
	return r;
}

/* Before a command runs in it: a berthd that comes later must know whose it is. */
static void on_shell_started(void *arg, uint32_t pid)
{
	struct shell *shell = arg;
	struct session *s = shell->session;
	int r;

	shell->pid = pid;
	if (!s || s->shell != shell)
		return;
	s->face.number = shell->number;
	if (s->state != SESSION_STARTING) {
		s->state = SESSION_READY; /* adopted */
		return;
	}
	s->state = SESSION_STORING;
	s->is_fresh = true;
	s->fact.generation = shell->generation;
	s->fact.exec = shell->number;
	if ((r = save(s)) == 0)
		return;
	exec_kill(shell->exec);
	fail_start(s, store_refusal(r), ERR_UNAVAILABLE);
}

/* Commands cannot use it any more. */
static void part(struct session *s, struct shell *shell)
{
	bool was_unused = s->state == SESSION_STORING;

	if (s->shell != shell)
		return;
	s->shell = NULL;
	s->is_doomed = false;
	s->is_restarted = s->is_busy;
	s->state = SESSION_ABSENT;
	if (was_unused && !s->is_leaving)
		fail_start(s, "it ended at once", ERR_EXEC_ERROR);
}

static void on_shell_exited(void *arg, const struct exec_end *end)
{
	struct shell *shell = arg;
	struct session *s = shell->session;

	if (!s)
		return;
	s->last = shell;
	part(s, shell);
	step(s);
}

static void on_shell_ended(void *arg, const struct exec_end *end)
{
	struct shell *shell = arg;
	struct session *s = shell->session;
	bool was_ending = s && s->ending == shell;

	exec_forget(shell->sb, shell->generation, shell->number);
	shell->exec = NULL;
	if (s && s->last == shell)
		s->last = NULL;
	if (s && s->shell == shell && s->state == SESSION_STARTING) {
		s->shell = NULL;
		fail_start(s, end->message[0] ? end->message : "it was ended", ERR_EXEC_ERROR);
	} else if (s) {
		part(s, shell);
	}
	s = shell->session; /* a session that nobody was told of is gone by now */
	shell_free(shell);
	if (s && was_ending) {
		s->ending = NULL;
		uv_timer_stop(&s->timer);
		if (s->face.command)
			exec_proven(s->face.command);
	}
	if (s) {
		check_leaving(s);
		step(s);
		discard(s);
	}
}

static const struct exec_ops shell_ops = {
	.ended = on_shell_ended,
	.started = on_shell_started,
	.exited = on_shell_exited,
};

static struct shell *new_shell(struct session *s)
{
	struct shell *shell = calloc(1, sizeof(*shell));

	if (!shell)
		return NULL;
	*shell = (struct shell){.session = s, .sb = s->sb, .generation = s->sb->generation};
	list_append(&s->sb->shells, &shell->link);
	return shell;
}

static void start_shell(struct session *s)
{
	struct exec_request request = {
		.env = s->fact.env,
		.cwd = s->fact.cwd,
		.user = s->fact.user,
		.is_kept = true,
		.is_session = true,
	};
	struct shell *shell = new_shell(s);
	struct arena arena;
	struct err err;

	err_set(&err, -ENOMEM, ERR_INTERNAL, "out of memory");
	arena_init(&arena, ARENA_MAX);
	request.argv = session_shells(&arena, s->fact.shell);
	if (shell && request.argv.len && handle_env(&arena, s->sb, &request, &err) == 0)
		shell->exec = exec_new(s->sb, &request, &shell_ops, shell, &err);
	arena_close(&arena);
	if (!shell || !shell->exec) {
		if (shell)
			shell_free(shell);
		fail_all(s, &err);
		discard(s);
		return;
	}
	shell->number = exec_number(shell->exec);
	s->shell = shell;
	s->state = SESSION_STARTING;
}

/* --- turns --- */

static bool can_go_on(const struct session *s)
{
	return !s->is_dead && !s->is_busy && !s->is_leaving && !s->ending && !s->is_doomed &&
	       !list_is_empty(&s->queue) && s->sb->state == SANDBOX_RUNNING;
}

static void step(struct session *s)
{
	while (can_go_on(s) && s->state == SESSION_READY) {
		struct session_wait *wait = list_entry(s->queue.next, struct session_wait, link);

		list_remove(&wait->link);
		s->queue_len--;
		s->is_busy = true;
		s->is_restarted = false;
		wait->ready(wait, &s->face);
	}
	if (can_go_on(s) && s->state == SESSION_ABSENT && !s->shell)
		start_shell(s);
	else if (!list_is_empty(&s->queue))
		sandbox_wake(s->sb); /* somebody waits for its turn in one that was frozen */
}

void session_step_all(struct sandbox *sb)
{
	list_for_each_safe (node, &sb->sessions)
		step(list_entry(node, struct session, link));
}

void session_pass(struct exec_shell *face)
{
	struct session *s = container_of(face, struct session, face);

	s->is_busy = false;
	check_leaving(s);
	step(s);
}

static void on_grace_over(uv_timer_t *timer)
{
	struct session *s = timer->data;

	if (s->ending && s->ending->exec)
		exec_kill(s->ending->exec);
}

/* The command may clean up; then all that the shell has started goes, and is proven to. */
static void on_end_wanted(struct exec_shell *face)
{
	struct session *s = container_of(face, struct session, face);

	s->ending = s->shell ? s->shell : s->last;
	s->is_restarted = true;
	if (!s->ending) {
		exec_proven(face->command);
		return;
	}
	exec_interrupt(face->command);
	uv_timer_start(&s->timer, on_grace_over, s->ending != s->shell ? 0 : GRACE_MS, 0);
}

static void on_command_over(struct exec_shell *face, struct exec_end *end)
{
	struct session *s = container_of(face, struct session, face);

	end->in_session = true;
	end->is_fresh = s->is_fresh;
	end->session_restarted = s->is_restarted;
	if (s->is_restarted && !end->message[0])
		snprintf(end->message, sizeof(end->message), "%s",
			 "the session's shell ended with it: the next command gets a fresh one");
	if (end->reason != EXEC_NOT_STARTED)
		s->is_fresh = false;
	session_pass(face);
}

int session_enter(struct session *session, struct session_wait *wait, struct err *err)
{
	if (session->is_leaving)
		return err_set(err, -EBUSY, ERR_CONFLICT, "the session is being deleted");
	if (session->queue_len >= SESSION_QUEUE_MAX)
		return err_set(err, -EAGAIN, ERR_CAPACITY_EXCEEDED,
			       "%d commands wait in the session already: no more may",
			       SESSION_QUEUE_MAX);
	list_append(&session->queue, &wait->link);
	session->queue_len++;
	wait->session = session;
	step(session);
	return 0;
}

void session_cancel(struct session_wait *wait)
{
	if (list_is_empty(&wait->link))
		return;
	list_remove(&wait->link);
	wait->session->queue_len--;
}

/* --- all of them --- */

struct session *session_find(struct sandbox *sb, struct str id)
{
	list_for_each (node, &sb->sessions) {
		struct session *s = list_entry(node, struct session, link);

		if (str_eq(s->fact.id, id))
			return s;
	}
	return NULL;
}

struct session *session_next(struct sandbox *sb, struct session *session)
{
	struct list *next = session ? session->link.next : sb->sessions.next;

	return next == &sb->sessions ? NULL : list_entry(next, struct session, link);
}

struct session_view session_view(const struct session *s)
{
	const char *idle = s->state == SESSION_READY ? "ready" : "absent";

	return (struct session_view){&s->fact, s->is_busy ? "busy" : idle, s->queue_len,
				     s->is_stored};
}

int session_new(struct sandbox *sb, const struct session_fact *fact, struct session **ret,
		struct err *err)
{
	if (sb->sessions_len >= SESSIONS_MAX)
		return err_set(err, -EMFILE, ERR_CONFLICT,
			       "the sandbox has %d sessions: delete one first", SESSIONS_MAX);
	*ret = make(sb, fact);
	if (!*ret)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	(*ret)->fact.created_at_ms = registry_now_ms();
	return 0;
}

void session_init_all(struct sandbox *sb)
{
	list_init(&sb->sessions);
	list_init(&sb->shells);
}

void session_restore(struct sandbox *sb, const struct session_fact *fact)
{
	struct session *s = make(sb, fact);

	if (s)
		s->is_stored = true;
}

void session_adopt_all(struct sandbox *sb)
{
	list_for_each (node, &sb->sessions) {
		struct session *s = list_entry(node, struct session, link);
		struct shell *shell;
		struct err err;

		if (!s->fact.exec || s->fact.generation != sb->generation || s->shell)
			continue;
		shell = new_shell(s);
		if (!shell)
			continue;
		shell->number = s->fact.exec;
		shell->exec = exec_adopt(sb, shell->number, &shell_ops, shell, &err);
		if (shell->exec) {
			s->shell = shell;
			continue;
		}
		log_error("sandbox=%s a session cannot be adopted: %s", sb->id.text, err.sentence);
		shell_free(shell);
	}
}

void session_adopted_all(struct sandbox *sb)
{
	list_for_each (node, &sb->sessions) {
		struct session *s = list_entry(node, struct session, link);

		s->is_doomed = s->shell && exec_stranger_is_in(sb, s->shell->pid);
	}
}

void session_lose_all(struct sandbox *sb)
{
	struct err err;

	err_set(&err, -EAGAIN, ERR_UNAVAILABLE,
		"the sandbox stopped before the command's turn came: send it again");
	for (struct list *node = sb->sessions.next; node != &sb->sessions;) {
		struct session *s = list_entry(node, struct session, link);

		node = node->next;
		fail_all(s, &err);
		discard(s);
	}
}

void session_free_all(struct sandbox *sb)
{
	session_lose_all(sb);
	while (!list_is_empty(&sb->sessions))
		session_free(list_entry(sb->sessions.next, struct session, link));
	while (!list_is_empty(&sb->shells))
		shell_free(list_entry(sb->shells.next, struct shell, link));
}

/* --- its end --- */

static void on_forgotten(void *arg, int result, const struct err *err)
{
	struct session *s = arg;
	session_done_fn *done = s->done;
	void *done_arg = s->done_arg;

	s->saves--;
	s->is_forgetting = false;
	if (s->is_dead)
		release(s);
	else if (result < 0)
		s->is_leaving = false;
	else
		session_free(s);
	done(done_arg, result < 0 ? err : NULL);
}

static void forget(struct session *s)
{
	struct err err;
	int r = registry_is_stopping(s->sb->registry)
			? -ESHUTDOWN
			: store_session_delete(registry_store(s->sb->registry), &s->fact,
					       on_forgotten, s);

	s->saves += r == 0;
	s->is_forgetting = r == 0;
	if (r == 0)
		return;
	s->is_leaving = false;
	store_refuse(&err, r);
	s->done(s->done_arg, &err);
}

int session_delete(struct session *session, session_done_fn *done, void *arg, struct err *err)
{
	struct list *node = &session->sb->shells;
	struct shell *shell;
	struct err gone;

	if (session->is_leaving)
		return err_set(err, -EBUSY, ERR_CONFLICT, "the session is being deleted");
	err_set(&gone, -ENOENT, ERR_NOT_FOUND, "the session was deleted");
	session->is_leaving = true;
	session->done = done;
	session->done_arg = arg;
	fail_all(session, &gone);
	if (session->face.command)
		exec_kill(session->face.command);
	for (; (shell = shell_after(session, node)); node = &shell->link)
		exec_kill(shell->exec);
	check_leaving(session);
	return 0;
}
