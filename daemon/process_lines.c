#include "daemon/process_lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/utf8.h"

#define LAST_LINES 10
#define LAST_BYTES 8192

int line_search_open(struct line_search *l, const struct pattern *pattern)
{
	l->search = pattern_search_new(pattern);
	return l->search ? 0 : -ENOMEM;
}

void line_search_close(struct line_search *l)
{
	if (l->search)
		pattern_search_free(l->search);
	l->search = NULL;
}

static void add(struct line_search *l, struct str bytes)
{
	size_t room = sizeof(l->bytes) - l->len;
	size_t n = bytes.len < room ? bytes.len : room;

	if (!n)
		return;
	memcpy(l->bytes + l->len, bytes.at, n);
	l->len += n;
	pattern_search_feed(l->search, (struct str){bytes.at, n});
}

static bool check(struct line_search *l)
{
	size_t start, end;

	l->is_found = pattern_search_found(l->search, &start, &end);
	return l->is_found;
}

bool line_search_feed(struct line_search *l, struct str *bytes)
{
	while (bytes->len) {
		const char *newline = memchr(bytes->at, '\n', bytes->len);
		size_t n = newline ? (size_t)(newline - bytes->at) : bytes->len;

		add(l, (struct str){bytes->at, n});
		if (newline)
			n++;
		*bytes = (struct str){bytes->at + n, bytes->len - n};
		if (newline)
			pattern_search_end(l->search);
		if (check(l))
			return true;
		if (newline) {
			l->len = 0;
			pattern_search_begin(l->search);
		}
	}
	return false;
}

bool line_search_end(struct line_search *l)
{
	/* An empty line that nobody printed is none. */
	if (!l->len)
		return false;
	pattern_search_end(l->search);
	return check(l);
}

/* What is not text becomes "?". */
static void write_text(struct json_writer *w, struct str bytes)
{
	char text[LINE_MAX_BYTES] = "";
	size_t at = 0;

	if (bytes.len)
		memcpy(text, bytes.at, bytes.len);
	while ((at += utf8_valid_len((struct str){text + at, bytes.len - at})) < bytes.len)
		text[at++] = '?';
	json_str(w, (struct str){text, bytes.len});
}

void line_search_write(const struct line_search *l, struct json_writer *w)
{
	size_t start = 0, end = 0;

	pattern_search_found(l->search, &start, &end);
	json_key(w, "text");
	write_text(w, (struct str){l->bytes, l->len});
	json_key(w, "match");
	write_text(w, (struct str){l->bytes + start, end - start});
}

/* The last bytes, as they came. */
static size_t read_last(struct journal *journal, char *last)
{
	uint64_t end = journal_end(journal), start = journal_start(journal);
	struct journal_reader reader = {.cursor = end - start > LAST_BYTES ? end - LAST_BYTES
									   : start};
	char room[JOURNAL_PIECE_MAX];
	struct journal_piece piece;
	size_t len = 0;

	while (journal_read(journal, &reader, room, &piece) == 1) {
		size_t n = piece.bytes.len < LAST_BYTES - len ? piece.bytes.len : LAST_BYTES - len;

		if (n)
			memcpy(last + len, piece.bytes.at, n);
		len += n;
	}
	return len;
}

void process_lines_write_last(struct journal *journal, struct json_writer *w)
{
	char last[LAST_BYTES];
	size_t len = journal ? read_last(journal, last) : 0, at;
	unsigned lines = 0;

	if (len && last[len - 1] == '\n')
		len--;
	for (at = len; at > 0; at--) {
		if (last[at - 1] == '\n' && ++lines == LAST_LINES)
			break;
	}
	json_array(w);
	while (at < len) {
		const char *newline = memchr(last + at, '\n', len - at);
		size_t n = newline ? (size_t)(newline - last) - at : len - at;

		write_text(w, (struct str){last + at, n});
		at += n + 1;
	}
	json_array_end(w);
}
