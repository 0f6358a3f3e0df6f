/* GET, HEAD, PUT and DELETE .../file/{path...}: a file's bytes, in and out. */
#include <errno.h>
#include <inttypes.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/file_call.h"
#include "daemon/routes.h"
#include "proto/file_json.h"
#include "proto/http_range.h"

/* --- out --- */

struct file_get {
	struct file_call call;
	struct stream *out; /* once the answer has begun */
};

/* What of the file is answered, and how. */
struct selection {
	int status; /* 200, 206, 304 or 416 */
	struct http_range range;
	char etag[FILE_ETAG_SIZE];
	char modified[HTTP_DATE_SIZE]; /* "": before or after the dates that HTTP knows */
};

/* Dates are compared as texts: clients send back what they were given. */
static bool is_known(const struct http_head *head, const struct selection *s)
{
	const struct str *tags = http_header_find(head, STR("if-none-match"));
	const struct str *date = http_header_find(head, STR("if-modified-since"));

	if (tags)
		return http_etag_listed(*tags, str_of(s->etag));
	return date && s->modified[0] && str_eq(*date, str_of(s->modified));
}

static bool wants_range(const struct http_head *head, const struct selection *s)
{
	const struct str *same = http_header_find(head, STR("if-range"));

	if (head->method != HTTP_METHOD_GET || !http_header_find(head, STR("range")))
		return false;
	return !same || str_eq(*same, str_of(s->etag)) ||
	       (s->modified[0] && str_eq(*same, str_of(s->modified)));
}

static void select_part(const struct http_head *head, const struct file_stat *stat,
			struct selection *ret)
{
	file_etag(stat, ret->etag);
	if (stat->mtime < 0 || http_date_format((uint64_t)stat->mtime, ret->modified) < 0)
		ret->modified[0] = '\0';
	ret->status = 200;
	ret->range = (struct http_range){0, stat->size};
	if (is_known(head, ret)) {
		ret->status = 304;
		return;
	}
	if (!wants_range(head, ret))
		return;
	switch (http_range_parse(*http_header_find(head, STR("range")), stat->size, &ret->range)) {
	case HTTP_RANGE_WHOLE:
		break;
	case HTTP_RANGE_PART:
		ret->status = 206;
		break;
	case HTTP_RANGE_UNSATISFIABLE:
		ret->status = 416;
		break;
	}
}

static void add_header(struct exchange *x, const char *name, char *value)
{
	if (value)
		exchange_header(x, name, value);
}

static void add_headers(struct exchange *x, const struct selection *s, uint64_t size)
{
	struct arena *arena = exchange_arena(x);
	const struct http_range *r = &s->range;

	add_header(x, "ETag", arena_printf(arena, "%s", s->etag));
	if (s->modified[0])
		add_header(x, "Last-Modified", arena_printf(arena, "%s", s->modified));
	if (s->status != 304)
		exchange_header(x, "Accept-Ranges", "bytes");
	if (s->status == 206)
		add_header(x, "Content-Range",
			   arena_printf(arena, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, r->first,
					r->first + r->length - 1, size));
	if (s->status == 416)
		add_header(x, "Content-Range", arena_printf(arena, "bytes */%" PRIu64, size));
}

static void on_out_pause(void *arg)
{
	struct file_get *g = arg;

	if (g->call.worker)
		file_worker_pause(g->call.worker);
}

static void on_out_resume(void *arg)
{
	struct file_get *g = arg;

	if (g->call.worker)
		file_worker_resume(g->call.worker);
}

static void on_out_abort(void *arg)
{
	struct file_get *g = arg;

	if (g->call.worker)
		file_worker_drop(take(g->call.worker));
}

static const struct stream_producer out_producer = {on_out_pause, on_out_resume, on_out_abort};

static void send_part(struct file_get *g, const struct selection *s)
{
	struct exchange *x = g->call.x;
	struct file_worker *worker = g->call.worker;
	bool is_wanted = s->range.length && exchange_head(x)->method != HTTP_METHOD_HEAD;
	struct stream *out;

	if (!is_wanted)
		g->call.worker = NULL;
	exchange_length(x, s->range.length);
	out = exchange_respond(x, s->status, "application/octet-stream", &out_producer, g);
	if (out && is_wanted) {
		g->out = out;
		file_worker_go(worker, s->range.first, s->range.length);
		return;
	}
	file_worker_drop(worker);
	if (out)
		stream_end(out, 0);
}

static void on_opened(void *arg, const struct file_result *result)
{
	struct file_get *g = arg;
	struct exchange *x = g->call.x;
	struct selection s;
	struct err err;

	select_part(exchange_head(x), &result->stat, &s);
	add_headers(x, &s, result->stat.size);
	if (s.status == 416) {
		err_set(&err, -ERANGE, ERR_RANGE_NOT_SATISFIABLE,
			"the range lies past the end: the file has %" PRIu64 " bytes",
			result->stat.size);
		file_call_fail(&g->call, &err);
	} else if (s.status == 304) {
		file_worker_drop(take(g->call.worker));
		exchange_reply_empty(x, 304);
	} else {
		send_part(g, &s);
	}
}

static void on_bytes(void *arg, struct str bytes)
{
	struct file_get *g = arg;

	stream_push(g->out, bytes.at, bytes.len);
}

static size_t on_move(void *arg, int fd, size_t max)
{
	struct file_get *g = arg;

	return stream_move(g->out, fd, max);
}

static void on_read(void *arg, const struct file_result *result, const struct err *err)
{
	struct file_get *g = arg;

	g->call.worker = NULL;
	if (g->out && err) /* the client sees that it is cut, but nowhere why */
		log_warn("sandbox=%s a file was cut: %s", g->call.sb->id.text,
			 log_value(str_of(err->sentence)).text);
	if (g->out)
		stream_end(g->out, err ? -EIO : 0);
	else
		file_call_fail(&g->call, err);
}

void handle_file_get(struct exchange *x)
{
	static const struct file_worker_ops ops = {
		.begun = on_opened, .bytes = on_bytes, .move = on_move, .ended = on_read};
	struct file_get *g = file_call_new(x, sizeof(*g), FILE_OP_READ, &ops);
	struct err err;

	if (!g)
		return;
	if (file_call_take_path(&g->call, &err) < 0)
		file_call_fail(&g->call, &err);
	else
		file_call_start(&g->call);
}

/* --- in --- */

struct file_put {
	struct file_call call;
	bool is_taking; /* the body flows */
};

/* A condition that is not kept must not be passed over: something would be overwritten. */
static int refuse_conditions(struct exchange *x, struct err *err)
{
	static const char *const names[] = {"if-match", "if-none-match", "if-unmodified-since"};

	for (size_t i = 0; i < array_len(names); i++) {
		if (http_header_find(exchange_head(x), str_of(names[i])))
			return err_set(err, -ENOSYS, ERR_UNSUPPORTED,
				       "%s: changes with a condition are not there yet", names[i]);
	}
	return 0;
}

static void on_body_data(void *arg, const char *bytes, size_t len)
{
	struct file_put *p = arg;
	bool is_full = false;

	/* A body whose length is known was announced as a whole. */
	if (exchange_head(p->call.x)->framing == HTTP_CHUNKED)
		file_worker_data(p->call.worker, len);
	is_full = file_worker_bytes(p->call.worker, (struct str){bytes, len});
	if (is_full)
		exchange_body_pause(p->call.x);
}

static void on_body_end(void *arg, int status)
{
	struct file_put *p = arg;
	struct err err;

	p->is_taking = false;
	if (status == 0) {
		file_worker_end(p->call.worker);
		return;
	}
	if (status == -ECONNRESET)
		err_set(&err, status, ERR_REQUEST_TIMEOUT, "the client went away");
	else
		err_set(&err, status, ERR_INVALID_REQUEST, "the body is malformed");
	file_call_fail(&p->call, &err);
}

static const struct stream_consumer body_consumer = {on_body_data, on_body_end};

static void on_writable(void *arg, const struct file_result *result)
{
	struct file_put *p = arg;
	const struct http_head *head = exchange_head(p->call.x);

	if (head->framing == HTTP_SIZED)
		file_worker_data(p->call.worker, head->content_length);
	p->is_taking = true;
	exchange_body(p->call.x, &body_consumer, p);
}

static void on_room(void *arg)
{
	struct file_put *p = arg;

	if (p->is_taking)
		exchange_body_resume(p->call.x);
}

static void on_written(void *arg, const struct file_result *result, const struct err *err)
{
	struct file_put *p = arg;

	p->call.worker = NULL;
	if (err)
		file_call_fail(&p->call, err);
	else
		file_call_reply_stat(&p->call, result->is_new ? 201 : 200, result);
}

void handle_file_put(struct exchange *x)
{
	static const struct file_worker_ops ops = {
		.begun = on_writable, .room = on_room, .ended = on_written};
	static const char *const query[] = {"mode", NULL};
	struct file_put *p = file_call_new(x, sizeof(*p), FILE_OP_WRITE, &ops);
	struct err err;

	if (!p)
		return;
	p->call.query = query;
	file_call_outlive(&p->call);
	if (file_call_take_path(&p->call, &err) < 0 || file_call_take_mode(&p->call, &err) < 0 ||
	    refuse_conditions(x, &err) < 0)
		file_call_fail(&p->call, &err);
	else
		file_call_start(&p->call);
}

/* --- gone --- */

static void on_removed(void *arg, const struct file_result *result, const struct err *err)
{
	struct file_call *c = arg;

	c->worker = NULL;
	if (err)
		file_call_fail(c, err);
	else
		exchange_reply_empty(c->x, 204);
}

void handle_file_delete(struct exchange *x)
{
	static const struct file_worker_ops ops = {.ended = on_removed};
	static const char *const query[] = {"recursive", NULL};
	struct file_call *c = file_call_new(x, sizeof(*c), FILE_OP_REMOVE, &ops);
	struct err err;

	if (!c)
		return;
	c->query = query;
	if (file_call_take_path(c, &err) < 0 ||
	    file_call_flag(c, "recursive", FILE_RECURSIVE, &err) < 0 ||
	    refuse_conditions(x, &err) < 0)
		file_call_fail(c, &err);
	else
		file_call_start(c);
}
