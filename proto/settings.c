#include "proto/settings.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "proto/agent.h"
#include "proto/frame.h"
#include "proto/keeper.h"
#include "proto/sandbox_id.h"
#include "proto/settings_limits.h"
#include "proto/settings_mounts.h"
#include "proto/settings_times.h"

#define ENV_CHANGES_MAX 1000

/* A body as it is read; what it does not name keeps the value that was there before. */
struct body {
	struct str id, image, trust;
	bool id_given, image_given, trust_given;
	bool start, is_read_only, is_ephemeral;
	struct settings_limits_body limits;
	struct json_map env, labels;
	struct json_objects mounts; /* of struct settings_mount */
	bool env_given, labels_given, mounts_given;
	struct settings_times_words times;
	bool keep_alive, hold_open_sockets;

	/* What is not there yet. */
	struct {
		struct str mode;
		struct json_strings allow, deny;
		uint64_t max_requests, max_bytes;
		bool requests_given, bytes_given, credentials_given;
	} network;

	/* The bridge's. */
	bool ports_given, timeout_given, create_timeout_given;
};

/* clang-format off */
#define AT(member)      offsetof(struct body, member)
#define NETWORK(member) (AT(network.member) - AT(network))

static const struct json_field network_fields[] = {
	{ "mode",         JSON_STRING,  NETWORK(mode) },
	{ "allow",        JSON_STRINGS, NETWORK(allow) },
	{ "deny",         JSON_STRINGS, NETWORK(deny) },
	{ "max_requests", JSON_UINT,    NETWORK(max_requests), false, NETWORK(requests_given) },
	{ "max_bytes",    JSON_SIZE,    NETWORK(max_bytes),    false, NETWORK(bytes_given) },
	{ "credentials",  JSON_IGNORED, 0,                     false, NETWORK(credentials_given) },
	{ NULL },
};

static const struct json_field body_fields[] = {
	{ "id",                JSON_STRING,  AT(id),    false, AT(id_given) },
	{ "image",             JSON_STRING,  AT(image), false, AT(image_given) },
	{ "trust",             JSON_STRING,  AT(trust), false, AT(trust_given) },
	{ "start",             JSON_BOOL,    AT(start) },
	{ "read_only",         JSON_BOOL,    AT(is_read_only) },
	{ "ephemeral",         JSON_BOOL,    AT(is_ephemeral) },
	{ "mounts",            JSON_OBJECTS, AT(mounts), false, AT(mounts_given), settings_mount_fields, sizeof(struct settings_mount) },
	{ "env",               JSON_MAP,     AT(env),    false, AT(env_given) },
	{ "labels",            JSON_MAP,     AT(labels), false, AT(labels_given) },
	{ "limits",            JSON_OBJECT,  AT(limits),  .fields = settings_limits_fields },
	{ "network",           JSON_OBJECT,  AT(network), .fields = network_fields },
	{ "sleep_after",       JSON_STRING,  AT(times.sleep_after) },
	{ "max_awake",         JSON_STRING,  AT(times.max_awake) },
	{ "stop_after",        JSON_STRING,  AT(times.stop_after) },
	{ "delete_after",      JSON_STRING,  AT(times.delete_after) },
	{ "stop_grace",        JSON_STRING,  AT(times.stop_grace) },
	{ "sleep_mode",        JSON_STRING,  AT(times.sleep_mode) },
	{ "keep_alive",        JSON_BOOL,    AT(keep_alive) },
	{ "hold_open_sockets", JSON_BOOL,    AT(hold_open_sockets) },
	{ "exposedPorts",      JSON_IGNORED, 0, false, AT(ports_given) },
	{ "timeoutMs",         JSON_IGNORED, 0, false, AT(timeout_given) },
	{ "createTimeoutMs",   JSON_IGNORED, 0, false, AT(create_timeout_given) },
	{ NULL },
};
/* clang-format on */

void settings_init(struct settings *settings)
{
	*settings = (struct settings){.image = SETTINGS_IMAGE_HOST, .sleep_mode = SLEEP_AUTO};
	settings_times_init(&settings->times);
}

void settings_close(struct settings *settings)
{
	free((char *)settings->env.at);
	free((char *)settings->labels.at);
	free((char *)settings->mounts.at);
	settings_init(settings);
}

static int copy_list(struct str *ret, struct str list)
{
	char *bytes = NULL;

	if (list.len) {
		bytes = malloc(list.len);
		if (!bytes)
			return -ENOMEM;
		memcpy(bytes, list.at, list.len);
	}
	*ret = (struct str){bytes, list.len};
	return 0;
}

int settings_copy(struct settings *ret, const struct settings *settings)
{
	struct settings copy = *settings;

	copy.env = copy.labels = copy.mounts = (struct str){NULL, 0};
	if (copy_list(&copy.env, settings->env) < 0 ||
	    copy_list(&copy.labels, settings->labels) < 0 ||
	    copy_list(&copy.mounts, settings->mounts) < 0) {
		settings_close(&copy);
		return -ENOMEM;
	}
	*ret = copy;
	return 0;
}

static int refuse(struct err *err, const char *sentence)
{
	return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "%s", sentence);
}

static int check_unsupported(const struct body *b, struct err *err)
{
	bool is_networked = b->network.mode.len && !str_eq(b->network.mode, STR("none"));
	const struct {
		bool is_asked_for;
		const char *field;
	} fields[] = {
		{is_networked, "network.mode"},
		{b->network.allow.len, "network.allow"},
		{b->network.deny.len, "network.deny"},
		{b->network.requests_given, "network.max_requests"},
		{b->network.bytes_given, "network.max_bytes"},
		{b->network.credentials_given, "network.credentials"},
	};

	/* A word that will never mean anything is another mistake than one that does not yet. */
	if (is_networked && !str_eq(b->network.mode, STR("allow")) &&
	    !str_eq(b->network.mode, STR("full")))
		return refuse(err, "network.mode must be \"none\", \"allow\" or \"full\"");
	for (size_t i = 0; i < array_len(fields); i++) {
		if (fields[i].is_asked_for)
			return err_set(err, -EOPNOTSUPP, ERR_UNSUPPORTED,
				       "%s is not supported yet: leave it out", fields[i].field);
	}
	return 0;
}

/* On their own route the bridge's fields are taken and dropped. */
static int check_bridge(const struct body *b, struct err *err)
{
	if (b->ports_given)
		return refuse(err, "unknown field \"exposedPorts\"");
	if (b->timeout_given)
		return refuse(err, "unknown field \"timeoutMs\"");
	if (b->create_timeout_given)
		return refuse(err, "unknown field \"createTimeoutMs\"");
	return 0;
}

bool settings_is_image(struct str name)
{
	if (!name.len || name.len >= sizeof(((struct settings *)NULL)->image))
		return false;
	for (size_t i = 0; i < name.len; i++) {
		char c = name.at[i];
		bool is_word =
			(c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

		/* It names a directory: no dot in front. */
		if (!is_word && (i == 0 || (c != '.' && c != '_' && c != '-')))
			return false;
	}
	return true;
}

static int check_names(const struct body *b, struct err *err)
{
	struct sandbox_id id;
	enum trust trust;

	if (b->id_given && sandbox_id_parse(b->id, &id) < 0)
		return refuse(err, "id must be 1 to 63 letters, digits and hyphens, with no hyphen "
				   "at its ends");
	if (b->image_given && !settings_is_image(b->image))
		return refuse(err, "image must be " SETTINGS_IMAGE_RULE);
	if (b->trust_given && trust_parse(b->trust, &trust) < 0)
		return refuse(err, "trust must be " TRUST_NAMES);
	return 0;
}

/* What a map of this field may be, in words and figures. */
struct list_rule {
	const char *field;
	size_t max;
	size_t each_max; /* of "NAME=value" with its NUL */
};

static int check_pairs(const struct json_map *map, const struct list_rule *rule, size_t *ret_size,
		       struct err *err)
{
	size_t size = 0;

	for (size_t i = 0; i < map->len; i++) {
		struct str key = map->items[i].key;

		if (!key.len || memchr(key.at, '=', key.len))
			return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
				       "a name in %s must not be empty or hold \"=\"", rule->field);
		if (key.len + map->items[i].value.len + 2 > rule->each_max)
			return err_set(err, -E2BIG, ERR_INVALID_REQUEST,
				       "%s: \"%.*s\" is longer than the %zu bytes that name and "
				       "value may have together",
				       rule->field, STR_ARGS(key), rule->each_max - 2);
		size += key.len + map->items[i].value.len + 2;
	}
	if (size > rule->max)
		return err_set(err, -E2BIG, ERR_INVALID_REQUEST,
			       "%s must not be larger than %zu bytes in all", rule->field,
			       rule->max);
	*ret_size = size;
	return 0;
}

/* A heap copy as a frame list of "NAME=value". */
static int make_list(const struct json_map *map, const struct list_rule *rule, struct str *ret,
		     struct err *err)
{
	size_t size = 0;
	char *bytes, *at;
	int r = check_pairs(map, rule, &size, err);

	if (r < 0)
		return r;
	*ret = (struct str){NULL, 0};
	if (!size)
		return 0;
	at = bytes = malloc(size);
	if (!bytes)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	for (size_t i = 0; i < map->len; i++) {
		const struct json_pair *pair = &map->items[i];

		at = mempcpy(at, pair->key.at, pair->key.len);
		*at++ = '=';
		/* JSON's strings are terminated. */
		at = mempcpy(at, pair->value.at, pair->value.len + 1);
	}
	*ret = (struct str){bytes, size};
	return 0;
}

static void replace(struct str *list, struct str with)
{
	free((char *)list->at);
	*list = with;
}

static const struct list_rule env_rule = {"env", SETTINGS_ENV_MAX, AGENT_STRING_MAX};

/* Nothing of `settings` changes before nothing can fail any more. */
static int take_body(const struct body *b, struct settings *settings, struct err *err)
{
	static const struct list_rule labels_rule = {"labels", SETTINGS_LABELS_MAX, SIZE_MAX};
	enum sleep_mode sleep_mode = settings->sleep_mode;
	struct settings_times times = settings->times;
	struct str env = {NULL, 0}, labels = {NULL, 0}, mounts = {NULL, 0};
	int r = settings_times_read(&b->times, &times, &sleep_mode, err);

	if (r == 0 && b->env_given)
		r = make_list(&b->env, &env_rule, &env, err);
	if (r == 0 && b->labels_given)
		r = make_list(&b->labels, &labels_rule, &labels, err);
	if (r == 0 && b->mounts_given)
		r = settings_mounts_take(&b->mounts, &mounts, err);
	if (r < 0) {
		free((char *)env.at);
		free((char *)labels.at);
		return r;
	}
	settings->limits = settings_limits_take(&b->limits);
	settings->times = times;
	settings->sleep_mode = sleep_mode;
	settings->keep_alive = b->keep_alive;
	settings->hold_open_sockets = b->hold_open_sockets;
	settings->is_read_only = b->is_read_only;
	settings->is_ephemeral = b->is_ephemeral;
	if (b->image_given)
		memcpy(settings->image, b->image.at, b->image.len + 1);
	if (b->trust_given)
		trust_parse(b->trust, &settings->trust);
	if (b->env_given)
		replace(&settings->env, env);
	if (b->labels_given)
		replace(&settings->labels, labels);
	if (b->mounts_given)
		replace(&settings->mounts, mounts);
	return 0;
}

static int read_body(struct arena *arena, struct str text, const struct settings *before,
		     struct body *ret, struct err *err)
{
	int r;

	*ret = (struct body){
		.is_read_only = before->is_read_only,
		.is_ephemeral = before->is_ephemeral,
		.keep_alive = before->keep_alive,
		.hold_open_sockets = before->hold_open_sockets,
		.limits = settings_limits_give(&before->limits),
	};
	if (!text.len)
		return 0;
	r = json_parse(arena, text, body_fields, ret, err);
	if (r == 0)
		r = check_names(ret, err);
	return r < 0 ? r : check_unsupported(ret, err);
}

int settings_read(struct arena *arena, struct str body, struct settings_request *ret,
		  struct err *err)
{
	struct body b;
	int r = read_body(arena, body, &ret->settings, &b, err);

	if (r == 0 && ret->is_strict)
		r = check_bridge(&b, err);
	if (r == 0)
		r = settings_limits_check(&b.limits, err);
	if (r == 0)
		r = take_body(&b, &ret->settings, err);
	if (r < 0)
		return r;
	ret->id = b.id_given ? b.id : STR("");
	ret->start = b.start;
	return 0;
}

/* One that is not removed, and not set anew. */
static bool is_kept(const struct json_map *changes, struct str name)
{
	for (size_t i = 0; i < changes->len; i++) {
		if (str_eq(changes->items[i].key, name))
			return false;
	}
	return true;
}

static int merge_env(struct arena *arena, const struct json_map *changes, struct str list,
		     struct json_map *ret)
{
	size_t count = (size_t)frame_list_count(list) + changes->len;
	const char *item;

	*ret = (struct json_map){arena_alloc(arena, (count + 1) * sizeof(*ret->items)), 0};
	if (!ret->items)
		return -ENOMEM;
	while ((item = frame_list_next(&list))) {
		struct str value = str_of(item), name = str_cut(&value, '=');

		if (is_kept(changes, name))
			ret->items[ret->len++] = (struct json_pair){name, value};
	}
	for (size_t i = 0; i < changes->len; i++) {
		if (changes->items[i].value.at)
			ret->items[ret->len++] = changes->items[i];
	}
	return 0;
}

int settings_change_env(struct arena *arena, struct str body, struct settings *settings,
			struct err *err)
{
	static const struct json_field fields[] = {
		{"env", JSON_CHANGES, 0, true, 0, NULL, 0},
		{NULL, JSON_BOOL, 0, false, 0, NULL, 0},
	};
	struct json_map changes = {NULL, 0}, merged;
	/* Named, so that errors can say which of them they are about. */
	char *text = arena_printf(arena, "{\"env\":%.*s\n}", STR_ARGS(body));
	struct str env;
	int r;

	if (body.len && memchr(body.at, '\0', body.len))
		return refuse(err, "the body holds a zero byte");
	if (!text)
		return err_set(err, -ENOMEM, ERR_PAYLOAD_TOO_LARGE, "the body is too large");
	r = json_parse(arena, str_of(text), fields, &changes, err);
	/* Each is compared with each. */
	if (r == 0 && changes.len > ENV_CHANGES_MAX)
		r = refuse(err, "env: more than 1000 variables are changed at once");
	if (r == 0 && merge_env(arena, &changes, settings->env, &merged) < 0)
		r = err_set(err, -ENOMEM, ERR_PAYLOAD_TOO_LARGE, "the body is too large");
	if (r == 0)
		r = make_list(&merged, &env_rule, &env, err);
	if (r == 0)
		replace(&settings->env, env);
	return r;
}

static void write_list(struct json_writer *w, const char *key, struct str list)
{
	const char *item;

	json_key(w, key);
	json_object(w);
	while ((item = frame_list_next(&list)) != NULL) {
		struct str value = str_of(item), name = str_cut(&value, '=');

		json_key_str(w, name);
		json_str(w, value);
	}
	json_object_end(w);
}

bool settings_start_alike(const struct settings *a, const struct settings *b)
{
	const struct settings_limits *x = &a->limits, *y = &b->limits;

	return strcmp(a->image, b->image) == 0 && a->trust == b->trust &&
	       a->is_read_only == b->is_read_only && a->is_ephemeral == b->is_ephemeral &&
	       str_eq(a->mounts, b->mounts) && x->files == y->files &&
	       x->file_size == y->file_size && x->inodes == y->inodes;
}

/* Not by memcmp: a struct has holes. */
bool settings_equal(const struct settings *a, const struct settings *b)
{
	const struct settings_times *t = &a->times, *u = &b->times;

	return settings_start_alike(a, b) && str_eq(a->env, b->env) &&
	       str_eq(a->labels, b->labels) && a->keep_alive == b->keep_alive &&
	       a->hold_open_sockets == b->hold_open_sockets && a->sleep_mode == b->sleep_mode &&
	       t->sleep_after == u->sleep_after && t->max_awake == u->max_awake &&
	       t->stop_after == u->stop_after && t->delete_after == u->delete_after &&
	       t->stop_grace == u->stop_grace && settings_limits_equal(&a->limits, &b->limits);
}

void settings_write(const struct settings *settings, struct json_writer *w)
{
	json_key(w, "image");
	json_text(w, settings->image);
	json_key(w, "trust");
	if (settings->trust)
		json_text(w, trust_name(settings->trust));
	else
		json_null(w);
	json_key(w, "read_only");
	json_bool(w, settings->is_read_only);
	json_key(w, "ephemeral");
	json_bool(w, settings->is_ephemeral);
	settings_mounts_write(settings->mounts, w);
	settings_times_write(settings, w);
	json_key(w, "hold_open_sockets");
	json_bool(w, settings->hold_open_sockets);
	settings_write_limits(settings, w);
	json_key(w, "network");
	json_object(w);
	json_key(w, "mode");
	json_text(w, "none");
	json_object_end(w);
	write_list(w, "labels", settings->labels);
}

int settings_store(const struct settings *settings, struct buf *out)
{
	cleanup(json_writer_close) struct json_writer w;

	json_writer_init(&w, false);
	json_object(&w);
	settings_write(settings, &w);
	write_list(&w, "env", settings->env);
	json_object_end(&w);
	return json_writer_end(&w, out);
}

/* Limits are not checked again: those that were stored when less was asked of them still count. */
int settings_restore(struct arena *arena, struct str text, struct settings *ret, struct err *err)
{
	struct settings settings;
	struct body b;
	int r;

	settings_init(&settings);
	r = read_body(arena, text, &settings, &b, err);
	if (r == 0)
		r = take_body(&b, &settings, err);
	if (r < 0)
		return err_wrap(err, r, "the stored settings cannot be read");
	*ret = settings;
	return 0;
}
