#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "cmd/berth/code.h"
#include "cmd/berth/command.h"
#include "cmd/berth/sandbox.h"
#include "cmd/berth/screen.h"
#include "cmd/berth/session.h"
#include "proto/kernel.h"

#define BODY_MAX (4 * 1024 * 1024)

int code_env_check(const struct code_env *env)
{
	for (size_t i = 0; i < env->call->given_count; i++) {
		struct str name, value;

		if (env->call->given[i].flag == env->flag &&
		    command_env(env->call->given[i].value, &name, &value) != EXIT_OK)
			return EXIT_NOT_RUN;
	}
	return EXIT_OK;
}

/* Is there a later one of that name? */
static bool is_overruled(const struct code_env *env, size_t at, struct str name)
{
	for (size_t i = at + 1; i < env->call->given_count; i++) {
		struct str other = str_of(env->call->given[i].value);

		if (env->call->given[i].flag == env->flag && str_eq(str_cut(&other, '='), name))
			return true;
	}
	return false;
}

void code_env_write(struct json_writer *w, const struct code_env *env)
{
	bool is_begun = false;

	for (size_t i = 0; i < env->call->given_count; i++) {
		struct str name, value;

		if (env->call->given[i].flag != env->flag ||
		    command_env(env->call->given[i].value, &name, &value) != EXIT_OK ||
		    is_overruled(env, i, name))
			continue;
		if (!is_begun) {
			json_key(w, "env");
			json_object(w);
		}
		is_begun = true;
		json_key_str(w, name);
		json_str(w, value);
	}
	if (is_begun)
		json_object_end(w);
}

int code_context_write(const struct code_context *context, struct buf *out)
{
	const struct {
		const char *key, *value;
	} texts[] = {
		{"id", context->id},
		{"language", context->language},
		{"cwd", context->cwd},
		{"user", context->user},
	};
	cleanup(json_writer_close) struct json_writer w;

	json_writer_init(&w, false);
	json_object(&w);
	for (size_t i = 0; i < array_len(texts); i++) {
		if (!texts[i].value)
			continue;
		json_key(&w, texts[i].key);
		json_text(&w, texts[i].value);
	}
	if (context->env)
		code_env_write(&w, context->env);
	json_object_end(&w);
	return json_writer_end(&w, out) < 0 ? -EINVAL : 0;
}

int code_context_id(const struct answer *answer, char ret[CODE_CONTEXT_MAX], struct err *err)
{
	static const struct json_field fields[] = {
		{"id", JSON_STRING, 0, true, 0, NULL, 0},
		{"*", JSON_IGNORED, 0, false, 0, NULL, 0},
		{NULL, JSON_BOOL, 0, false, 0, NULL, 0},
	};
	struct str id = {NULL, 0};
	struct arena arena;
	int r;

	arena_init(&arena, SANDBOX_ARENA_MAX);
	r = json_parse(&arena, (struct str){buf_at(&answer->body), buf_len(&answer->body)}, fields,
		       &id, err);
	if (r == 0 && (id.len >= CODE_CONTEXT_MAX || session_check(id.at, err) < 0))
		r = err_set(err, -EPROTO, ERR_INTERNAL, "the new context has no proper ID");
	if (r == 0)
		snprintf(ret, CODE_CONTEXT_MAX, "%s", id.at);
	arena_close(&arena);
	return r;
}

int code_context_new(const struct globals *globals, const char *id,
		     const struct code_context *context, char ret[CODE_CONTEXT_MAX])
{
	char path[SANDBOX_PATH_MAX];
	struct client_request request = {
		.method = "POST", .path = path, .timeout_ms = CLIENT_WAIT_MS};
	cleanup(answer_close) struct answer answer;
	cleanup(buf_close) struct buf body;
	struct err err;
	int r = sandbox_path(id, "/context", path, &err);

	answer_init(&answer);
	buf_init(&body, BODY_MAX);
	if (r == 0 && code_context_write(context, &body) < 0)
		r = err_set(&err, -EINVAL, ERR_INVALID_REQUEST,
			    "variables must be UTF-8, and not too long");
	request.body = (struct str){buf_at(&body), buf_len(&body)};
	if (r == 0)
		r = client_send(globals, &request, &answer, &err);
	if (r == 0)
		r = code_context_id(&answer, ret, &err);
	if (r == 0)
		return EXIT_OK;
	client_failed(globals, &answer, r, &err);
	return EXIT_NOT_RUN;
}

/* --- one that is there --- */

struct known {
	struct str id, language, cwd, user;
	bool is_default;
};

/* clang-format off */
static const struct json_field known_fields[] = {
	{ "id",       JSON_STRING, offsetof(struct known, id), true },
	{ "language", JSON_STRING, offsetof(struct known, language), true },
	{ "cwd",      JSON_STRING, offsetof(struct known, cwd), true },
	{ "user",     JSON_STRING, offsetof(struct known, user) },
	{ "default",  JSON_BOOL,   offsetof(struct known, is_default) },
	{ "*",        JSON_IGNORED },
	{ NULL },
};

static const struct json_field list_fields[] = {
	{ "contexts", JSON_OBJECTS, 0, true, .fields = known_fields, .size = sizeof(struct known) },
	{ "*",        JSON_IGNORED },
	{ NULL },
};
/* clang-format on */

static int pick(const struct json_objects *list, const char *wanted, struct code_context *ret,
		struct err *err)
{
	const struct known *all = list->items;

	for (size_t i = 0; i < list->len; i++) {
		int language = kernel_language_find(all[i].language);

		if (!str_eq(all[i].id, str_of(wanted)) || language < 0)
			continue;
		*ret = (struct code_context){
			.id = all[i].id.at,
			.language = kernel_language_name((enum kernel_language)language),
			.cwd = all[i].cwd.at,
			.user = all[i].user.at,
			.is_default = all[i].is_default,
		};
		return 0;
	}
	return err_set(err, -EDESTADDRREQ, ERR_NOT_FOUND,
		       "there is no context `%s`: `berth context ls` lists them, and `berth "
		       "context create` makes one",
		       screen_text(str_of(wanted)).text);
}

struct listing {
	struct arena *arena;
	struct answer answer;
	struct json_objects contexts; /* struct known */
};

static int list(const struct globals *globals, const char *id, struct listing *ret, struct err *err)
{
	char path[SANDBOX_PATH_MAX];
	int r = sandbox_path(id, "/context", path, err);

	if (r == 0)
		r = client_get(globals, path, &ret->answer, err);
	if (r == 0)
		r = json_parse(ret->arena,
			       (struct str){buf_at(&ret->answer.body), buf_len(&ret->answer.body)},
			       list_fields, &ret->contexts, err);
	return r;
}

int code_context_find(const struct globals *globals, const char *id, const char *wanted,
		      struct arena *arena, struct code_context *ret)
{
	struct listing listing = {.arena = arena};
	struct err err;
	int r;

	answer_init(&listing.answer);
	r = list(globals, id, &listing, &err);
	if (r == 0)
		r = pick(&listing.contexts, wanted, ret, &err);
	if (r < 0)
		client_failed(globals, &listing.answer, r, &err);
	answer_close(&listing.answer);
	return r < 0 ? EXIT_NOT_RUN : EXIT_OK;
}

int code_context_language(const struct globals *globals, const char *id, const char *wanted,
			  const char **ret, struct err *err)
{
	struct arena arena;
	struct listing listing = {.arena = &arena};
	struct code_context found;
	int r;

	arena_init(&arena, SANDBOX_ARENA_MAX);
	answer_init(&listing.answer);
	r = list(globals, id, &listing, err);
	if (r == 0)
		r = pick(&listing.contexts, wanted, &found, err);
	if (r == 0)
		*ret = found.language;
	answer_close(&listing.answer);
	arena_close(&arena);
	return r;
}

int code_context_remove(const struct globals *globals, const char *id, const char *context)
{
	char path[SANDBOX_PATH_MAX], suffix[CODE_CONTEXT_MAX + 16];
	struct client_request request = {
		.method = "DELETE", .path = path, .timeout_ms = CLIENT_WAIT_MS};
	struct answer answer;
	struct err err;

	int r;

	answer_init(&answer);
	snprintf(suffix, sizeof(suffix), "/context/%s", context);
	r = sandbox_path(id, suffix, path, &err);
	if (r == 0)
		r = client_send(globals, &request, &answer, &err);
	if (r < 0)
		screen_error("the context %s could not be removed: %s", context, err.sentence);
	answer_close(&answer);
	return r < 0 ? EXIT_NOT_RUN : EXIT_OK;
}
