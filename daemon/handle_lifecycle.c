/* Routes that change a sandbox: made, settings, start, stop, removal; and those that list. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "daemon/berthd.h"
#include "daemon/handle_sandbox.h"
#include "daemon/ping.h"
#include "daemon/registry.h"
#include "daemon/routes.h"
#include "proto/uri.h"

#define ID_MADE_LEN  26
#define LIST_MAX     1000
#define LIST_DEFAULT 100

/* A request that waits for its sandbox or for the store. */
struct waiting {
	struct exchange *x;
	struct sandbox *sb;
	struct sandbox_wait wait;
	void (*reply)(struct exchange *x, struct sandbox *sb);
};

static void finish(struct waiting *w, struct sandbox *sb, const struct err *err)
{
	if (err)
		exchange_reply_err(w->x, err);
	else
		w->reply(w->x, sb);
	free(w);
}

static void on_waited(struct sandbox_wait *wait, struct sandbox *sb, const struct err *err)
{
	finish(container_of(wait, struct waiting, wait), sb, err);
}

static void on_stored(void *arg, int result, const struct err *err)
{
	struct waiting *w = arg;

	finish(w, w->sb, result < 0 ? err : NULL);
}

static void reply_error(struct exchange *x, int error, enum err_code code, const char *sentence)
{
	struct err err;

	err_set(&err, error, code, "%s", sentence);
	exchange_reply_err(x, &err);
}

static struct waiting *wait_for(struct exchange *x, struct sandbox *sb,
				void (*reply)(struct exchange *x, struct sandbox *sb))
{
	struct waiting *w = calloc(1, sizeof(*w));

	if (!w) {
		reply_error(x, -ENOMEM, ERR_INTERNAL, "out of memory");
		return NULL;
	}
	w->x = x;
	w->sb = sb;
	w->reply = reply;
	w->wait.done = on_waited;
	list_init(&w->wait.link);
	return w;
}

typedef int wish_fn(struct sandbox *sb, struct sandbox_wait *wait, struct err *err);

static void wish(struct exchange *x, struct sandbox *sb, wish_fn *fn,
		 void (*reply)(struct exchange *x, struct sandbox *sb))
{
	struct waiting *w = wait_for(x, sb, reply);
	struct err err;
	int r;

	if (!w)
		return;
	r = fn(sb, &w->wait, &err);
	if (r != 0)
		finish(w, sb, r < 0 ? &err : NULL);
}

/* --- answers --- */

static void reply_id(struct exchange *x, struct sandbox *sb)
{
	struct json_writer w;

	handle_generation(x, sb);
	json_writer_init(&w, false);
	json_object(&w);
	json_key(&w, "id");
	json_text(&w, sb->id.text);
	json_object_end(&w);
	exchange_reply_json(x, 201, &w);
	json_writer_close(&w);
}

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

static void reply_slept(struct exchange *x, struct sandbox *sb)
{
	struct json_writer w;

	handle_generation(x, sb);
	json_writer_init(&w, false);
	json_object(&w);
	json_key(&w, "mode");
	json_text(&w, "stop");
	json_key(&w, "generation");
	json_int(&w, (int64_t)sb->generation);
	json_key(&w, "kept");
	json_array(&w);
	json_text(&w, "disk");
	json_array_end(&w);
	json_object_end(&w);
	exchange_reply_json(x, 200, &w);
	json_writer_close(&w);
}

static void reply_deleted(struct exchange *x, struct sandbox *sb)
{
	exchange_reply_empty(x, 204);
}

/* --- making and changing --- */

static int make_id(struct sandbox_id *ret)
{
	static const char base32[] = "abcdefghijklmnopqrstuvwxyz234567";
	unsigned char bytes[ID_MADE_LEN];

	*ret = (struct sandbox_id){{0}};
	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return -EIO;
	for (size_t i = 0; i < sizeof(bytes); i++)
		ret->text[i] = base32[bytes[i] & 31];
	return 0;
}

static void save_and_reply(struct exchange *x, struct sandbox *sb, bool start,
			   void (*reply)(struct exchange *x, struct sandbox *sb))
{
	struct waiting *w;

	if (start) {
		wish(x, sb, sandbox_use, reply); /* which stores the settings with the generation */
		return;
	}
	w = wait_for(x, sb, reply);
	if (w && sandbox_save(sb, on_stored, w) < 0) {
		reply_error(w->x, -EBUSY, ERR_UNAVAILABLE, "too much is being stored: try again");
		free(w);
	}
}

/* The body's settings over those of the sandbox, which is made if there is none. */
static int apply(struct exchange *x, struct registry *registry, const struct sandbox_id *id,
		 struct settings_request *request, struct sandbox **ret)
{
	struct sandbox *sb = registry_find(registry, id);

	if (!sb)
		sb = registry_add(registry, id);
	if (!sb) {
		settings_close(&request->settings);
		reply_error(x, -ENOMEM, ERR_INTERNAL, "out of memory");
		return -ENOMEM;
	}
	settings_close(&sb->settings);
	sb->settings = request->settings;
	*ret = sb;
	return 0;
}

/* The key that the client chose; 1: it has made a sandbox already, and that was answered. */
static int answer_again(struct exchange *x, struct registry *registry, struct str *ret_key)
{
	const struct str *key = http_header_find(exchange_head(x), STR("idempotency-key"));
	struct sandbox_id id;
	struct sandbox *sb;

	*ret_key = key ? *key : STR("");
	if (ret_key->len > IDEMPOTENCY_KEY_MAX) {
		reply_error(x, -EINVAL, ERR_INVALID_REQUEST,
			    "the Idempotency-Key is longer than 128 characters");
		return 1;
	}
	if (!ret_key->len || !idempotency_find(registry_keys(registry), *ret_key, &id))
		return 0;
	sb = registry_find(registry, &id);
	if (sb)
		reply_id(x, sb);
	return sb != NULL;
}

void handle_sandbox_create(struct exchange *x)
{
	struct berthd *b = server_arg(exchange_server(x));
	struct str key;
	struct settings_request request = {.is_strict = false};
	struct str body = exchange_buffered(x);
	struct sandbox_id id;
	struct sandbox *sb;
	struct err err;

	if (answer_again(x, b->registry, &key))
		return;
	settings_init(&request.settings);
	if (settings_read(exchange_arena(x), body, &request, &err) < 0) {
		exchange_reply_err(x, &err);
		return;
	}
	if (request.id.len ? sandbox_id_parse(request.id, &id) : make_id(&id)) {
		settings_close(&request.settings);
		reply_error(
			x, -EINVAL, ERR_INVALID_REQUEST,
			"id must have 1 to 63 letters, digits and dashes, and begin and end with a "
			"letter or digit");
		return;
	}
	if (registry_find(b->registry, &id)) {
		settings_close(&request.settings);
		reply_error(x, -EEXIST, ERR_CONFLICT,
			    "a sandbox of that ID is there already; PUT changes its settings");
	} else if (apply(x, b->registry, &id, &request, &sb) == 0) {
		if (key.len)
			idempotency_add(registry_keys(b->registry), key, &id);
		save_and_reply(x, sb, request.start, reply_id);
	}
}

static int copy_settings(struct settings *ret, const struct sandbox *sb)
{
	if (sb)
		return settings_copy(ret, &sb->settings);
	settings_init(ret);
	return 0;
}

void handle_sandbox_put(struct exchange *x)
{
	struct berthd *b = server_arg(exchange_server(x));
	struct settings_request request = {.is_strict = true};
	struct sandbox_id id;
	struct sandbox *sb;
	struct err err;
	int r;

	r = handle_path_id(x, &id, &err);
	if (r == 0) {
		sb = registry_find(b->registry, &id);
		r = sb ? handle_check_generation(x, sb, &err) : 0;
	}
	if (r == 0 && copy_settings(&request.settings, sb) < 0)
		r = err_set(&err, -ENOMEM, ERR_INTERNAL, "out of memory");
	if (r == 0) {
		r = settings_read(exchange_arena(x), exchange_buffered(x), &request, &err);
		if (r < 0)
			settings_close(&request.settings);
	}
	if (r < 0)
		exchange_reply_err(x, &err);
	else if (apply(x, b->registry, &id, &request, &sb) == 0)
		save_and_reply(x, sb, request.start, reply_shown);
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

	if (r == 1 && str_eq(wake, STR("0"))) {
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

void handle_sandbox_sleep(struct exchange *x)
{
	static const struct json_field fields[] = {
		{"mode", JSON_STRING, offsetof(struct sleep_body, mode), false, 0, NULL},
		{NULL, JSON_BOOL, 0, false, 0, NULL},
	};
	struct sleep_body body = {STR("stop")};
	struct err err;

	if (exchange_buffered(x).len &&
	    json_parse(exchange_arena(x), exchange_buffered(x), fields, &body, &err) < 0)
		exchange_reply_err(x, &err);
	else if (!str_eq(body.mode, STR("stop")))
		reply_error(x, -ENOSYS, ERR_UNSUPPORTED,
			    "mode: only \"stop\" is there yet; freezing comes later");
	else
		find_and_wish(x, false, sandbox_stop, reply_slept);
}

void handle_sandbox_delete(struct exchange *x)
{
	struct sandbox *sb;
	struct err err;

	if (handle_find(x, false, &sb, &err) == 0)
		wish(x, sb, sandbox_delete, reply_deleted);
	else if (err.code == ERR_NOT_FOUND)
		exchange_reply_empty(x, 204);
	else
		exchange_reply_err(x, &err);
}

/* --- listing --- */

static int list_limit(struct exchange *x, size_t *ret, struct err *err)
{
	struct str text;
	char *end;
	long limit;
	int r = uri_query(exchange_arena(x), exchange_head(x)->query, STR("limit"), &text);

	*ret = LIST_DEFAULT;
	if (r == 0)
		return 0;
	limit = r == 1 && text.len ? strtol(text.at, &end, 10) : 0;
	if (r < 0 || limit < 1 || limit > LIST_MAX || *end)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "limit must be a number from 1 to %d", LIST_MAX);
	*ret = (size_t)limit;
	return 0;
}

/* "name=value", or "name" for any value. */
static bool has_label(const struct sandbox *sb, struct str wanted)
{
	struct str list = sb->settings.labels;
	bool is_whole = memchr(wanted.at, '=', wanted.len) != NULL;
	const char *item;

	while ((item = frame_list_next(&list))) {
		size_t len = is_whole ? strlen(item) : strcspn(item, "=");

		if (str_eq((struct str){item, len}, wanted))
			return true;
	}
	return false;
}

static bool is_listed(const struct sandbox *sb, struct str state, struct str label)
{
	return (!state.len || str_eq(state, str_of(sandbox_state_name(sb)))) &&
	       (!label.len || has_label(sb, label));
}

void handle_sandbox_list(struct exchange *x)
{
	struct berthd *b = server_arg(exchange_server(x));
	struct str cursor = STR(""), state = STR(""), label = STR("");
	struct str query = exchange_head(x)->query;
	struct sandbox *sb;
	struct json_writer w;
	struct err err;
	size_t limit, n = 0;

	if (list_limit(x, &limit, &err) < 0) {
		exchange_reply_err(x, &err);
		return;
	}
	if (uri_query(exchange_arena(x), query, STR("cursor"), &cursor) < 0 ||
	    uri_query(exchange_arena(x), query, STR("state"), &state) < 0 ||
	    uri_query(exchange_arena(x), query, STR("label"), &label) < 0) {
		reply_error(x, -EINVAL, ERR_INVALID_REQUEST, "the query is malformed");
		return;
	}
	json_writer_init(&w, false);
	json_object(&w);
	json_key(&w, "sandboxes");
	json_array(&w);
	for (sb = registry_next(b->registry, cursor.at); sb && n < limit;
	     sb = registry_next(b->registry, sb->id.text)) {
		cursor = str_of(sb->id.text);
		if (is_listed(sb, state, label)) {
			handle_write_sandbox(&w, sb);
			n++;
		}
	}
	json_array_end(&w);
	if (sb) {
		json_key(&w, "cursor");
		json_str(&w, cursor);
	}
	json_object_end(&w);
	exchange_reply_json(x, 200, &w);
	json_writer_close(&w);
}
