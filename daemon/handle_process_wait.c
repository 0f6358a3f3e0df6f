/* POST .../processes/{process}/wait: for its end, a line of its output, or a port. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "daemon/activity.h"
#include "daemon/file_worker.h"
#include "daemon/handle_process.h"
#include "daemon/handle_sandbox.h"
#include "daemon/process_lines.h"
#include "daemon/registry.h"
#include "daemon/routes.h"
#include "proto/api_error.h"

#define TURN_NS        (5 * 1000000ULL) /* others wait meanwhile */
#define SLICE          1024             /* a pattern may take its time for each byte */
#define TIMEOUT_MAX_MS (366ULL * 24 * 3600 * 1000)
#define HTTP_PATH_MAX  1024

struct body {
	struct str what, pattern, stream, since, http_path;
	bool what_given, pattern_given, stream_given, since_given, http_given;
	uint64_t port, timeout_ms;
};

/* One request. Lives until it is answered and its timers are closed. */
struct wait_call {
	struct exchange *x; /* NULL once answered */
	struct process *p;  /* held */
	const char *what;
	uint64_t timeout_ms;
	struct process_wait ended;
	uv_timer_t timeout, again;
	unsigned handles;
	struct hold hold;

	/* log */
	struct journal *journal; /* read */
	struct journal_follower follower;
	struct journal_reader reader;
	unsigned wanted;
	struct pattern *pattern;
	struct line_search lines[2];

	/* port */
	struct file_worker *worker;
	struct file_request request;
	unsigned port;
	char port_text[8];
};

/* --- the answer --- */

static void on_timer_closed(uv_handle_t *handle)
{
	struct wait_call *c = handle->data;

	if (--c->handles == 0)
		free(c);
}

/* Whatever it waited with; once. */
static void be_over(struct wait_call *c)
{
	hold_end(&c->hold);
	process_cancel(&c->ended);
	list_remove(&c->follower.link);
	if (c->worker)
		file_worker_drop(take(c->worker));
	if (c->journal)
		process_read_end(c->p);
	for (int i = 0; i < 2; i++)
		line_search_close(&c->lines[i]);
	pattern_free(c->pattern);
	process_release(c->p);
	uv_close((uv_handle_t *)&c->timeout, on_timer_closed);
	uv_close((uv_handle_t *)&c->again, on_timer_closed);
}

static void write_process(struct wait_call *c, struct json_writer *w)
{
	json_key(w, "process");
	json_object(w);
	process_write(c->p, w);
	json_object_end(w);
}

static void reply_err(struct wait_call *c, const struct err *err)
{
	exchange_on_gone(c->x, NULL, NULL);
	exchange_reply_err(take(c->x), err);
	be_over(c);
}

/* An error with what the process has to say about it. */
static void reply_unmet(struct wait_call *c, enum err_code code, const char *sentence)
{
	struct journal *journal = c->journal;
	struct json_writer w;
	struct err err;

	if (!journal)
		journal = c->journal = process_read(c->p, &err);
	json_writer_init(&w, false);
	json_object(&w);
	json_key(&w, "error");
	json_text(&w, sentence);
	json_key(&w, "code");
	json_text(&w, err_code_name(code));
	write_process(c, &w);
	json_key(&w, "last_lines");
	process_lines_write_last(journal, &w);
	json_object_end(&w);
	exchange_on_gone(c->x, NULL, NULL);
	exchange_reply_json(take(c->x), api_status(code), &w);
	json_writer_close(&w);
	be_over(c);
}

static void reply_ended(struct wait_call *c)
{
	const struct exec_end *end = &c->p->end;
	char sentence[160];

	if (end->exit_code < 0)
		snprintf(sentence, sizeof(sentence),
			 "the process ended before that, and nobody knows how (%s)",
			 exec_reason_name(end->reason));
	else
		snprintf(sentence, sizeof(sentence),
			 "the process ended before that: %s, exit code %d",
			 exec_reason_name(end->reason), end->exit_code);
	reply_unmet(c, ERR_PROCESS_EXITED, sentence);
}

static void open_met(struct wait_call *c, struct json_writer *w)
{
	json_writer_init(w, false);
	json_object(w);
	json_key(w, "for");
	json_text(w, c->what);
	write_process(c, w);
}

static void reply_met(struct wait_call *c, struct json_writer *w)
{
	json_object_end(w);
	exchange_on_gone(c->x, NULL, NULL);
	exchange_reply_json(take(c->x), 200, w);
	json_writer_close(w);
	be_over(c);
}

static void on_timeout(uv_timer_t *timer)
{
	struct wait_call *c = timer->data;
	char sentence[160];

	snprintf(sentence, sizeof(sentence), "%s within %" PRIu64 " ms",
		 c->pattern ? "no line that matches came"
		 : c->port  ? "nobody answered on the port as wanted"
			    : "the process did not end",
		 c->timeout_ms);
	reply_unmet(c, ERR_TIMEOUT, sentence);
}

static void on_gone(void *arg)
{
	struct wait_call *c = arg;

	exchange_reply_gone(take(c->x));
	be_over(c);
}

/* --- its end --- */

static void pump(struct wait_call *c);

static void on_ended(struct process_wait *wait, struct process *p, const struct err *err)
{
	struct wait_call *c = container_of(wait, struct wait_call, ended);
	struct json_writer w;

	if (err) {
		reply_err(c, err);
	} else if (c->pattern) {
		pump(c); /* it may have said so with its last breath */
	} else if (c->port) {
		reply_ended(c);
	} else {
		open_met(c, &w);
		reply_met(c, &w);
	}
}

/* --- a line --- */

static void reply_line(struct wait_call *c, unsigned which)
{
	struct json_writer w;
	char cursor[24];

	open_met(c, &w);
	json_key(&w, "log");
	json_object(&w);
	json_key(&w, "stream");
	json_text(&w, which ? "stderr" : "stdout");
	line_search_write(&c->lines[which], &w);
	snprintf(cursor, sizeof(cursor), "%" PRIu64, c->reader.cursor);
	json_key(&w, "cursor");
	json_text(&w, cursor);
	json_object_end(&w);
	reply_met(c, &w);
}

/* What there is no time for is read again. */
static bool take_piece(struct wait_call *c, struct journal_piece *piece, uint64_t until_ns)
{
	unsigned which = piece->kind == JOURNAL_STDERR;
	bool is_found = false;

	if (piece->kind == JOURNAL_GAP || (c->wanted && piece->kind != c->wanted))
		return false;
	while (piece->bytes.len && !is_found) {
		struct str slice = piece->bytes;
		size_t taken;

		slice.len = slice.len < SLICE ? slice.len : SLICE;
		taken = slice.len;
		is_found = line_search_feed(&c->lines[which], &slice);
		taken -= slice.len;
		piece->bytes = (struct str){piece->bytes.at + taken, piece->bytes.len - taken};
		if (uv_hrtime() >= until_ns)
			break;
	}
	c->reader.cursor -= piece->bytes.len;
	if (is_found)
		reply_line(c, which);
	return is_found;
}

/* All was looked at, and there will be no more. */
static void finish_lines(struct wait_call *c)
{
	for (unsigned i = 0; i < 2; i++) {
		if (line_search_end(&c->lines[i])) {
			reply_line(c, i);
			return;
		}
	}
	reply_ended(c);
}

static void on_again(uv_timer_t *timer)
{
	pump(container_of(timer, struct wait_call, again));
}

static void pump(struct wait_call *c)
{
	uint64_t until_ns = uv_hrtime() + TURN_NS;
	char room[JOURNAL_PIECE_MAX];
	struct journal_piece piece;
	struct err err;
	int r;

	do {
		r = journal_read(c->journal, &c->reader, room, &piece);
		if (r == 1 && take_piece(c, &piece, until_ns))
			return;
	} while (r == 1 && uv_hrtime() < until_ns);
	if (r == 1) {
		/* Not 0: libuv before 1.45 runs that in the same turn, before anybody else. */
		uv_timer_start(&c->again, on_again, 1, 0);
	} else if (r < 0) {
		err_set(&err, r, ERR_INTERNAL, "its output cannot be read: %s", strerror(-r));
		reply_err(c, &err);
	} else if (c->p->is_over || c->p->state == PROCESS_ENDED) {
		finish_lines(c);
	}
}

static void on_changed(struct journal_follower *follower)
{
	struct wait_call *c = container_of(follower, struct wait_call, follower);

	if (!uv_is_active((uv_handle_t *)&c->again))
		pump(c);
}

static int begin_log(struct wait_call *c, const struct body *b, struct err *err)
{
	int r = 0;

	if (!b->pattern_given)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "pattern is missing");
	c->pattern = pattern_new(b->pattern, err);
	if (!c->pattern)
		return -EINVAL;
	if (b->stream_given)
		r = handle_stream_name(b->stream, &c->wanted, err);
	if (r < 0)
		return r;
	c->journal = process_read(c->p, err);
	if (!c->journal)
		return -EIO;
	c->reader.cursor = journal_start(c->journal);
	if (b->since_given)
		r = handle_cursor(b->since, journal_end(c->journal), &c->reader.cursor, err);
	for (int i = 0; r == 0 && i < 2; i++) {
		if (line_search_open(&c->lines[i], c->pattern) < 0)
			r = err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	}
	if (r == 0) {
		journal_follow(c->journal, &c->follower);
		uv_timer_start(&c->again, on_again, 0, 0);
	}
	return r;
}

/* --- a port --- */

static void on_probed(void *arg, const struct file_result *result, const struct err *err)
{
	struct wait_call *c = arg;
	struct json_writer w;

	c->worker = NULL;
	if (err) {
		reply_err(c, err);
		return;
	}
	open_met(c, &w);
	json_key(&w, "port");
	json_object(&w);
	json_key(&w, "port");
	json_int(&w, c->port);
	if (c->request.flags & FILE_HTTP) {
		json_key(&w, "http_status");
		json_int(&w, (int64_t)(result->count & 0xffff));
	}
	json_object_end(&w);
	reply_met(c, &w);
}

static int check_http_path(struct str path, struct err *err)
{
	bool is_good = path.len && path.at[0] == '/' && path.len <= HTTP_PATH_MAX;

	for (size_t i = 0; i < path.len; i++)
		is_good = is_good && path.at[i] > ' ' && path.at[i] != 0x7f;
	return is_good ? 0
		       : err_set(err, -EINVAL, ERR_INVALID_REQUEST,
				 "http_path must begin with \"/\", and have at most %d characters "
				 "of ASCII without spaces",
				 HTTP_PATH_MAX);
}

static int begin_port(struct wait_call *c, const struct body *b, struct err *err)
{
	static const struct file_worker_ops ops = {.ended = on_probed};

	if (b->port < 1 || b->port > UINT16_MAX)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "port must be a number from 1 to 65535");
	if (b->http_given && check_http_path(b->http_path, err) < 0)
		return -EINVAL;
	c->port = (unsigned)b->port;
	if (!c->p->exec || c->p->sb->state != SANDBOX_RUNNING)
		return 0; /* it has ended, or is about to */
	snprintf(c->port_text, sizeof(c->port_text), "%u", c->port);
	c->request = (struct file_request){
		.op = FILE_OP_PROBE,
		.flags = b->http_given ? FILE_HTTP : 0,
		.path = b->http_given ? b->http_path : STR("/"),
		.other = str_of(c->port_text),
	};
	c->worker = file_worker_new(c->p->sb, &c->request, &ops, c, err);
	return c->worker ? 0 : -EAGAIN;
}

/* --- the request --- */

static int begin(struct wait_call *c, const struct body *b, struct err *err)
{
	int r = 0;

	if (b->timeout_ms > TIMEOUT_MAX_MS)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "timeout_ms is out of range");
	if (str_eq(b->what, STR("exit")))
		c->what = "exit";
	else if (str_eq(b->what, STR("log")))
		c->what = "log";
	else if (str_eq(b->what, STR("port")))
		c->what = "port";
	else
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "for must be \"exit\", \"log\" or \"port\"");
	if (c->what[0] == 'l')
		r = begin_log(c, b, err);
	else if (c->what[0] == 'p')
		r = begin_port(c, b, err);
	if (r < 0)
		return r;
	c->timeout_ms = b->timeout_ms;
	if (b->timeout_ms)
		uv_timer_start(&c->timeout, on_timeout, b->timeout_ms, 0);
	/* A line may have been printed before the end: that is looked for first. */
	if (process_wait_end(c->p, &c->ended) == 1 && !c->pattern)
		on_ended(&c->ended, c->p, NULL);
	return 0;
}

void handle_process_wait(struct exchange *x)
{
	/* clang-format off */
	static const struct json_field fields[] = {
		{ "for",        JSON_STRING, offsetof(struct body, what),       true,  offsetof(struct body, what_given) },
		{ "pattern",    JSON_STRING, offsetof(struct body, pattern),    false, offsetof(struct body, pattern_given) },
		{ "stream",     JSON_STRING, offsetof(struct body, stream),     false, offsetof(struct body, stream_given) },
		{ "since",      JSON_STRING, offsetof(struct body, since),      false, offsetof(struct body, since_given) },
		{ "port",       JSON_UINT,   offsetof(struct body, port) },
		{ "http_path",  JSON_STRING, offsetof(struct body, http_path),  false, offsetof(struct body, http_given) },
		{ "timeout_ms", JSON_UINT,   offsetof(struct body, timeout_ms) },
		{ NULL },
	};
	/* clang-format on */
	struct wait_call *c = calloc(1, sizeof(*c));
	struct process *p = NULL;
	struct body b = {.port = 0};
	struct err err;
	int r = c ? handle_process_find(x, &p, &err)
		  : err_set(&err, -ENOMEM, ERR_INTERNAL, "out of memory");

	if (r == 0)
		r = json_parse(exchange_arena(x), exchange_buffered(x), fields, &b, &err);
	if (r < 0) {
		free(c);
		exchange_reply_err(x, &err);
		return;
	}
	/* It waits for what goes on: nothing does in one that is frozen. */
	if ((str_eq(b.what, STR("port")) || p->sb->state == SANDBOX_FROZEN) &&
	    handle_process_later(x, p, handle_process_wait)) {
		free(c);
		return;
	}
	c->x = x;
	c->p = p;
	c->ended.done = on_ended;
	c->follower.changed = on_changed;
	list_init(&c->ended.link);
	list_init(&c->follower.link);
	process_hold(p);
	uv_timer_init(registry_loop(p->sb->registry), &c->timeout);
	uv_timer_init(registry_loop(p->sb->registry), &c->again);
	c->timeout.data = c->again.data = c;
	c->handles = 2;
	handle_generation(x, p->sb);
	exchange_on_gone(x, on_gone, c);
	if (p->state != PROCESS_ENDED)
		hold_begin(&c->hold, p->sb, HOLD_REQUEST);
	if (begin(c, &b, &err) < 0)
		reply_err(c, &err);
}
