/* Routes of /v1/sandbox: make, change, show, list, start, stop, remove. */
#include "daemon/handle_sandbox.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "daemon/activity.h"
#include "daemon/alarm.h"
#include "daemon/berthd.h"
#include "daemon/idempotency.h"
#include "daemon/port.h"
#include "daemon/registry.h"
#include "daemon/routes.h"
#include "daemon/sandbox_expiry.h"
#include "daemon/sandbox_sleep.h"
#include "daemon/usage.h"
#include "daemon/vigil.h"
#include "proto/time_text.h"
#include "proto/uri.h"

#define ENV_COUNT_MAX 32768 /* variables of one exec */

static struct registry *registry_of(struct exchange *x)
{
	struct berthd *b = server_arg(exchange_server(x));

	return b->registry;
}

/* --- finding --- */

int handle_path_id(struct exchange *x, struct sandbox_id *ret, struct err *err)
{
	struct str id;

	if (uri_decode(exchange_arena(x), exchange_captures(x)->items[0], &id) < 0 ||
	    sandbox_id_parse(id, ret) < 0)
		return err_set(
			err, -EINVAL, ERR_INVALID_REQUEST,
			"a sandbox ID has 1 to 63 letters, digits and dashes, and begins and "
			"ends with a letter or digit");
	return 0;
}

static bool is_number(struct str s)
{
	for (size_t i = 0; i < s.len; i++) {
		if (s.at[i] < '0' || s.at[i] > '9')
			return false;
	}
	return true;
}

int handle_check_generation(struct exchange *x, const struct sandbox *sb, struct err *err)
{
	const struct str *given = http_header_find(exchange_head(x), STR("if-generation"));
	char now[24];

	snprintf(now, sizeof(now), "%" PRIu64, sb->generation);
	if (!given || str_eq(*given, str_of(now)))
		return 0;
	if (!given->len || given->len > 19 || !is_number(*given))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "If-Generation must be a number, such as Berth-Generation gives it");
	return err_set(err, -ESTALE, ERR_SANDBOX_RESTARTED,
		       "the sandbox is in generation %s, not in the one that was asked for", now);
}

/* What needs the container does not wake it into another generation than was asked for. */
static int check_wake(struct exchange *x, const struct sandbox *sb, struct err *err)
{
	if (!http_header_find(exchange_head(x), STR("if-generation")) ||
	    sb->state == SANDBOX_RUNNING || sb->state == SANDBOX_STARTING ||
	    sb->state == SANDBOX_FROZEN)
		return 0;
	return err_set(err, -ESTALE, ERR_SANDBOX_RESTARTED,
		       "generation %" PRIu64 " of the sandbox has ended", sb->generation);
}

int handle_check_free(const struct sandbox *sb, struct err *err)
{
	if (!sb->is_reserved)
		return 0;
	return err_set(err, -EBUSY, ERR_CONFLICT,
		       "\"%s\" is the sandbox of a run, or kept warm for one: others can only "
		       "look at it, or delete it",
		       sb->id.text);
}

int handle_make(struct registry *registry, const struct sandbox_id *id, struct sandbox **ret,
		struct err *err)
{
	/* A run's ID is told long before its sandbox is made. */
	if (sandbox_id_is_of_run(id))
		return err_set(err, -EEXIST, ERR_CONFLICT,
			       "\"%s\" is an ID as runs have them: only a run can have a sandbox "
			       "of that name, take another",
			       id->text);
	return registry_make(registry, id, ret, err);
}

/* To look at it, or to end it. */
static bool is_harmless(struct exchange *x, bool is_made)
{
	enum http_method method = exchange_head(x)->method;

	return !is_made && (method == HTTP_METHOD_GET || method == HTTP_METHOD_HEAD ||
			    method == HTTP_METHOD_DELETE);
}

int handle_find(struct exchange *x, bool is_made, struct sandbox **ret, struct err *err)
{
	struct registry *registry = registry_of(x);
	struct sandbox_id id;
	int r = handle_path_id(x, &id, err);

	if (r < 0)
		return r;
	*ret = registry_find(registry, &id);
	if (*ret && !is_made && !(*ret)->is_stored)
		*ret = NULL; /* nobody was told of it yet */
	if (!*ret && !is_made)
		return err_set(err, -ENOENT, ERR_NOT_FOUND, "there is no sandbox \"%s\"", id.text);
	if (!*ret && http_header_find(exchange_head(x), STR("if-generation")))
		return err_set(err, -ESTALE, ERR_SANDBOX_RESTARTED,
			       "there is no sandbox \"%s\" any more", id.text);
	if (!*ret)
		return handle_make(registry, &id, ret, err); /* its first start stores it */
	if (!is_harmless(x, is_made) && handle_check_free(*ret, err) < 0)
		return -EBUSY;
	r = handle_check_generation(x, *ret, err);
	return r == 0 && is_made ? check_wake(x, *ret, err) : r;
}

bool handle_again(struct exchange *x, struct sandbox *sb, struct sandbox_wait *wait)
{
	return !http_header_find(exchange_head(x), STR("if-generation")) &&
	       sandbox_use_again(sb, wait);
}

void handle_generation(struct exchange *x, const struct sandbox *sb)
{
	char *text = arena_printf(exchange_arena(x), "%" PRIu64, sb->generation);

	if (text)
		exchange_header(x, "Berth-Generation", text);
}

int handle_key(struct exchange *x, struct str *ret, struct err *err)
{
	const struct str *given = http_header_find(exchange_head(x), STR("idempotency-key"));

	*ret = given ? *given : STR("");
	if (given && !given->len)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "the Idempotency-Key is empty");
	if (ret->len > IDEMPOTENCY_KEY_MAX)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "the Idempotency-Key is longer than %d characters",
			       IDEMPOTENCY_KEY_MAX);
	return 0;
}

/* --- environment --- */

struct names {
	const char **sorted;
	size_t len;
};

static int compare_names(const void *a, const void *b)
{
	const char *const *x = a, *const *y = b;
	size_t m = strcspn(*x, "="), n = strcspn(*y, "=");
	int order = memcmp(*x, *y, m < n ? m : n);

	return order ? order : (m > n) - (m < n);
}

/* Those of a list of variables. */
static int sort_names(struct arena *arena, struct str list, struct names *ret)
{
	int count = frame_list_count(list);
	const char *item;

	*ret = (struct names){NULL, 0};
	if (count <= 0)
		return count;
	if (count > ENV_COUNT_MAX)
		return -E2BIG;
	ret->sorted = arena_alloc(arena, (size_t)count * sizeof(char *));
	if (!ret->sorted)
		return -ENOMEM;
	while ((item = frame_list_next(&list)))
		ret->sorted[ret->len++] = item;
	qsort(ret->sorted, ret->len, sizeof(char *), compare_names);
	return 0;
}

static bool has_name(const struct names *names, const char *entry)
{
	return names->len &&
	       bsearch(&entry, names->sorted, names->len, sizeof(char *), compare_names);
}

static int add_missing(struct arena *arena, struct buf *out, struct str list, struct str stronger)
{
	struct names names;
	const char *item;
	int r = sort_names(arena, stronger, &names);

	while (r == 0 && (item = frame_list_next(&list))) {
		if (!has_name(&names, item))
			r = buf_append(out, item, strlen(item) + 1);
	}
	return r;
}

int handle_env(struct arena *arena, const struct sandbox *sb, struct exec_request *request,
	       struct err *err)
{
	/* HOME is init's to add: it is the user's, whom only the sandbox's files know. */
	static const char base[] =
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\0"
		"LANG=C.UTF-8\0"
		"TERM=xterm-256color";
	size_t base_len =
		request->is_terminal ? sizeof(base) : sizeof(base) - sizeof("TERM=xterm-256color");
	struct str own = sb->settings.env;
	struct buf list;
	char *copy = NULL;
	size_t len;
	int r;

	buf_init(&list, AGENT_ARGS_MAX);
	r = buf_append_str(&list, request->env);
	if (r == 0)
		r = add_missing(arena, &list, own, request->env);
	len = buf_len(&list);
	if (r == 0 && len)
		copy = arena_strndup(arena, buf_at(&list), len);
	if (r == 0)
		r = add_missing(arena, &list, (struct str){base, base_len},
				(struct str){copy, len});
	len = buf_len(&list);
	copy = r == 0 ? arena_strndup(arena, buf_at(&list), len) : NULL;
	buf_close(&list);
	if (!copy)
		return err_set(err, -E2BIG, ERR_INVALID_REQUEST,
			       "env: the environment is larger than %d bytes or %d variables",
			       AGENT_ARGS_MAX, ENV_COUNT_MAX);
	request->env = (struct str){copy, len};
	return 0;
}

/* --- showing --- */

static void write_failure(struct json_writer *w, const struct sandbox_failure *failure)
{
	json_key(w, "last_failure");
	if (failure->err.code == ERR_NONE) {
		json_null(w);
		return;
	}
	json_object(w);
	json_key(w, "code");
	json_text(w, err_code_name(failure->err.code));
	json_key(w, "message");
	json_str(w, (struct str){failure->err.sentence,
				 utf8_valid_len(str_of(failure->err.sentence))});
	time_text_write(w, "at", failure->at_ms);
	json_object_end(w);
}

void handle_write_sandbox(struct json_writer *w, const struct sandbox *sb)
{
	json_object(w);
	json_key(w, "id");
	json_text(w, sb->id.text);
	json_key(w, "state");
	json_text(w, sandbox_state_name(sb));
	json_key(w, "generation");
	json_int(w, (int64_t)sb->generation);
	time_text_write(w, "created_at", sb->created_at_ms);
	time_text_write(w, "started_at", sb->started_at_ms);
	time_text_write(w, "last_active_at", sb->active_at_ms);
	settings_write(&sb->settings, w);
	port_write_all(sb, w);
	usage_write(sb, w);
	json_key(w, "restart_needed"); /* for the settings above to hold */
	json_bool(w, sb->is_outdated && sb->state != SANDBOX_COLD);
	json_key(w, "execs");
	json_int(w, sb->execs_len);
	activity_write(sb, w);
	sandbox_expiry_write(sb, w);
	time_text_write(w, "next_alarm_at", alarm_first_ms(sb));
	json_key(w, "last_sleep");
	sandbox_write_receipt(&sb->last_sleep, w);
	json_key(w, "last_wake");
	sandbox_write_wake(&sb->last_wake, w);
	vigil_write_oom(sb, w);
	write_failure(w, &sb->last_failure);
	json_object_end(w);
}

void handle_reply_sandbox(struct exchange *x, int status, const struct sandbox *sb)
{
	struct json_writer w;

	handle_generation(x, sb);
	json_writer_init(&w, false);
	handle_write_sandbox(&w, sb);
	exchange_reply_json(x, status, &w);
	json_writer_close(&w);
}

void handle_show(struct exchange *x, void (*write)(struct json_writer *w, struct sandbox *sb))
{
	struct sandbox *sb;
	struct json_writer w;
	struct err err;

	if (handle_find(x, false, &sb, &err) < 0) {
		exchange_reply_err(x, &err);
		return;
	}
	handle_generation(x, sb);
	json_writer_init(&w, false);
	write(&w, sb);
	exchange_reply_json(x, 200, &w);
	json_writer_close(&w);
}
