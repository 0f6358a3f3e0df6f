#include "daemon/run_log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "proto/json.h"
#include "proto/time_text.h"
#include "proto/utf8.h"

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

struct run_log *run_log_new(void)
{
	struct run_log *log = calloc(1, sizeof(*log));

	if (!log)
		return NULL;
	log->holders = 1;
	buf_init(&log->text, RUN_LOG_MAX);
	for (size_t i = 0; i < array_len(log->lines); i++)
		buf_init(&log->lines[i], RUN_LINE_MAX);
	return log;
}

struct run_log *run_log_of(struct str text, uint64_t dropped)
{
	struct run_log *log = run_log_new();

	if (!log)
		return NULL;
	log->dropped = dropped;
	if (text.len <= 2 || buf_append(&log->text, text.at + 1, text.len - 2) == 0)
		return log;
	run_log_release(log);
	return NULL;
}

struct run_log *run_log_hold(struct run_log *log)
{
	log->holders++;
	return log;
}

void run_log_release(struct run_log *log)
{
	if (!log || --log->holders > 0)
		return;
	buf_close(&log->text);
	for (size_t i = 0; i < array_len(log->lines); i++)
		buf_close(&log->lines[i]);
	free(log);
}

/* `ret` gets the text with U+FFFD for each byte that belongs to no character. */
static int mend(struct str s, struct buf *ret)
{
	int r = 0;

	while (r == 0 && s.len) {
		size_t good = utf8_valid_len(s);

		r = buf_append(ret, s.at, good);
		s = (struct str){s.at + good, s.len - good};
		if (r == 0 && s.len) {
			r = buf_append(ret, replacement, sizeof(replacement) - 1);
			s = (struct str){s.at + 1, s.len - 1};
		}
	}
	return r;
}

static int write_entry(struct json_writer *w, struct str level, struct str message, int64_t at_ms)
{
	json_object(w);
	json_key(w, "level");
	json_str(w, level);
	json_key(w, "message");
	json_str(w, message);
	time_text_write(w, "timestamp", at_ms);
	json_object_end(w);
	return w->error;
}

/* The whole entry or nothing of it. */
static int append_entry(struct run_log *log, struct json_writer *w)
{
	struct buf entry;
	size_t before = buf_len(&log->text);
	int r;

	buf_init(&entry, RUN_LOG_MAX);
	r = json_writer_end(w, &entry);
	if (r == 0 && before)
		r = buf_append(&log->text, ",", 1);
	if (r == 0)
		r = buf_append(&log->text, buf_at(&entry), buf_len(&entry));
	if (r < 0)
		log->text.end = log->text.start + before;
	buf_close(&entry);
	return r;
}

void run_log_add(struct run_log *log, struct str level, struct str message, int64_t at_ms)
{
	struct json_writer w;
	struct buf mended;
	int r = -1;

	/* Once it is full it stays so: no gap in the midst. */
	if (log->dropped) {
		log->dropped++;
		return;
	}
	json_writer_init(&w, false);
	buf_init(&mended, RUN_LOG_MAX);
	if (level.len <= RUN_LEVEL_MAX && message.len < RUN_LOG_MAX)
		r = mend(message, &mended);
	if (r == 0)
		r = write_entry(&w, level, (struct str){buf_at(&mended), buf_len(&mended)}, at_ms);
	if (r == 0)
		r = append_entry(log, &w);
	if (r < 0)
		log->dropped++;
	buf_close(&mended);
	json_writer_close(&w);
}

/* How many bytes its last character has, if that is not plain ASCII. */
static size_t last_character(struct str s)
{
	size_t len = 0;

	while (len < 3 && len < s.len && (s.at[s.len - 1 - len] & 0xc0) == 0x80)
		len++;
	return len < s.len && (s.at[s.len - 1 - len] & 0xc0) == 0xc0 ? len + 1 : 0;
}

/* `is_cut`: it goes on, so its last character may be half of one. */
static void end_line(struct run_log *log, bool is_stderr, bool is_cut, int64_t at_ms)
{
	struct buf *line = &log->lines[is_stderr];
	struct str text = {buf_at(line), buf_len(line)};
	size_t rest = is_cut ? last_character(text) : 0;

	text.len -= rest;
	if (!is_cut && text.len && text.at[text.len - 1] == '\r')
		text.len--;
	run_log_add(log, is_stderr ? STR("stderr") : STR("stdout"), text, at_ms);
	buf_consume(line, buf_len(line) - rest);
}

/* The log is full: lines are counted, however many there are, and not looked at. */
static void drop_lines(struct run_log *log, bool is_stderr, struct str bytes)
{
	struct buf *line = &log->lines[is_stderr];
	char last = bytes.at[bytes.len - 1];
	size_t count = 0;

	for (size_t i = 0; i < bytes.len; i++)
		count += bytes.at[i] == '\n';
	log->dropped += count;
	buf_consume(line, buf_len(line));
	if (last != '\n' && buf_append(line, &last, 1) < 0) /* it goes on, and counts at its end */
		log->dropped++;
}

void run_log_output(struct run_log *log, bool is_stderr, struct str bytes, int64_t at_ms)
{
	struct buf *line = &log->lines[is_stderr];

	while (bytes.len && !log->dropped) {
		const char *end = memchr(bytes.at, '\n', bytes.len);
		size_t len = end ? (size_t)(end - bytes.at) : bytes.len;
		size_t room = RUN_LINE_MAX - buf_len(line);
		bool is_cut = len > room;

		if (is_cut)
			len = room;
		if (buf_append(line, bytes.at, len) < 0)
			log->dropped++;
		if (end || is_cut)
			end_line(log, is_stderr, is_cut, at_ms);
		len += end && !is_cut;
		bytes = (struct str){bytes.at + len, bytes.len - len};
	}
	if (bytes.len)
		drop_lines(log, is_stderr, bytes);
}

void run_log_flush(struct run_log *log, int64_t at_ms)
{
	for (int i = 0; i < 2; i++) {
		if (buf_len(&log->lines[i]))
			end_line(log, i, false, at_ms);
	}
}

int run_log_write(const struct run_log *log, struct buf *out)
{
	int r = buf_append(out, "[", 1);

	if (r == 0)
		r = buf_append(out, buf_at(&log->text), buf_len(&log->text));
	return r == 0 ? buf_append(out, "]", 1) : r;
}

bool run_log_read(const struct run_log *log, struct run_log_reader *reader, struct str *ret)
{
	/* In a message a quote has a backslash before it, and a comma behind it if it ends that. */
	static const char between[] = "},{\"level\":";
	size_t len = buf_len(&log->text);
	const char *at, *end;

	if (reader->at >= len)
		return false;
	at = buf_at(&log->text) + reader->at;
	end = memmem(at, len - reader->at, between, sizeof(between) - 1);
	*ret = (struct str){at, end ? (size_t)(end - at) + 1 : len - reader->at};
	reader->at += ret->len + 1; /* behind the comma, which may have yet to come */
	reader->cursor++;
	return true;
}

int run_log_seek(const struct run_log *log, struct run_log_reader *reader, uint64_t cursor)
{
	struct str entry;

	*reader = (struct run_log_reader){0};
	while (reader->cursor < cursor) {
		if (!run_log_read(log, reader, &entry))
			return -ENOENT;
	}
	return 0;
}
