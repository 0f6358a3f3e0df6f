/* POST .../move, .../copy, .../chmod; and .../mount and .../unmount, which are not there yet. */
#include <errno.h>

#include "base/cleanup.h"
#include "daemon/file_call.h"
#include "daemon/routes.h"
#include "proto/base64.h"

/* Each path as text, or as base64 where it is none. */
struct tree_request {
	struct given_path {
		struct str text, base64;
		bool has_text, has_base64;
	} path, to;
	struct str mode;
	bool recursive;
};

/* clang-format off */
#define FIELD(name, type, member, required) \
	{ name, type, offsetof(struct tree_request, member), required, 0, NULL, 0 }
#define PATH(name, member) \
	{ name, JSON_STRING, offsetof(struct tree_request, member.text), false, \
	  offsetof(struct tree_request, member.has_text), NULL, 0 }, \
	{ name "_base64", JSON_STRING, offsetof(struct tree_request, member.base64), false, \
	  offsetof(struct tree_request, member.has_base64), NULL, 0 }

static const struct json_field move_fields[] = {
	PATH("from", path),
	PATH("to", to),
	{ .name = NULL },
};

static const struct json_field copy_fields[] = {
	PATH("from", path),
	PATH("to", to),
	FIELD("recursive", JSON_BOOL, recursive, false),
	{ .name = NULL },
};

static const struct json_field chmod_fields[] = {
	PATH("path", path),
	FIELD("mode", JSON_STRING, mode, true),
	FIELD("recursive", JSON_BOOL, recursive, false),
	{ .name = NULL },
};
/* clang-format on */

/* As text or as base64, not both. */
static int take_path(struct arena *arena, const char *name, const struct given_path *given,
		     struct str *ret, struct err *err)
{
	char *bytes;
	size_t len;

	if (given->has_text == given->has_base64)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "%s must be given, as text or as %s_base64", name, name);
	*ret = given->text;
	if (given->has_base64) {
		bytes = arena_alloc(arena, BASE64_DECODE_ROOM(given->base64.len));
		if (!bytes || base64_decode(given->base64, bytes, &len) < 0)
			return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "%s_base64 is not base64",
				       name);
		*ret = (struct str){bytes, len};
	}
	return file_call_check_path(*ret, name, err);
}

static int take_request(struct file_call *c, const struct json_field *fields, struct err *err)
{
	struct arena *arena = exchange_arena(c->x);
	struct tree_request t = {.recursive = false};
	int r = json_parse(arena, exchange_buffered(c->x), fields, &t, err);

	if (r == 0)
		r = take_path(arena, fields[0].name, &t.path, &c->request.path, err);
	if (r == 0 && fields != chmod_fields)
		r = take_path(arena, "to", &t.to, &c->request.other, err);
	if (r == 0 && fields == chmod_fields)
		r = file_call_parse_mode(t.mode, &c->request.mode, err);
	c->request.flags = t.recursive ? FILE_RECURSIVE : 0;
	return r;
}

static void on_done(void *arg, const struct file_result *result, const struct err *err)
{
	struct file_call *c = arg;
	struct json_writer w;

	c->worker = NULL;
	if (err) {
		file_call_fail(c, err);
		return;
	}
	if (c->request.op != FILE_OP_COPY) {
		exchange_reply_empty(c->x, 204);
		return;
	}
	json_writer_init(&w, false);
	json_object(&w);
	json_key(&w, "entries");
	json_int(&w, (int64_t)(result->count & INT64_MAX));
	json_key(&w, "bytes");
	json_int(&w, (int64_t)(result->bytes & INT64_MAX));
	json_object_end(&w);
	exchange_reply_json(c->x, 200, &w);
	json_writer_close(&w);
}

static void run(struct exchange *x, enum file_op op, const struct json_field *fields)
{
	static const struct file_worker_ops ops = {.ended = on_done};
	struct file_call *c = file_call_new(x, sizeof(*c), op, &ops);
	struct err err;

	if (!c)
		return;
	if (take_request(c, fields, &err) < 0)
		file_call_fail(c, &err);
	else
		file_call_start(c);
}

void handle_move(struct exchange *x)
{
	run(x, FILE_OP_MOVE, move_fields);
}

void handle_copy(struct exchange *x)
{
	run(x, FILE_OP_COPY, copy_fields);
}

void handle_chmod(struct exchange *x)
{
	run(x, FILE_OP_CHMOD, chmod_fields);
}

void handle_mount(struct exchange *x)
{
	struct err err;

	err_set(&err, -ENOSYS, ERR_UNSUPPORTED, "buckets cannot be mounted yet");
	exchange_reply_err(x, &err);
}
