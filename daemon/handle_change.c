/* Routes that make a sandbox or change its settings. Nothing is said before it is stored. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "daemon/berthd.h"
#include "daemon/handle_sandbox.h"
#include "daemon/registry.h"
#include "daemon/routes.h"
#include "daemon/trust.h"

#define ID_MADE_LEN 26

/* What is said when it is done. */
enum answer { ANSWER_SANDBOX, ANSWER_ID, ANSWER_NOTHING };

/* One request. */
struct change {
	struct exchange *x; /* NULL: the client is gone, and that was answered */
	struct registry *registry;
	struct sandbox_id id;
	struct sandbox_wait wait;
	struct keeper_call call; /* about its image, then about what it is to have */
	bool must_check;
	struct keeper_check check; /* without its id, which is above */
	enum answer answer;
	bool start;
	void (*again)(struct exchange *x); /* when another change of it is over */
};

static void reply_id(struct exchange *x, const struct sandbox *sb)
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

static void reply_nothing(struct exchange *x, const struct sandbox *sb)
{
	handle_generation(x, sb);
	exchange_reply_empty(x, 204);
}

static void finish(struct change *c, const struct sandbox *sb, const struct err *err)
{
	if (c->x)
		exchange_on_gone(c->x, NULL, NULL);
	/* What was not made can be tried again with the same key. */
	if (err && c->answer == ANSWER_ID && (!sb || !sb->is_stored))
		idempotency_forget(registry_keys(c->registry), NULL, &c->id);
	if (c->x && err)
		exchange_reply_err(c->x, err);
	else if (c->x && c->answer == ANSWER_NOTHING)
		reply_nothing(c->x, sb);
	else if (c->x && c->answer == ANSWER_ID)
		reply_id(c->x, sb);
	else if (c->x)
		handle_reply_sandbox(c->x, 200, sb);
	free(c);
}

static void on_gone(void *arg)
{
	struct change *c = arg;

	exchange_reply_gone(take(c->x));
}

static void on_running(struct sandbox_wait *wait, struct sandbox *sb, const struct err *err)
{
	finish(container_of(wait, struct change, wait), sb, err);
}

static void start(struct change *c, struct sandbox *sb)
{
	struct err err;
	int r;

	c->wait.done = on_running;
	r = sandbox_use(sb, &c->wait, &err);
	if (r != 0)
		finish(c, sb, r < 0 ? &err : NULL);
	if (r < 0)
		sandbox_discard(sb);
}

static void on_stored(void *arg, int result, const struct err *err)
{
	struct change *c = arg;
	struct sandbox *sb = registry_find(c->registry, &c->id);

	if (result == 0 && c->start && !sandbox_is_leaving(sb))
		start(c, sb);
	else
		finish(c, sb, result < 0 ? err : NULL);
}

/* The request is looked at anew, when what it waited for is over. */
static void on_changed(struct sandbox_wait *wait, struct sandbox *sb, const struct err *err)
{
	struct change *c = container_of(wait, struct change, wait);
	struct exchange *x = c->x;

	if (x)
		exchange_on_gone(x, NULL, NULL);
	if (x && err)
		exchange_reply_err(x, err);
	else if (x)
		c->again(x);
	free(c);
}

static struct change *change_new(struct exchange *x, const struct sandbox_id *id,
				 void (*again)(struct exchange *x))
{
	struct berthd *b = server_arg(exchange_server(x));
	struct change *c = calloc(1, sizeof(*c));

	if (!c) {
		exchange_reply_no_memory(x);
		return NULL;
	}
	c->x = x;
	c->registry = b->registry;
	c->id = *id;
	c->again = again;
	c->wait.done = on_changed;
	list_init(&c->wait.link);
	list_init(&c->call.link);
	exchange_on_gone(x, on_gone, c);
	return c;
}

/* True: another change is under way, and `again` follows. */
static bool must_wait(struct exchange *x, struct sandbox *sb, void (*again)(struct exchange *x))
{
	struct change *c;

	if (!sb->is_changing)
		return false;
	c = change_new(x, &sb->id, again);
	if (c)
		sandbox_change(sb, &c->wait);
	return true;
}

/* --- what only the keeper can see --- */

static void answered(struct change *c, const struct err *err)
{
	struct exchange *x = c->x;

	if (x)
		exchange_on_gone(x, NULL, NULL);
	if (x && err)
		exchange_reply_err(x, err);
	else if (x)
		c->again(x);
	free(c);
}

static void on_checked(struct keeper_call *call, struct keeper_answer *answer)
{
	answered(container_of(call, struct change, call), answer->result < 0 ? &answer->err : NULL);
}

static void ask_check(struct change *c)
{
	c->must_check = false;
	c->check.id = str_of(c->id.text);
	c->call.done = on_checked;
	keeper_ask_check(registry_keeper(c->registry), &c->call, &c->check);
}

static void on_image(struct keeper_call *call, struct keeper_answer *answer)
{
	struct change *c = container_of(call, struct change, call);

	/* One that is older than we are does not know; a start will say it. */
	if (answer->result < 0 && answer->err.code != ERR_UNSUPPORTED)
		answered(c, &answer->err);
	else if (c->x && c->must_check)
		ask_check(c);
	else
		answered(c, NULL);
}

/* "host" is always there. */
static bool must_ask_image(const struct sandbox *sb, const struct settings *settings)
{
	return strcmp(settings->image, sb ? sb->settings.image : SETTINGS_IMAGE_HOST) != 0 &&
	       strcmp(settings->image, SETTINGS_IMAGE_HOST) != 0;
}

/* What depends on the disk that it has, or on the host. */
static bool must_ask_check(const struct sandbox *sb, const struct settings *settings)
{
	const struct settings none = {0}, *old = sb && !sb->is_unreadable ? &sb->settings : &none;

	return settings->is_ephemeral != old->is_ephemeral ||
	       settings->limits.disk_bytes != old->limits.disk_bytes ||
	       settings->limits.inodes != old->limits.inodes ||
	       settings->limits.files != old->limits.files;
}

/*
 * True: whether there is its image, and whether it could be started with what it is to have, is
 * being asked, and `again` follows if so. What stays is no reason to refuse another change.
 */
static bool must_ask(struct exchange *x, const struct sandbox_id *id,
		     const struct settings *settings, void (*again)(struct exchange *x))
{
	struct berthd *b = server_arg(exchange_server(x));
	struct keeper *keeper = registry_keeper(b->registry);
	const struct sandbox *sb = registry_find(b->registry, id);
	bool is_other_image = must_ask_image(sb, settings);
	bool must_check =
		keeper_abilities(keeper) & KEEPER_KNOWS_CHECK && must_ask_check(sb, settings);
	struct change *c;

	if (!is_other_image && !must_check)
		return false;
	c = change_new(x, id, again);
	if (!c)
		return true;
	c->must_check = must_check;
	c->check = (struct keeper_check){
		.flags = settings->is_ephemeral ? KEEPER_START_EPHEMERAL : 0,
		.files = settings->limits.files,
		.disk_bytes = settings->limits.disk_bytes,
		.inodes = settings->limits.inodes,
	};
	c->call.done = on_image;
	if (is_other_image)
		keeper_ask(keeper, &c->call, KEEPER_IMAGE,
			   &(struct keeper_ref){.id = str_of(settings->image)});
	else
		ask_check(c);
	return true;
}

/* Takes the request's settings. */
static void change(struct exchange *x, const struct sandbox_id *id,
		   struct settings_request *request, enum answer answer)
{
	struct change *c = change_new(x, id, NULL);
	struct sandbox *sb = c ? registry_find(c->registry, id) : NULL;
	struct err err;
	int r;

	if (c)
		c->answer = answer;
	if (!c || (!sb && handle_make(c->registry, id, &sb, &err) < 0) ||
	    handle_check_free(sb, &err) < 0) {
		settings_close(&request->settings);
		if (c)
			finish(c, NULL, &err);
		return;
	}
	c->start = request->start;
	if (!sb->is_stored && request->start && sb->state == SANDBOX_COLD) {
		/* The start stores them, with the generation. */
		settings_close(&sb->settings);
		sb->settings = request->settings;
		start(c, sb);
		return;
	}
	r = sandbox_save_settings(sb, &request->settings, on_stored, c);
	if (r == 0)
		return;
	store_refuse(&err, r);
	finish(c, sb, &err);
	sandbox_discard(sb);
}

/* --- making --- */

int handle_make_id(struct sandbox_id *ret)
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

/* The key has made that sandbox already, or is about to. */
static void answer_again(struct exchange *x, struct sandbox *sb, bool wants_start)
{
	struct change *c;

	if (must_wait(x, sb, handle_sandbox_create))
		return;
	c = change_new(x, &sb->id, NULL);
	if (!c)
		return;
	c->answer = ANSWER_ID;
	if (wants_start || !sb->is_stored)
		start(c, sb);
	else
		finish(c, sb, NULL);
}

static void make(struct exchange *x, struct settings_request *request, struct str key)
{
	struct berthd *b = server_arg(exchange_server(x));
	struct sandbox_id id;

	if (request->id.len ? sandbox_id_parse(request->id, &id) : handle_make_id(&id)) {
		settings_close(&request->settings);
		exchange_reply_error(
			x, -EINVAL, ERR_INVALID_REQUEST,
			"id must have 1 to 63 letters, digits and dashes, and begin and end with a "
			"letter or digit");
	} else if (registry_find(b->registry, &id)) {
		settings_close(&request->settings);
		exchange_reply_error(
			x, -EEXIST, ERR_CONFLICT,
			"a sandbox of that ID is there already; PUT changes its settings");
	} else {
		if (key.len)
			idempotency_add(registry_keys(b->registry), NULL, key, exchange_buffered(x),
					&id);
		change(x, &id, request, ANSWER_ID);
	}
}

/* Over what `request` holds; `sb` may be NULL. On failure that is closed. */
static int read_settings(struct exchange *x, const struct sandbox *sb,
			 struct settings_request *request, struct err *err)
{
	const struct berthd *b = server_arg(exchange_server(x));
	struct str before = request->settings.mounts;
	const struct settings_limits limits = request->settings.limits;
	const enum trust trust = request->settings.trust;
	/* Whoever sends all settings back sends them, too; what is read frees the list before. */
	char *copy = arena_strndup(exchange_arena(x), before.len ? before.at : "", before.len);
	int r = copy ? settings_read(exchange_arena(x), exchange_buffered(x), request, err)
		     : err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");

	/* Mounts that stay are no reason to refuse another change. */
	if (r == 0 && !str_eq(request->settings.mounts, (struct str){copy, before.len}))
		r = config_check_binds(&b->config, request->settings.mounts, err);
	/* Nor are limits that the preset would not allow today. */
	if (r == 0 && (request->settings.trust != trust ||
		       !settings_limits_equal(&request->settings.limits, &limits)))
		r = trust_settle(b->registry, sb, &request->settings, err);
	if (r < 0)
		settings_close(&request->settings);
	return r;
}

/* What cannot be its ID, or is one already, is for make() to say. */
static bool must_ask_new(struct exchange *x, const struct settings_request *request,
			 void (*again)(struct exchange *x))
{
	struct berthd *b = server_arg(exchange_server(x));
	struct sandbox_id id;
	int r = request->id.len ? sandbox_id_parse(request->id, &id) : handle_make_id(&id);

	return r == 0 && !registry_find(b->registry, &id) &&
	       must_ask(x, &id, &request->settings, again);
}

static void create_known(struct exchange *x);

static void create(struct exchange *x, bool is_known)
{
	struct berthd *b = server_arg(exchange_server(x));
	struct settings_request request = {.is_strict = false};
	struct sandbox *sb = NULL;
	struct sandbox_id id;
	struct str key;
	struct err err;
	int r = handle_key(x, &key, &err);

	if (r < 0) {
		exchange_reply_err(x, &err);
		return;
	}
	settings_init(&request.settings);
	if (read_settings(x, NULL, &request, &err) < 0) {
		exchange_reply_err(x, &err);
		return;
	}
	if (key.len)
		r = idempotency_find(registry_keys(b->registry), NULL, key, exchange_buffered(x),
				     &id);
	if (r != 0)
		sb = registry_find(b->registry, &id);
	if (sb && r < 0) {
		settings_close(&request.settings);
		idempotency_refuse(&err);
		exchange_reply_err(x, &err);
	} else if (sb) {
		settings_close(&request.settings);
		answer_again(x, sb, request.start);
	} else if (!is_known && must_ask_new(x, &request, create_known)) {
		settings_close(&request.settings);
	} else {
		make(x, &request, key);
	}
}

static void create_known(struct exchange *x)
{
	create(x, true);
}

void handle_sandbox_create(struct exchange *x)
{
	create(x, false);
}

/* --- changing --- */

static int copy_settings(struct settings *ret, const struct sandbox *sb)
{
	if (sb && !sb->is_unreadable)
		return settings_copy(ret, &sb->settings);
	settings_init(ret);
	return 0;
}

/* 1: the settings so far are the request's; 0: another change is under way, and `again` follows. */
static int begin_change(struct exchange *x, void (*again)(struct exchange *x),
			struct sandbox_id *ret_id, struct settings *ret, struct err *err)
{
	struct berthd *b = server_arg(exchange_server(x));
	struct sandbox *sb = NULL;
	int r = handle_path_id(x, ret_id, err);

	if (r == 0)
		sb = registry_find(b->registry, ret_id);
	if (sb)
		r = handle_check_generation(x, sb, err);
	if (sb && r == 0 && sandbox_is_leaving(sb))
		r = err_set(err, -EBUSY, ERR_CONFLICT,
			    "the sandbox is being deleted: try again when it is gone");
	if (sb && r == 0 && must_wait(x, sb, again))
		return 0;
	if (r == 0 && copy_settings(ret, sb) < 0)
		r = err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	return r < 0 ? r : 1;
}

/* For one that runs; a start that cannot be says so itself. On failure `settings` are closed. */
static int check_running(struct exchange *x, const struct sandbox_id *id, struct settings *settings,
			 struct err *err)
{
	struct berthd *b = server_arg(exchange_server(x));
	const struct sandbox *sb = registry_find(b->registry, id);
	bool is_asked = sb && sb->state != SANDBOX_COLD &&
			!settings_limits_equal(&sb->settings.limits, &settings->limits);
	int r = is_asked ? allowance_check(b->registry, &settings->limits, err) : 0;

	if (r < 0)
		settings_close(settings);
	return r;
}

static void put_known(struct exchange *x);

static void put(struct exchange *x, bool is_known)
{
	struct berthd *b = server_arg(exchange_server(x));
	struct settings_request request = {.is_strict = true};
	struct sandbox_id id;
	struct err err;
	int r = begin_change(x, is_known ? put_known : handle_sandbox_put, &id, &request.settings,
			     &err);

	if (r == 0)
		return;
	if (r > 0)
		r = read_settings(x, registry_find(b->registry, &id), &request, &err);
	if (r == 0)
		r = check_running(x, &id, &request.settings, &err);
	if (r < 0)
		exchange_reply_err(x, &err);
	else if (!is_known && must_ask(x, &id, &request.settings, put_known))
		settings_close(&request.settings);
	else
		change(x, &id, &request, ANSWER_SANDBOX);
}

static void put_known(struct exchange *x)
{
	put(x, true);
}

void handle_sandbox_put(struct exchange *x)
{
	put(x, false);
}

void handle_environment(struct exchange *x)
{
	struct settings_request request = {.is_strict = true};
	struct sandbox_id id;
	struct err err;
	int r = begin_change(x, handle_environment, &id, &request.settings, &err);

	if (r == 0)
		return;
	if (r > 0) {
		r = settings_change_env(exchange_arena(x), exchange_buffered(x), &request.settings,
					&err);
		if (r < 0)
			settings_close(&request.settings);
	}
	if (r < 0)
		exchange_reply_err(x, &err);
	else
		change(x, &id, &request, ANSWER_NOTHING);
}
