/* Routes of a sandbox's life: start, stop, removal, and whether it runs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "daemon/activity.h"
#include "daemon/alarm.h"
#include "daemon/berthd.h"
#include "daemon/handle_sandbox.h"
#include "daemon/ping.h"
#include "daemon/registry.h"
#include "daemon/routes.h"
#include "daemon/sandbox_sleep.h"
#include "daemon/store_fact.h"
#include "proto/uri.h"

/* A request that waits for its sandbox. What it asked for goes on if its client goes away. */
struct waiting {
	struct exchange *x; /* NULL: the client is gone, and that was answered */
	struct sandbox_wait wait;
	void (*reply)(struct exchange *x, struct sandbox *sb);
};

static void finish(struct waiting *w, struct sandbox *sb, const struct err *err)
{
	if (w->x)
		exchange_on_gone(w->x, NULL, NULL);
	if (w->x && err)
		exchange_reply_err(w->x, err);
	else if (w->x)
		w->reply(w->x, sb);
	free(w);
}

static void on_waited(struct sandbox_wait *wait, struct sandbox *sb, const struct err *err)
{
	finish(container_of(wait, struct waiting, wait), sb, err);
}

static void on_gone(void *arg)
{
	struct waiting *w = arg;

	exchange_reply_gone(take(w->x));
}

typedef int wish_fn(struct sandbox *sb, struct sandbox_wait *wait, struct err *err);

static void wish(struct exchange *x, struct sandbox *sb, wish_fn *fn,
		 void (*reply)(struct exchange *x, struct sandbox *sb))
{
	struct waiting *w = calloc(1, sizeof(*w));
	struct err err;
	int r;

	if (!w) {
		exchange_reply_no_memory(x);
		return;
	}
	w->x = x;
	w->reply = reply;
	w->wait.done = on_waited;
	list_init(&w->wait.link);
	exchange_on_gone(x, on_gone, w);
	r = fn(sb, &w->wait, &err);
	if (r != 0)
		finish(w, sb, r < 0 ? &err : NULL);
	if (r < 0)
		sandbox_discard(sb);
}

/* --- answers --- */

static void reply_shown(struct exchange *x, struct sandbox *sb)
{
	handle_reply_sandbox(x, 200, sb);
}

static void on_pinged(void *arg, bool has_answered)
{
	exchange_reply(arg, 200, "application/json",
		       has_answered ? STR("{\"running\":true}") : STR("{\"running\":false}"));
}

/* Not by what we believe: init has to say so now. */
static void reply_running(struct exchange *x, struct sandbox *sb)
{
	handle_generation(x, sb);
	if (sb->state != SANDBOX_RUNNING || ping_send(sb, on_pinged, x) < 0)
		on_pinged(x, false);
}

struct slept {
	struct exchange *x;
	struct sandbox_receipt receipt;
};

static void on_slept(void *arg, int result, const struct err *err)
{
	struct slept *slept = arg;
	struct json_writer w;

	json_writer_init(&w, false);
	sandbox_write_receipt(&slept->receipt, &w);
	exchange_reply_json(slept->x, 200, &w);
	json_writer_close(&w);
}

/*
 * The receipt is on its way to the disk: who has it in hand may count on it. One that never ran
 * sleeps as well, and so does one that was frozen and ended without a berthd.
 */
static void reply_slept(struct exchange *x, struct sandbox *sb)
{
	struct slept *slept = arena_alloc(exchange_arena(x), sizeof(*slept));
	struct sandbox_receipt receipt = sb->last_sleep;

	if (!slept) {
		exchange_reply_no_memory(x);
		return;
	}
	if (receipt.mode == SLEEP_AUTO ||
	    (receipt.mode == SLEEP_FREEZE && sb->state == SANDBOX_COLD))
		receipt = (struct sandbox_receipt){
			.mode = sb->state == SANDBOX_FROZEN ? SLEEP_FREEZE : SLEEP_STOP,
			.is_ephemeral = sb->is_ephemeral,
			.generation = sb->generation,
			.at_ms = registry_now_ms()};
	*slept = (struct slept){x, receipt};
	handle_generation(x, sb);
	if (store_fact_await(registry_store(sb->registry), on_slept, slept) < 0)
		on_slept(slept, 0, NULL);
}

static void reply_deleted(struct exchange *x, struct sandbox *sb)
{
	exchange_reply_empty(x, 204);
}

/* --- starting, stopping, removing --- */

static void find_and_wish(struct exchange *x, bool is_made, wish_fn *fn,
			  void (*reply)(struct exchange *x, struct sandbox *sb))
{
	struct sandbox *sb;
	struct err err;

	if (handle_find(x, is_made, &sb, &err) < 0)
		exchange_reply_err(x, &err);
	else
		wish(x, sb, fn, reply);
}

void handle_sandbox_start(struct exchange *x)
{
	find_and_wish(x, true, sandbox_use, reply_shown);
}

void handle_sandbox_running(struct exchange *x)
{
	struct str wake;
	struct sandbox *sb;
	struct err err;
	int r = uri_query(exchange_arena(x), exchange_head(x)->query, STR("wake"), &wake);

	if (r < 0 || (r == 1 && uri_flag(wake) < 0)) {
		exchange_reply_error(x, -EINVAL, ERR_INVALID_REQUEST, "wake must be 1 or 0");
		return;
	}
	if (r == 1 && !uri_flag(wake)) {
		if (handle_find(x, false, &sb, &err) < 0) {
			exchange_reply_err(x, &err);
			return;
		}
		reply_running(x, sb);
		return;
	}
	find_and_wish(x, true, sandbox_use, reply_running);
}

struct sleep_body {
	struct str mode;
};

static int sleep_as_set(struct sandbox *sb, struct sandbox_wait *wait, struct err *err)
{
	return sandbox_sleep(sb, SLEEP_AUTO, wait, err);
}

static int sleep_frozen(struct sandbox *sb, struct sandbox_wait *wait, struct err *err)
{
	return sandbox_sleep(sb, SLEEP_FREEZE, wait, err);
}

void handle_sandbox_sleep(struct exchange *x)
{
	static const struct json_field fields[] = {
		{"mode", JSON_STRING, offsetof(struct sleep_body, mode), false, 0, NULL},
		{NULL, JSON_BOOL, 0, false, 0, NULL},
	};
	static wish_fn *const ways[SLEEP_MODES] = {
		[SLEEP_AUTO] = sleep_as_set,
		[SLEEP_FREEZE] = sleep_frozen,
		[SLEEP_STOP] = sandbox_stop,
	};
	struct sleep_body body = {STR("auto")};
	enum sleep_mode mode;
	struct err err;

	if (exchange_buffered(x).len &&
	    json_parse(exchange_arena(x), exchange_buffered(x), fields, &body, &err) < 0)
		exchange_reply_err(x, &err);
	else if (sleep_mode_parse(body.mode, &mode) < 0)
		exchange_reply_error(x, -EINVAL, ERR_INVALID_REQUEST,
				     "mode must be \"auto\", \"freeze\" or \"stop\"");
	else
		find_and_wish(x, false, ways[mode], reply_slept);
}

/* It is alive, says somebody outside; one that sleeps need not be told so. */
void handle_sandbox_heartbeat(struct exchange *x)
{
	struct json_writer w;
	struct sandbox *sb;
	struct err err;
	int r = handle_find(x, false, &sb, &err);

	if (r == 0 && strcmp(sandbox_state_name(sb), "running") != 0)
		r = err_set(&err, -ESRCH, ERR_CONFLICT,
			    "the sandbox does not run: POST .../wake wakes it");
	if (r < 0) {
		exchange_reply_err(x, &err);
		return;
	}
	sandbox_wake(sb); /* it was just about to sleep */
	activity_touch(sb);
	handle_generation(x, sb);
	json_writer_init(&w, false);
	json_object(&w);
	activity_write_due(sb, &w);
	json_object_end(&w);
	exchange_reply_json(x, 200, &w);
	json_writer_close(&w);
}

/* Empty without one. */
static int wanted_state(struct exchange *x, struct str *ret, struct err *err)
{
	int r = uri_query(exchange_arena(x), exchange_head(x)->query, STR("if_state"), ret);

	if (r == 0)
		*ret = STR("");
	if (r < 0 || (r == 1 && !sandbox_state_is_known(*ret)))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "if_state must be a sandbox's state, such as cold");
	return 0;
}

static int wanted_reason(struct exchange *x, enum destroy_why *ret, struct err *err)
{
	struct str text;
	int r = uri_query(exchange_arena(x), exchange_head(x)->query, STR("reason"), &text);

	*ret = r > 0 && str_eq(text, STR("prune")) ? DESTROY_PRUNE : DESTROY_REQUEST;
	if (r < 0 || (r > 0 && *ret == DESTROY_REQUEST && !str_eq(text, STR("request"))))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "reason must be request or prune");
	return 0;
}

/* One that is cold, and that somebody waits for, is about to start. */
static int check_state(const struct sandbox *sb, struct str wanted, struct err *err)
{
	const char *state = sandbox_state_name(sb);
	bool is_awaited = !list_is_empty(&sb->uses);

	if (wanted.len && (alarm_is_pending(sb) || sb->alarms_changing))
		return err_set(err, -EBUSY, ERR_CONFLICT,
			       "the sandbox has an alarm that is yet to come: it was not removed");
	if (wanted.len && sb->is_changing)
		return err_set(err, -EBUSY, ERR_CONFLICT,
			       "the sandbox's settings are being changed: it was not removed");
	if (wanted.len && !list_is_empty(&sb->port_changes))
		return err_set(err, -EBUSY, ERR_CONFLICT,
			       "one of the sandbox's ports is being exposed: it was not removed");
	if (!wanted.len || (str_eq(wanted, str_of(state)) && !is_awaited))
		return 0;
	return err_set(err, -EBUSY, ERR_CONFLICT, "the sandbox is %s%s: it was not removed", state,
		       is_awaited ? " and about to start" : "");
}

void handle_sandbox_delete(struct exchange *x)
{
	struct str state;
	enum destroy_why why;
	struct sandbox *sb;
	struct err err;
	int r = wanted_state(x, &state, &err);

	if (r == 0)
		r = wanted_reason(x, &why, &err);
	if (r == 0)
		r = handle_find(x, false, &sb, &err);
	if (r == 0)
		r = check_state(sb, state, &err);
	if (r == 0) {
		if (!sandbox_is_leaving(sb))
			sb->destroy_why = why;
		wish(x, sb, sandbox_delete, reply_deleted);
	} else if (err.code == ERR_NOT_FOUND) {
		exchange_reply_empty(x, 204);
	} else {
		exchange_reply_err(x, &err);
	}
}
