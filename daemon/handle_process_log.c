/* GET .../processes/{process}/logs: what was printed, and what is being printed. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "daemon/handle_process.h"
#include "daemon/handle_sandbox.h"
#include "daemon/registry.h"
#include "daemon/routes.h"
#include "daemon/sse.h"
#include "proto/base64.h"
#include "proto/time_text.h"
#include "proto/uri.h"

#define TURN_NS (5 * 1000000ULL) /* so that one long log does not hold up all others */

/* One request. Lives until its stream and its timer are closed. */
struct log_call {
	struct process *p; /* held, and read */
	struct journal *journal;
	struct journal_follower follower;
	struct journal_reader reader;
	uint64_t until;  /* a cursor: what comes behind is not asked for */
	unsigned wanted; /* a kind of stream; 0: both */
	bool follows, is_raw, is_paused, is_over;
	unsigned handles;
	uv_timer_t again; /* there is more to send than one turn may */
	struct sse sse;
	struct stream *stream; /* raw */
	/* The beginning of a character at the end of what was sent, of this kind. */
	char tail[4];
	size_t tail_len;
	enum journal_kind tail_kind;
	int64_t tail_ms;
};

static void pump(struct log_call *c);

static void release(struct log_call *c)
{
	if (--c->handles == 0)
		free(c);
}

static void on_again_closed(uv_handle_t *handle)
{
	release(handle->data);
}

/* Once: nobody reads on from here. */
static void be_over(struct log_call *c)
{
	if (c->is_over)
		return;
	c->is_over = true;
	list_remove(&c->follower.link);
	process_read_end(c->p);
	process_release(take(c->p));
	uv_close((uv_handle_t *)&c->again, on_again_closed);
}

/* status: 0, or why the answer is cut. */
static void finish(struct log_call *c, int status)
{
	be_over(c);
	if (!c->is_raw)
		sse_end(&c->sse);
	else if (c->stream)
		stream_end(take(c->stream), status);
	if (c->is_raw)
		release(c);
}

/* --- events --- */

struct event {
	const char *name, *type;
	uint64_t cursor;
	int64_t time_ms;
};

static void open_event(const struct event *e, struct json_writer *w)
{
	char cursor[24], time[TIME_TEXT_SIZE];

	json_writer_init(w, false);
	json_object(w);
	json_key(w, "type");
	json_text(w, e->type);
	snprintf(cursor, sizeof(cursor), "%" PRIu64, e->cursor);
	json_key(w, "cursor");
	json_text(w, cursor);
	if (time_text_format(e->time_ms, time) == 0) {
		json_key(w, "timestamp");
		json_text(w, time);
	}
}

static void send_event(struct log_call *c, const struct event *e, struct json_writer *w)
{
	struct buf text;
	char id[24];

	snprintf(id, sizeof(id), "%" PRIu64, e->cursor);
	buf_init(&text, 1024 * 1024);
	json_object_end(w);
	if (json_writer_end(w, &text) == 0)
		sse_send(&c->sse, str_of(e->name), str_of(id),
			 (struct str){buf_at(&text), buf_len(&text)});
	json_writer_close(w);
	buf_close(&text);
}

static void send_bytes(struct log_call *c, enum journal_kind kind, struct str bytes,
		       int64_t time_ms)
{
	const char *name = kind == JOURNAL_STDERR ? "stderr" : "stdout";
	struct event e = {name, name, c->reader.cursor - c->tail_len, time_ms};
	struct json_writer w;
	struct buf text;

	if (!bytes.len)
		return;
	buf_init(&text, 1024 * 1024);
	if (base64_encode(&text, bytes) == 0) {
		open_event(&e, &w);
		json_key(&w, "data");
		json_str(&w, (struct str){buf_at(&text), buf_len(&text)});
		send_event(c, &e, &w);
	}
	buf_close(&text);
}

/* What was held back goes as it is. */
static void send_tail(struct log_call *c)
{
	struct str tail = {c->tail, c->tail_len};

	c->tail_len = 0;
	send_bytes(c, c->tail_kind, tail, c->tail_ms);
}

static void send_truncated(struct log_call *c, const struct journal_piece *piece)
{
	struct event e = {"truncated", "truncated", c->reader.cursor,
			  piece->time_ms ? piece->time_ms : registry_now_ms()};
	struct json_writer w;

	open_event(&e, &w);
	json_key(&w, "bytes");
	json_int(&w, (int64_t)piece->gap);
	send_event(c, &e, &w);
}

static void send_exit(struct log_call *c)
{
	struct event e = {"exit", "terminal", c->reader.cursor, c->p->ended_at_ms};
	struct json_writer w;

	open_event(&e, &w);
	process_write_end(c->p, &w);
	send_event(c, &e, &w);
}

/* Clients decode each event on its own, so a character is not split between two. */
static void send_piece(struct log_call *c, const struct journal_piece *piece)
{
	char joined[sizeof(c->tail) + JOURNAL_PIECE_MAX];
	struct str all = {joined, c->tail_len + piece->bytes.len};
	uint64_t behind = c->reader.cursor;

	if (c->tail_len && c->tail_kind != piece->kind) {
		c->reader.cursor = behind - piece->bytes.len;
		send_tail(c);
		c->reader.cursor = behind;
		all.len = piece->bytes.len;
	}
	memcpy(joined, c->tail, c->tail_len);
	memcpy(joined + c->tail_len, piece->bytes.at, piece->bytes.len);
	c->tail_len = exec_utf8_tail(all);
	memcpy(c->tail, joined + all.len - c->tail_len, c->tail_len);
	c->tail_kind = piece->kind;
	c->tail_ms = piece->time_ms;
	send_bytes(c, piece->kind, (struct str){joined, all.len - c->tail_len}, piece->time_ms);
}

/* --- from the journal to the client --- */

static void take_piece(struct log_call *c, const struct journal_piece *piece)
{
	bool is_wanted = !c->wanted || piece->kind == c->wanted;

	if (c->is_raw) {
		if (piece->kind != JOURNAL_GAP && is_wanted)
			stream_push(c->stream, piece->bytes.at, piece->bytes.len);
	} else if (piece->kind == JOURNAL_GAP) {
		uint64_t behind = c->reader.cursor;

		c->reader.cursor = behind - piece->gap;
		send_tail(c);
		c->reader.cursor = behind;
		send_truncated(c, piece);
	} else if (is_wanted) {
		send_piece(c, piece);
	}
}

/* As journal_read(), up to where it is asked for. */
static int read_piece(struct log_call *c, char *room, struct journal_piece *ret)
{
	uint64_t more;
	int r = c->reader.cursor < c->until ? journal_read(c->journal, &c->reader, room, ret) : 0;

	if (r != 1 || c->reader.cursor <= c->until)
		return r;
	more = c->reader.cursor - c->until;
	c->reader.cursor = c->until;
	if (ret->kind == JOURNAL_GAP)
		ret->gap -= more;
	else
		ret->bytes.len -= more;
	return 1;
}

/* There is nothing more now. */
static void rest(struct log_call *c)
{
	bool has_ended = c->p->is_over || c->p->state == PROCESS_ENDED;

	if (!has_ended && c->follows)
		return;
	if (!c->is_raw) {
		send_tail(c);
		if (c->p->is_over)
			send_exit(c);
	}
	/* Its sandbox was deleted, or berthd stops: that was not all. */
	finish(c, has_ended && !c->p->is_over ? -ECONNRESET : 0);
}

static void on_again(uv_timer_t *timer)
{
	pump(timer->data);
}

static void pump(struct log_call *c)
{
	uint64_t until_ns = uv_hrtime() + TURN_NS;
	char room[JOURNAL_PIECE_MAX];
	struct journal_piece piece;
	int r;

	do {
		if (c->is_paused || c->is_over)
			return;
		r = read_piece(c, room, &piece);
		if (r == 1)
			take_piece(c, &piece);
	} while (r == 1 && uv_hrtime() < until_ns);
	if (c->is_over || c->is_paused)
		return;
	/* Not 0: libuv before 1.45 runs that in the same turn, before anybody else. */
	if (r == 1)
		uv_timer_start(&c->again, on_again, 1, 0);
	else if (r == 0)
		rest(c);
	else
		finish(c, r);
}

static void on_changed(struct journal_follower *follower)
{
	struct log_call *c = container_of(follower, struct log_call, follower);

	if (!uv_is_active((uv_handle_t *)&c->again))
		pump(c);
}

/* --- the client --- */

static void on_pause(void *arg)
{
	struct log_call *c = arg;

	c->is_paused = true;
}

static void on_resume(void *arg)
{
	struct log_call *c = arg;

	c->is_paused = false;
	if (!c->is_over)
		uv_timer_start(&c->again, on_again, 0, 0);
}

static void on_abort(void *arg)
{
	struct log_call *c = arg;

	c->stream = NULL;
	if (!c->is_over)
		finish(c, 0);
}

static void on_events_closed(void *arg)
{
	release(arg);
}

static const struct stream_producer producer = {on_pause, on_resume, on_abort};

/* --- the request --- */

static bool wants_raw(const struct http_head *head)
{
	const struct str *accept = http_header_find(head, STR("accept"));

	return accept && http_list_has(*accept, STR("application/octet-stream"));
}

static int take_query(struct exchange *x, struct log_call *c, struct err *err)
{
	const struct str *last = http_header_find(exchange_head(x), STR("last-event-id"));
	struct arena *arena = exchange_arena(x);
	struct str query = exchange_head(x)->query, since, name = STR("both");
	uint64_t end = journal_end(c->journal);
	bool replay = true;
	int r = handle_query_flag(x, "replay", &replay, err);

	if (r == 0)
		r = handle_query_flag(x, "follow", &c->follows, err);
	c->until = c->follows ? UINT64_MAX : end;
	if (r < 0)
		return r;
	if (uri_query(arena, query, STR("stream"), &name) < 0)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "stream is given twice");
	r = handle_stream_name(name, &c->wanted, err);
	if (r < 0)
		return r;
	r = uri_query(arena, query, STR("since"), &since);
	if (r < 0)
		return err_set(err, r, ERR_INVALID_REQUEST, "since is given twice");
	if (r > 0)
		return handle_cursor(since, end, &c->reader.cursor, err);
	if (last && last->len)
		return handle_cursor(*last, end, &c->reader.cursor, err);
	/* Not from 0: who names no place misses nothing. */
	c->reader.cursor = replay ? journal_start(c->journal) : end;
	return 0;
}

static void begin(struct exchange *x, struct log_call *c, uv_loop_t *loop)
{
	uv_timer_init(loop, &c->again);
	c->again.data = c;
	c->handles = 2; /* the timer, and the stream */
	c->follower.changed = on_changed;
	list_init(&c->follower.link);
	process_hold(c->p);
	handle_generation(x, c->p->sb);
	if (c->is_raw) {
		c->stream = exchange_respond(x, 200, "application/octet-stream", &producer, c);
		if (!c->stream) {
			finish(c, 0);
			return;
		}
	} else if (sse_start(&c->sse, x,
			     &(struct sse_config){loop, SSE_HEARTBEAT_MS, &producer,
						  on_events_closed, c}) < 0) {
		finish(c, 0);
		return;
	}
	journal_follow(c->journal, &c->follower);
	uv_timer_start(&c->again, on_again, 0, 0);
}

void handle_process_logs(struct exchange *x)
{
	struct log_call *c = calloc(1, sizeof(*c));
	struct process *p = NULL;
	struct err err;
	int r = c ? handle_process_find(x, &p, &err)
		  : err_set(&err, -ENOMEM, ERR_INTERNAL, "out of memory");

	if (r == 0) {
		c->p = p;
		c->is_raw = wants_raw(exchange_head(x));
		c->journal = process_read(p, &err);
		r = c->journal ? take_query(x, c, &err) : -EIO;
	}
	if (r == 0) {
		begin(x, c, registry_loop(p->sb->registry));
		return;
	}
	if (c && c->journal)
		process_read_end(p);
	free(c);
	exchange_reply_err(x, &err);
}
