/* Alarms as clients make, replace, remove and see them. Nothing is said before it is stored. */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/alarm_state.h"
#include "daemon/registry.h"
#include "daemon/sandbox_expiry.h"
#include "proto/frame.h"
#include "proto/time_text.h"
#include "proto/units.h"

/* --- changes --- */

struct change {
	struct sandbox *sb;     /* which is there: it is not deleted before */
	const struct alarm *of; /* that there was; NULL: none */
	bool is_new, is_removal;
	struct alarm_fact fact;
	struct alarm_wait *wait;
};

static void free_change(struct change *c)
{
	free((char *)c->fact.asked.argv.at);
	free(c);
}

static int apply(struct change *c)
{
	struct alarm *a = alarm_find(c->sb, &c->fact.name);

	if (c->is_removal) {
		if (a)
			alarm_leave(a);
		return 0;
	}
	if (!a) {
		a = alarm_new(c->sb, &c->fact.name);
		if (!a)
			return -ENOMEM;
	}
	alarm_become(a, &c->fact.asked, &c->fact.state);
	return 0;
}

/* It goes on as it was; what was stored of it meanwhile can be told. */
static void stay(struct alarm *a)
{
	a->changes--;
	if (!a->is_busy)
		a->stored = a->state;
}

static void finish(struct change *c, const struct err *failure)
{
	struct sandbox *sb = c->sb;

	c->wait->done(c->wait, failure);
	free_change(c);
	alarm_begin_all(sb);
}

/* The change is stored, whatever came of this. */
static void on_put_off(void *arg, int result, const struct err *err)
{
	struct change *c = arg;

	if (result < 0)
		log_error("sandbox=%s its sleep is not stored: %s", c->sb->id.text, err->sentence);
	finish(c, NULL);
}

static void on_changed(void *arg, int result, const struct err *err)
{
	struct change *c = arg;
	struct sandbox *sb = c->sb;
	struct alarm *a = alarm_find(sb, &c->fact.name);
	struct err failure = *err;

	if (a && a == c->of && a->changing) {
		a->changing--;
		if (result < 0)
			stay(a);
	}
	if (result == 0 && apply(c) < 0)
		result = err_set(&failure, -ENOMEM, ERR_INTERNAL, "out of memory");
	sb->alarms_changing--;
	sb->alarms_adding -= c->is_new;
	if (result == 0 && sandbox_put_off_then(sb, on_put_off, c))
		return;
	finish(c, result < 0 ? &failure : NULL);
}

static int refuse_leaving(const struct sandbox *sb, struct err *err)
{
	if (!sandbox_is_leaving(sb))
		return 0;
	return err_set(err, -EBUSY, ERR_CONFLICT,
		       "the sandbox is being deleted: try again when it is gone");
}

/* Takes the change. Until it is stored, nothing of the sandbox's alarms begins. */
static int submit(struct change *c, struct err *err)
{
	struct sandbox *sb = c->sb;
	struct store *store = registry_store(sb->registry);
	struct alarm *a = alarm_find(sb, &c->fact.name);
	int r = -ESHUTDOWN;

	c->is_new = !a && !c->is_removal;
	if (!registry_is_stopping(sb->registry))
		r = c->is_removal ? store_alarm_delete(store, &sb->id, &c->fact.name, on_changed, c)
				  : store_alarm_save(store, &c->fact, on_changed, c);
	if (r < 0) {
		free_change(c);
		return store_refuse(err, r);
	}
	c->of = a;
	if (a) {
		a->changes++; /* what it runs now is not to be stored any more */
		a->changing++;
	}
	sb->alarms_changing++;
	sb->alarms_adding += c->is_new;
	return 0;
}

static bool is_same(const struct alarm *a, const struct alarm_request *request)
{
	const struct alarm_request *asked = &a->asked;

	return asked->at_ms == request->at_ms && asked->every_ms == request->every_ms &&
	       asked->timeout_ms == request->timeout_ms && str_eq(asked->argv, request->argv);
}

static struct change *change_new(struct sandbox *sb, const struct sandbox_id *name,
				 struct alarm_wait *wait)
{
	struct change *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->sb = sb;
	c->fact.sandbox = sb->id;
	c->fact.name = *name;
	c->wait = wait;
	return c;
}

int alarm_put(struct sandbox *sb, const struct sandbox_id *name,
	      const struct alarm_request *request, struct alarm_wait *wait, struct err *err)
{
	struct alarm *a = alarm_find(sb, name);
	struct change *c;

	if (refuse_leaving(sb, err) < 0)
		return -EBUSY;
	if (a && !a->changing && is_same(a, request))
		return 1;
	if (!a && sb->alarms_len + sb->alarms_adding >= ALARMS_MAX)
		return err_set(err, -EDQUOT, ERR_CONFLICT,
			       "the sandbox has %d alarms, and may have no more: DELETE those that "
			       "are over or not wanted",
			       ALARMS_MAX);
	c = change_new(sb, name, wait);
	if (!c || alarm_copy_request(&c->fact.asked, request) < 0) {
		free(c);
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	}
	c->fact.state.next_at_ms =
		request->at_ms ? request->at_ms : registry_now_ms() + (int64_t)request->every_ms;
	c->fact.state.run.reason = c->fact.state.run.exit_code = -1;
	return submit(c, err);
}

int alarm_delete(struct sandbox *sb, const struct sandbox_id *name, struct alarm_wait *wait,
		 struct err *err)
{
	struct change *c;

	if (refuse_leaving(sb, err) < 0)
		return -EBUSY;
	if (!alarm_find(sb, name) && !sb->alarms_changing)
		return 1;
	c = change_new(sb, name, wait);
	if (!c)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	c->is_removal = true;
	return submit(c, err);
}

/* --- showing --- */

static void write_run(const struct alarm_run *run, struct json_writer *w)
{
	json_key(w, "last_run");
	if (!run->attempts) {
		json_null(w);
		return;
	}
	json_object(w);
	time_text_write(w, "due_at", run->due_at_ms);
	time_text_write(w, "started_at", run->started_at_ms);
	time_text_write(w, "ended_at", run->ended_at_ms);
	json_key(w, "reason");
	if (run->reason < 0)
		json_null(w);
	else
		json_text(w, exec_reason_name((enum exec_reason)run->reason));
	json_key(w, "exit_code");
	if (run->exit_code < 0)
		json_null(w);
	else
		json_int(w, run->exit_code);
	json_key(w, "attempts");
	json_int(w, (int64_t)run->attempts);
	json_key(w, "skipped");
	json_int(w, (int64_t)run->skipped);
	json_key(w, "error");
	if (run->error[0])
		json_str(w, (struct str){run->error, utf8_valid_len(str_of(run->error))});
	else
		json_null(w);
	json_object_end(w);
}

void alarm_write(const struct alarm *alarm, struct json_writer *w)
{
	struct str argv = alarm->asked.argv;
	char every[DURATION_TEXT_SIZE];
	const char *item;

	json_object(w);
	json_key(w, "name");
	json_text(w, alarm->name.text);
	time_text_write(w, "at", alarm->asked.at_ms);
	json_key(w, "every");
	duration_format(alarm->asked.every_ms, every);
	if (alarm->asked.every_ms)
		json_text(w, every);
	else
		json_null(w);
	json_key(w, "argv");
	json_array(w);
	while ((item = frame_list_next(&argv)))
		json_text(w, item);
	json_array_end(w);
	json_key(w, "timeout_ms");
	json_int(w, (int64_t)alarm->asked.timeout_ms);
	time_text_write(w, "next_at", alarm->stored.next_at_ms);
	write_run(&alarm->stored.run, w);
	json_object_end(w);
}
