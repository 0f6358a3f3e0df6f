/* Routes of /v1/sandbox: make, change, show, list, start, stop, remove. */
#include "daemon/handle_sandbox.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "daemon/berthd.h"
#include "daemon/registry.h"
#include "daemon/routes.h"
#include "proto/time_text.h"
#include "proto/uri.h"

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

int handle_check_generation(struct exchange *x, const struct sandbox *sb, struct err *err)
{
	const struct str *given = http_header_find(exchange_head(x), STR("if-generation"));
	char now[24];

	snprintf(now, sizeof(now), "%" PRIu64, sb->generation);
	if (!given || str_eq(*given, str_of(now)))
		return 0;
	return err_set(err, -ESTALE, ERR_SANDBOX_RESTARTED,
		       "the sandbox has been started anew: it is now generation %s", now);
}

static void on_made(void *arg, int result, const struct err *err)
{
	/* A fact that could not be stored shows when the first start stores it again. */
}

int handle_find(struct exchange *x, bool is_made, struct sandbox **ret, struct err *err)
{
	struct registry *registry = registry_of(x);
	struct sandbox_id id;
	int r = handle_path_id(x, &id, err);

	if (r < 0)
		return r;
	*ret = registry_find(registry, &id);
	if (!*ret && is_made) {
		*ret = registry_add(registry, &id);
		if (!*ret || sandbox_save(*ret, on_made, NULL) < 0)
			return err_set(err, -ENOMEM, ERR_UNAVAILABLE,
				       "the sandbox cannot be stored now: try again");
	}
	if (!*ret)
		return err_set(err, -ENOENT, ERR_NOT_FOUND, "there is no sandbox \"%s\"", id.text);
	return handle_check_generation(x, *ret, err);
}

void handle_generation(struct exchange *x, const struct sandbox *sb)
{
	char *text = arena_printf(exchange_arena(x), "%" PRIu64, sb->generation);

	if (text)
		exchange_header(x, "Berth-Generation", text);
}

/* --- environment --- */

static bool has_name(struct str list, const char *entry)
{
	size_t len = strcspn(entry, "=") + 1;
	const char *item;

	while ((item = frame_list_next(&list))) {
		if (strncmp(item, entry, len) == 0)
			return true;
	}
	return false;
}

static int add_missing(struct buf *out, struct str list, struct str stronger)
{
	const char *item;
	int r = 0;

	while (r == 0 && (item = frame_list_next(&list))) {
		if (!has_name(stronger, item))
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
		"LANG=C.UTF-8";
	struct str own = sb->settings.env;
	struct buf list;
	char *copy = NULL;
	size_t len;
	int r;

	buf_init(&list, AGENT_ARGS_MAX);
	r = buf_append_str(&list, request->env);
	if (r == 0)
		r = add_missing(&list, own, request->env);
	len = buf_len(&list);
	if (r == 0 && len)
		copy = arena_strndup(arena, buf_at(&list), len);
	if (r == 0)
		r = add_missing(&list, (struct str){base, sizeof(base)}, (struct str){copy, len});
	len = buf_len(&list);
	copy = r == 0 ? arena_strndup(arena, buf_at(&list), len) : NULL;
	buf_close(&list);
	if (!copy)
		return err_set(err, -E2BIG, ERR_INVALID_REQUEST,
			       "env: the environment is larger than %d bytes", AGENT_ARGS_MAX);
	request->env = (struct str){copy, len};
	return 0;
}

/* --- showing --- */

static void write_time(struct json_writer *w, const char *key, int64_t at_ms)
{
	char text[TIME_TEXT_SIZE];

	json_key(w, key);
	if (!at_ms || time_text_format(at_ms, text) < 0)
		json_null(w);
	else
		json_text(w, text);
}

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
	write_time(w, "at", failure->at_ms);
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
	write_time(w, "created_at", sb->created_at_ms);
	write_time(w, "started_at", sb->started_at_ms);
	write_time(w, "last_active_at", sb->active_at_ms);
	settings_write(&sb->settings, w);
	json_key(w, "execs");
	json_int(w, sb->execs_len);
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

void handle_sandbox_get(struct exchange *x)
{
	struct sandbox *sb;
	struct err err;

	if (handle_find(x, false, &sb, &err) < 0)
		exchange_reply_err(x, &err);
	else
		handle_reply_sandbox(x, 200, sb);
}
