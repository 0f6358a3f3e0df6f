/* POST .../persist and .../hydrate: a tree of files out as a tar archive, and in. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/tar.h"
#include "daemon/berthd.h"
#include "daemon/file_call.h"
#include "daemon/hydrate.h"
#include "daemon/registry.h"
#include "daemon/routes.h"
#include "daemon/sandbox_still.h"
#include "proto/uri.h"

#define DEFAULT_PATH "/workspace"

/* ?path=, absolute. */
static int take_tree(struct file_call *c, struct err *err)
{
	struct str path = STR(DEFAULT_PATH);

	if (uri_query(exchange_arena(c->x), exchange_head(c->x)->query, STR("path"), &path) < 0)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "path: the query is malformed");
	c->request.path = path;
	return file_call_check_path(path, "path", err);
}

/* --- out --- */

struct persist {
	struct file_call call;
	struct tar_writer *writer;
	struct stream *out;          /* once the answer has begun */
	struct sandbox_still *still; /* ?freeze */
};

static void close_writer(struct file_call *c)
{
	struct persist *p = container_of(c, struct persist, call);

	if (p->writer)
		tar_writer_free(take(p->writer));
	if (p->still)
		sandbox_still_end(take(p->still));
}

/* Half of an archive went out, or nothing of it yet. */
static void fail_persist(struct persist *p, const struct err *err)
{
	struct stream *out = take(p->out);

	if (!out) {
		file_call_fail(&p->call, err);
		return;
	}
	/* The client sees that it is cut, but nowhere why. */
	log_warn("sandbox=%s persist was cut: %s", p->call.sb->id.text,
		 log_value(str_of(err->sentence)).text);
	if (p->call.worker)
		file_worker_drop(take(p->call.worker));
	close_writer(&p->call);
	stream_end(out, -EIO);
}

static void on_sink(void *arg, struct str bytes)
{
	struct persist *p = arg;

	if (p->out)
		stream_push(p->out, bytes.at, bytes.len);
}

static void on_out_pause(void *arg)
{
	struct persist *p = arg;

	if (p->call.worker)
		file_worker_pause(p->call.worker);
}

static void on_out_resume(void *arg)
{
	struct persist *p = arg;

	if (p->call.worker)
		file_worker_resume(p->call.worker);
}

static void on_out_abort(void *arg)
{
	struct persist *p = arg;

	p->out = NULL;
	if (p->call.worker)
		file_worker_drop(take(p->call.worker));
	close_writer(&p->call);
}

static const struct stream_producer out_producer = {on_out_pause, on_out_resume, on_out_abort};

/* What the tree's root is called in the archive: a directory "./", a single file by its name. */
static const char *root_name(struct persist *p, const struct file_result *result)
{
	struct str path = p->call.request.path;
	size_t start = path.len;

	if (result->stat.type == FILE_TYPE_DIRECTORY)
		return "./";
	while (start && path.at[start - 1] != '/')
		start--;
	return arena_strndup(exchange_arena(p->call.x), path.at + start, path.len - start);
}

static void on_packing(void *arg, const struct file_result *result)
{
	struct persist *p = arg;
	const char *root = root_name(p, result);
	struct err err;

	p->writer = root ? tar_writer_new(root, on_sink, p) : NULL;
	if (!p->writer) {
		err_set(&err, -ENOMEM, ERR_INTERNAL, "out of memory");
		fail_persist(p, &err);
		return;
	}
	p->out = exchange_respond(p->call.x, 200, "application/x-tar", &out_producer, p);
	if (p->out)
		return;
	file_worker_drop(take(p->call.worker));
	close_writer(&p->call);
}

static void on_entry(void *arg, const struct file_entry *entry)
{
	struct persist *p = arg;
	struct err err;

	if (tar_writer_entry(p->writer, entry, &err) < 0)
		fail_persist(p, &err);
}

static void on_data(void *arg, uint64_t size, bool is_hole)
{
	struct persist *p = arg;
	struct err err;

	if (is_hole && tar_writer_hole(p->writer, size, &err) < 0)
		fail_persist(p, &err);
}

static void on_bytes(void *arg, struct str bytes)
{
	struct persist *p = arg;
	struct err err;

	if (tar_writer_bytes(p->writer, bytes, &err) < 0)
		fail_persist(p, &err);
}

static void on_packed(void *arg, const struct file_result *result, const struct err *err)
{
	struct persist *p = arg;
	struct err failure;
	struct stream *out;

	p->call.worker = NULL;
	if (!err && tar_writer_end(p->writer, &failure) < 0)
		err = &failure;
	if (err) {
		fail_persist(p, err);
		return;
	}
	close_writer(&p->call);
	out = take(p->out);
	if (out)
		stream_end(out, 0);
}

/* --- of one moment --- */

static const struct exec *on_hire(void *arg)
{
	struct persist *p = arg;
	int r = file_call_hire(&p->call);

	if (r == 0)
		sandbox_still_end(take(p->still));
	return r == 1 ? file_worker_exec(p->call.worker) : NULL;
}

static void on_still(void *arg)
{
	struct persist *p = arg;

	file_worker_ask(p->call.worker);
}

static void on_still_lost(void *arg, const struct err *err)
{
	fail_persist(arg, err);
}

static void begin_still(struct file_call *c)
{
	static const struct sandbox_still_ops ops = {on_hire, on_still, on_still_lost};
	struct persist *p = container_of(c, struct persist, call);
	struct err err;

	p->still = sandbox_still_begin(c->sb, &ops, p);
	if (p->still) {
		sandbox_still_step(c->sb);
		return;
	}
	err_set(&err, -ENOMEM, ERR_INTERNAL, "out of memory");
	file_call_fail(c, &err);
}

static int take_freeze(struct persist *p, struct err *err)
{
	struct berthd *b = server_arg(exchange_server(p->call.x));
	bool is_set = false;
	int r = file_call_is(&p->call, "freeze", &is_set, err);

	if (r == 0 && is_set) {
		p->call.begin = begin_still;
		r = sandbox_still_check(b->registry, err);
	}
	return r;
}

void handle_persist(struct exchange *x)
{
	static const struct file_worker_ops ops = {
		.begun = on_packing,
		.entry = on_entry,
		.data = on_data,
		.bytes = on_bytes,
		.ended = on_packed,
	};
	static const char *const query[] = {"path", "excludes", "sparse", "freeze", NULL};
	struct persist *p = file_call_new(x, sizeof(*p), FILE_OP_PACK, &ops);
	struct err err;

	if (!p)
		return;
	p->call.query = query;
	p->call.close = close_writer;
	if (take_tree(&p->call, &err) < 0 ||
	    file_call_patterns(&p->call, "excludes", &p->call.request.patterns, &err) < 0 ||
	    file_call_flag(&p->call, "sparse", FILE_SPARSE, &err) < 0 || take_freeze(p, &err) < 0)
		file_call_fail(&p->call, &err);
	else
		file_call_start(&p->call);
}

/* --- in --- */

struct unpack {
	struct file_call call;
	struct hydrate *hydrate;
	bool is_taking;   /* the body flows */
	bool is_complete; /* ... and all of it came */
};

static void close_hydrate(struct file_call *c)
{
	struct unpack *u = container_of(c, struct unpack, call);

	if (u->hydrate)
		hydrate_drop(take(u->hydrate));
}

static void on_frames(void *arg, struct str bytes)
{
	struct unpack *u = arg;

	if (u->call.worker && file_worker_bytes(u->call.worker, bytes) && u->hydrate)
		hydrate_pause(u->hydrate);
}

static void on_worker_room(void *arg)
{
	struct unpack *u = arg;

	if (u->hydrate)
		hydrate_resume(u->hydrate);
}

static void on_pipe_room(void *arg)
{
	struct unpack *u = arg;

	if (u->is_taking)
		exchange_body_resume(u->call.x);
}

static void on_archive_end(void *arg, const struct err *err)
{
	struct unpack *u = arg;

	u->hydrate = NULL;
	if (err)
		file_call_fail(&u->call, err);
	else
		file_worker_end(u->call.worker);
}

static void on_body_data(void *arg, const char *bytes, size_t len)
{
	struct unpack *u = arg;

	if (u->hydrate && hydrate_write(u->hydrate, (struct str){bytes, len}))
		exchange_body_pause(u->call.x);
}

static void on_body_end(void *arg, int status)
{
	struct unpack *u = arg;
	struct err err;

	u->is_taking = false;
	if (status == 0 && u->hydrate) {
		hydrate_end(u->hydrate);
		return;
	}
	if (status == 0)
		return;
	if (status == -ECONNRESET)
		err_set(&err, status, ERR_REQUEST_TIMEOUT, "the client went away");
	else
		err_set(&err, status, ERR_INVALID_REQUEST, "the body is malformed");
	file_call_fail(&u->call, &err);
}

static const struct stream_consumer body_consumer = {on_body_data, on_body_end};
static const struct hydrate_ops hydrate_ops = {on_frames, on_pipe_room, on_archive_end};

static void on_unpacked(void *arg, const struct file_result *result, const struct err *err)
{
	struct unpack *u = arg;
	struct json_writer w;

	u->call.worker = NULL;
	if (err) {
		file_call_fail(&u->call, err);
		return;
	}
	json_writer_init(&w, false);
	json_object(&w);
	json_key(&w, "entries");
	json_int(&w, (int64_t)result->count);
	json_key(&w, "bytes");
	json_int(&w, (int64_t)result->bytes);
	json_object_end(&w);
	exchange_reply_json(u->call.x, 200, &w);
	json_writer_close(&w);
}

/* The sandbox runs, and its worker waits for entries. */
static void on_unpacking(void *arg, const struct file_result *result)
{
	struct unpack *u = arg;
	struct berthd *b = server_arg(exchange_server(u->call.x));
	struct err err;

	u->hydrate = hydrate_new(registry_loop(b->registry), &hydrate_ops, u, &err);
	if (!u->hydrate) {
		file_call_fail(&u->call, &err);
		return;
	}
	u->is_taking = true;
	exchange_body(u->call.x, &body_consumer, u);
}

void handle_hydrate(struct exchange *x)
{
	static const struct file_worker_ops ops = {
		.begun = on_unpacking, .room = on_worker_room, .ended = on_unpacked};
	static const char *const query[] = {"path", "owners", NULL};
	struct unpack *u = file_call_new(x, sizeof(*u), FILE_OP_UNPACK, &ops);
	struct err err;

	if (!u)
		return;
	u->call.query = query;
	u->call.close = close_hydrate;
	file_call_outlive(&u->call);
	if (take_tree(&u->call, &err) < 0 ||
	    file_call_flag(&u->call, "owners", FILE_OWNERS, &err) < 0)
		file_call_fail(&u->call, &err);
	else
		file_call_start(&u->call);
}
