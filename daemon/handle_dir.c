/* GET and PUT .../dir/{path...}, GET .../stat/{path...}: what there is, and a place for more. */
#include <errno.h>

#include "base/cleanup.h"
#include "daemon/file_call.h"
#include "daemon/routes.h"
#include "proto/base64.h"
#include "proto/file_json.h"
#include "proto/uri.h"

#define LIST_DEFAULT   1000
#define LIST_BYTES_MAX (4 * 1024 * 1024) /* of JSON: a page that is longer ends early */

struct file_list {
	struct file_call call;
	struct json_writer json;
	char last[FILE_PATH_MAX]; /* the newest entry, relative: where the next page begins */
	size_t last_len;
};

/* --- the cursor: base64url, so that it needs no escape --- */

static void swap(char *text, size_t len, const char *from, const char *to)
{
	for (size_t i = 0; i < len; i++) {
		if (text[i] == from[0] || text[i] == from[1])
			text[i] = text[i] == from[0] ? to[0] : to[1];
	}
}

static void write_cursor(struct file_list *l)
{
	struct buf text;
	size_t len;

	buf_init(&text, 2 * FILE_PATH_MAX);
	if (base64_encode(&text, (struct str){l->last, l->last_len}) == 0) {
		len = buf_len(&text);
		swap(text.bytes + text.start, len, "+/", "-_");
		while (len && buf_at(&text)[len - 1] == '=')
			len--;
		json_key(&l->json, "cursor");
		json_str(&l->json, (struct str){buf_at(&text), len});
	}
	buf_close(&text);
}

static int take_cursor(struct file_list *l, struct str given)
{
	char text[2 * FILE_PATH_MAX];
	char *bytes;
	size_t len = given.len;

	if (!len || len > sizeof(text) - 4)
		return -EINVAL;
	memcpy(text, given.at, len);
	swap(text, len, "-_", "+/");
	while (len % 4)
		text[len++] = '=';
	bytes = arena_alloc(exchange_arena(l->call.x), BASE64_DECODE_ROOM(len));
	if (!bytes || base64_decode((struct str){text, len}, bytes, &len) < 0)
		return -EINVAL;
	if (!len || len >= FILE_PATH_MAX || memchr(bytes, '\0', len))
		return -EINVAL;
	l->call.request.cursor = (struct str){bytes, len};
	return 0;
}

/* --- a page --- */

static void close_list(struct file_call *c)
{
	json_writer_close(&container_of(c, struct file_list, call)->json);
}

static void reply_page(struct file_list *l, bool has_more)
{
	struct exchange *x = l->call.x;
	struct err err;
	struct buf text;
	int r;

	json_array_end(&l->json);
	if (has_more && l->last_len)
		write_cursor(l);
	json_object_end(&l->json);
	/* The writer lives in the exchange's arena: it must be closed before the answer is sent. */
	buf_init(&text, EXCHANGE_ARENA_MAX);
	r = json_writer_end(&l->json, &text);
	json_writer_close(&l->json);
	if (r < 0) {
		err_set(&err, r, ERR_INTERNAL, "the list could not be written as JSON");
		exchange_reply_err(x, &err);
	} else {
		exchange_reply(x, 200, "application/json",
			       (struct str){buf_at(&text), buf_len(&text)});
	}
	buf_close(&text);
}

static void on_entry(void *arg, const struct file_entry *entry)
{
	struct file_list *l = arg;
	struct str base = l->call.request.path;
	char path[2 * FILE_PATH_MAX];

	if (!entry->name.len || entry->name.len >= sizeof(l->last))
		return; /* no name that the kernel could give */
	while (base.len && base.at[base.len - 1] == '/')
		base.len--;
	memcpy(path, base.at, base.len);
	path[base.len] = '/';
	memcpy(path + base.len + 1, entry->name.at, entry->name.len);
	memcpy(l->last, entry->name.at, entry->name.len);
	l->last_len = entry->name.len;
	json_object(&l->json);
	file_json_write(&l->json, (struct str){path, base.len + 1 + entry->name.len}, &entry->stat,
			entry->link);
	json_object_end(&l->json);
	if (buf_len(&l->json.text) > LIST_BYTES_MAX) {
		file_worker_drop(take(l->call.worker));
		reply_page(l, true);
	}
}

static void on_listed(void *arg, const struct file_result *result, const struct err *err)
{
	struct file_list *l = arg;

	l->call.worker = NULL;
	if (err)
		file_call_fail(&l->call, err);
	else
		reply_page(l, result->has_more);
}

static int take_page(struct file_list *l, struct err *err)
{
	struct arena *arena = exchange_arena(l->call.x);
	struct str query = exchange_head(l->call.x)->query, value;
	uint64_t limit = LIST_DEFAULT;
	int r = uri_query(arena, query, STR("limit"), &value);

	if (r == 1) {
		limit = value.len && value.len <= 5 ? 0 : FILE_LIST_MAX + 1;
		for (size_t i = 0; i < value.len && limit <= FILE_LIST_MAX; i++)
			limit = value.at[i] >= '0' && value.at[i] <= '9'
					? limit * 10 + (uint64_t)(value.at[i] - '0')
					: FILE_LIST_MAX + 1;
	}
	if (r < 0 || limit < 1 || limit > FILE_LIST_MAX)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "limit must be a number from 1 to %d", FILE_LIST_MAX);
	l->call.request.limit = (uint32_t)limit;
	r = uri_query(arena, query, STR("cursor"), &value);
	if (r < 0 || (r == 1 && take_cursor(l, value) < 0))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "cursor is none that an earlier page gave");
	return 0;
}

void handle_dir_get(struct exchange *x)
{
	static const struct file_worker_ops ops = {.entry = on_entry, .ended = on_listed};
	static const char *const query[] = {"recursive", "hidden", "limit", "cursor", NULL};
	struct file_list *l = file_call_new(x, sizeof(*l), FILE_OP_LIST, &ops);
	struct err err;

	if (!l)
		return;
	l->call.query = query;
	l->call.close = close_list;
	json_writer_init(&l->json, false);
	json_object(&l->json);
	json_key(&l->json, "entries");
	json_array(&l->json);
	if (file_call_take_path(&l->call, &err) < 0 || take_page(l, &err) < 0 ||
	    file_call_flag(&l->call, "recursive", FILE_RECURSIVE, &err) < 0 ||
	    file_call_flag(&l->call, "hidden", FILE_HIDDEN, &err) < 0)
		file_call_fail(&l->call, &err);
	else
		file_call_start(&l->call);
}

/* --- one thing --- */

static void on_made(void *arg, const struct file_result *result, const struct err *err)
{
	struct file_call *c = arg;

	c->worker = NULL;
	if (err)
		file_call_fail(c, err);
	else
		file_call_reply_stat(c, result->is_new ? 201 : 200, result);
}

void handle_dir_put(struct exchange *x)
{
	static const struct file_worker_ops ops = {.ended = on_made};
	static const char *const query[] = {"mode", NULL};
	struct file_call *c = file_call_new(x, sizeof(*c), FILE_OP_MKDIR, &ops);
	struct err err;

	if (!c)
		return;
	c->query = query;
	if (file_call_take_path(c, &err) < 0 || file_call_take_mode(c, &err) < 0)
		file_call_fail(c, &err);
	else
		file_call_start(c);
}

static void on_seen(void *arg, const struct file_result *result, const struct err *err)
{
	struct file_call *c = arg;

	c->worker = NULL;
	if (err)
		file_call_fail(c, err);
	else
		file_call_reply_stat(c, 200, result);
}

void handle_stat(struct exchange *x)
{
	static const struct file_worker_ops ops = {.ended = on_seen};
	static const char *const query[] = {"no_follow", NULL};
	struct file_call *c = file_call_new(x, sizeof(*c), FILE_OP_STAT, &ops);
	struct err err;

	if (!c)
		return;
	c->query = query;
	if (file_call_take_path(c, &err) < 0 ||
	    file_call_flag(c, "no_follow", FILE_NO_FOLLOW, &err) < 0)
		file_call_fail(c, &err);
	else
		file_call_start(c);
}
