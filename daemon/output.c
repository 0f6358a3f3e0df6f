#include "daemon/output.h"

#include <string.h>

#include "proto/base64.h"
#include "proto/exec_request.h"

#define CHUNK_MAX (48 * 1024) /* of output in one event */

void output_init(struct output *o, size_t max)
{
	*o = (struct output){.tail_len = {0, 0}};
	for (int i = 0; i < 2; i++)
		buf_init(&o->kept[i].bytes, max);
}

void output_close(struct output *o)
{
	for (int i = 0; i < 2; i++)
		buf_close(&o->kept[i].bytes);
}

/* --- as events --- */

static void send_event(struct sse *sse, int which, struct str bytes)
{
	struct buf text;

	if (!bytes.len)
		return;
	buf_init(&text, 1024 * 1024);
	if (base64_encode(&text, bytes) == 0)
		sse_send(sse, which ? STR("stderr") : STR("stdout"), (struct str){NULL, 0},
			 (struct str){buf_at(&text), buf_len(&text)});
	buf_close(&text);
}

/* Clients decode each event on its own, so a character is never split between two. */
void output_send(struct output *o, struct sse *sse, bool is_stderr, struct str bytes)
{
	char joined[sizeof(o->tail[0]) + CHUNK_MAX];

	while (bytes.len) {
		size_t room = CHUNK_MAX, held = o->tail_len[is_stderr], keep;
		size_t n = bytes.len < room ? bytes.len : room;
		struct str all = {joined, held + n};

		memcpy(joined, o->tail[is_stderr], held);
		memcpy(joined + held, bytes.at, n);
		bytes = (struct str){bytes.at + n, bytes.len - n};
		keep = exec_utf8_tail(all);
		memcpy(o->tail[is_stderr], joined + all.len - keep, keep);
		o->tail_len[is_stderr] = keep;
		send_event(sse, is_stderr, (struct str){joined, all.len - keep});
	}
}

void output_send_rest(struct output *o, struct sse *sse)
{
	for (int i = 0; i < 2; i++)
		send_event(sse, i, (struct str){o->tail[i], o->tail_len[i]});
}

/* --- as one answer --- */

void output_keep(struct output *o, bool is_stderr, struct str bytes)
{
	struct output_kept *k = &o->kept[is_stderr];
	size_t room = k->bytes.limit - buf_len(&k->bytes);
	size_t n = bytes.len < room ? bytes.len : room;

	if (buf_append(&k->bytes, bytes.at, n) < 0)
		n = 0;
	k->dropped += bytes.len - n;
}

static struct str kept_bytes(const struct output_kept *k)
{
	return (struct str){buf_at(&k->bytes), buf_len(&k->bytes)};
}

/* What was cut was cut somewhere: a character of which half is left goes too. */
static void cut_at_character(struct output_kept *k)
{
	struct str all = kept_bytes(k);
	size_t half = k->dropped ? exec_utf8_tail(all) : 0;

	if (half && utf8_is_valid((struct str){all.at, all.len - half})) {
		k->bytes.end -= half;
		k->dropped += half;
	}
}

/* In JSON, at most. */
static size_t escaped_len(struct str s)
{
	size_t len = s.len;

	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.at[i];

		if (c == '"' || c == '\\' || (c >= '\b' && c <= '\r' && c != '\v'))
			len += 1;
		else if (c < 0x20 || c == 0x7f)
			len += 5;
	}
	return len;
}

/* Text, unless escapes make so much of it that an answer might not hold it: base64 always fits. */
static bool is_text(const struct output_kept *k)
{
	struct str s = kept_bytes(k);
	size_t fits = s.len > OUTPUT_TEXT_GROWS_MAX / 2 ? s.len / 3 * 4 : OUTPUT_TEXT_GROWS_MAX;

	return utf8_is_valid(s) && escaped_len(s) <= fits;
}

static void write_kept(struct json_writer *w, const char *name, const struct output_kept *k,
		       bool as_text)
{
	struct buf text;

	json_key(w, name);
	if (as_text) {
		json_str(w, kept_bytes(k));
		return;
	}
	buf_init(&text, 2 * EXEC_OUTPUT_MAX);
	base64_encode(&text, kept_bytes(k));
	json_str(w, (struct str){buf_at(&text), buf_len(&text)});
	buf_close(&text);
}

void output_write(struct output *o, struct json_writer *w)
{
	bool as_text;

	for (int i = 0; i < 2; i++)
		cut_at_character(&o->kept[i]);
	as_text = is_text(&o->kept[0]) && is_text(&o->kept[1]);
	write_kept(w, "stdout", &o->kept[0], as_text);
	write_kept(w, "stderr", &o->kept[1], as_text);
	json_key(w, "encoding");
	json_text(w, as_text ? "utf-8" : "base64");
	json_key(w, "truncated");
	json_bool(w, o->kept[0].dropped || o->kept[1].dropped);
}
