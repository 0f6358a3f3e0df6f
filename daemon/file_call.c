#include "daemon/file_call.h"

#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "daemon/handle_sandbox.h"
#include "proto/file_json.h"
#include "proto/uri.h"

#define PATH_CAPTURE 1

/* --- the request --- */

int file_call_check_path(struct str path, const char *what, struct err *err)
{
	if (!path.len || path.at[0] != '/')
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "%s must begin with \"/\"", what);
	if (memchr(path.at, '\0', path.len))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "%s holds a zero byte, which no file name can", what);
	if (path.len >= FILE_PATH_MAX)
		return err_set(err, -ENAMETOOLONG, ERR_INVALID_REQUEST,
			       "%s is longer than %d bytes", what, FILE_PATH_MAX - 1);
	return 0;
}

int file_call_take_path(struct file_call *c, struct err *err)
{
	struct str raw = exchange_captures(c->x)->items[PATH_CAPTURE];

	/* With the slash in front of it, which the route has in its pattern. */
	raw = (struct str){raw.at - 1, raw.len + 1};
	if (uri_decode(exchange_arena(c->x), raw, &c->request.path) < 0)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "the path holds a \"%%\" that no two hexadecimal digits follow");
	return file_call_check_path(c->request.path, "the path", err);
}

int file_call_is(struct file_call *c, const char *name, bool *ret, struct err *err)
{
	struct str value;
	int r = uri_query(exchange_arena(c->x), exchange_head(c->x)->query, str_of(name), &value);

	if (r < 0)
		return err_set(err, r, ERR_INVALID_REQUEST, "%s is given twice, or badly escaped",
			       name);
	r = r ? uri_flag(value) : 0;
	if (r < 0)
		return err_set(err, r, ERR_INVALID_REQUEST, "%s must be 1 or 0", name);
	*ret = r;
	return 0;
}

int file_call_flag(struct file_call *c, const char *name, uint32_t flag, struct err *err)
{
	bool is_set = false;
	int r = file_call_is(c, name, &is_set, err);

	c->request.flags |= is_set ? flag : 0;
	return r;
}

int file_call_parse_mode(struct str text, uint32_t *ret, struct err *err)
{
	uint32_t mode = 0;

	for (size_t i = 0; i < text.len && mode <= 07777; i++)
		mode = text.at[i] >= '0' && text.at[i] <= '7'
			       ? mode * 8 + (uint32_t)(text.at[i] - '0')
			       : UINT32_MAX;
	if (!text.len || text.len > 5 || mode > 07777)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "mode must be an octal number such as \"0644\", up to 7777");
	*ret = mode;
	return 0;
}

int file_call_take_mode(struct file_call *c, struct err *err)
{
	struct str value;
	int r = uri_query(exchange_arena(c->x), exchange_head(c->x)->query, STR("mode"), &value);

	if (r == 0)
		return 0;
	c->request.flags |= FILE_HAS_MODE;
	return file_call_parse_mode(r < 0 ? (struct str){NULL, 0} : value, &c->request.mode, err);
}

/* A name that is not known may be a slip, and the request mean something else than it does. */
static int check_query(struct file_call *c, struct err *err)
{
	static const char *const none[] = {NULL};
	const char *const *known = c->query ? c->query : none;
	char names[128] = "";
	struct str name;

	if (!uri_query_stranger(exchange_head(c->x)->query, known, &name))
		return 0;
	for (size_t used = 0; *known && used < sizeof(names); known++)
		used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
					 used ? ", " : "", *known);
	return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
		       "the query has an unknown \"%.*s\"; this route takes %s",
		       (int)(name.len < 64 ? name.len : 64), name.at, *names ? names : "none");
}

int file_call_patterns(struct file_call *c, const char *name, struct str *ret, struct err *err)
{
	struct arena *arena = exchange_arena(c->x);
	struct str text;
	char *list;
	int r = uri_query(arena, exchange_head(c->x)->query, str_of(name), &text);

	if (r == 0 || (r == 1 && !text.len))
		return 0;
	if (r < 0 || text.len >= FILE_PATTERNS_MAX || memchr(text.at, '\0', text.len))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "%s: patterns with commas between them, less than %d bytes", name,
			       FILE_PATTERNS_MAX);
	list = arena_strndup(arena, text.at, text.len);
	if (!list)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	for (size_t i = 0; i < text.len; i++) {
		if (list[i] == ',')
			list[i] = '\0';
	}
	*ret = (struct str){list, text.len + 1};
	return 0;
}

/* --- the worker --- */

void file_call_fail(struct file_call *c, const struct err *err)
{
	sandbox_cancel(&c->wait);
	if (c->worker)
		file_worker_drop(take(c->worker));
	if (c->close)
		c->close(c);
	exchange_reply_err(c->x, err);
}

static void on_gone(void *arg)
{
	struct err err;

	err_set(&err, -ECONNRESET, ERR_REQUEST_TIMEOUT, "the client went away");
	file_call_fail(arg, &err);
}

int file_call_hire(struct file_call *c)
{
	struct err err;

	c->worker = file_worker_hire(c->sb, &c->request, c->ops, c, &err);
	if (c->worker) {
		handle_generation(c->x, c->sb);
		return 1;
	}
	if (handle_again(c->x, c->sb, &c->wait))
		return 0;
	file_call_fail(c, &err);
	return -EPIPE;
}

static void start(struct file_call *c)
{
	if (c->begin) {
		c->begin(c);
		return;
	}
	if (file_call_hire(c) <= 0)
		return;
	file_worker_ask(c->worker);
	if (c->is_left)
		file_worker_watch(c->worker);
}

static void on_left(void *arg)
{
	struct file_call *c = arg;

	c->is_left = true;
	if (c->worker)
		file_worker_watch(c->worker);
}

void file_call_outlive(struct file_call *c)
{
	exchange_on_gone(c->x, on_left, c);
}

static void on_running(struct sandbox_wait *wait, struct sandbox *sb, const struct err *err)
{
	struct file_call *c = container_of(wait, struct file_call, wait);

	if (err)
		file_call_fail(c, err);
	else
		start(c);
}

void *file_call_new(struct exchange *x, size_t size, enum file_op op,
		    const struct file_worker_ops *ops)
{
	struct file_call *c = arena_zalloc(exchange_arena(x), size);
	struct err err;

	if (!c) {
		err_set(&err, -ENOMEM, ERR_INTERNAL, "out of memory");
		exchange_reply_err(x, &err);
		return NULL;
	}
	c->x = x;
	c->ops = ops;
	c->request.op = op;
	c->wait.done = on_running;
	list_init(&c->wait.link);
	exchange_on_gone(x, on_gone, c);
	return c;
}

void file_call_start(struct file_call *c)
{
	struct err err;
	int r = check_query(c, &err);

	if (r == 0)
		r = handle_find(c->x, true, &c->sb, &err);
	if (r == 0)
		r = sandbox_use(c->sb, &c->wait, &err);
	if (r < 0) {
		struct sandbox *sb = c->sb;

		file_call_fail(c, &err);
		if (sb)
			sandbox_discard(sb);
	} else if (r == 1) {
		start(c);
	}
}

/* --- the answer --- */

void file_call_reply_stat(struct file_call *c, int status, const struct file_result *result)
{
	struct json_writer w;
	char *etag = arena_alloc(exchange_arena(c->x), FILE_ETAG_SIZE);

	json_writer_init(&w, false);
	json_object(&w);
	file_json_write(&w, c->request.path, &result->stat, result->where);
	if (etag && result->stat.type == FILE_TYPE_FILE) {
		file_etag(&result->stat, etag);
		json_key(&w, "etag");
		json_text(&w, etag);
		exchange_header(c->x, "ETag", etag);
	}
	json_object_end(&w);
	exchange_reply_json(c->x, status, &w);
	json_writer_close(&w);
}
