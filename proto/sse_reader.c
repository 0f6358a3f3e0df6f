#include "proto/sse_reader.h"

#include <errno.h>

#define MARK STR("\xef\xbb\xbf")

void sse_reader_init(struct sse_reader *r, size_t max)
{
	*r = (struct sse_reader){.event = ""};
	buf_init(&r->line, max);
	buf_init(&r->data, max);
}

void sse_reader_close(struct sse_reader *r)
{
	buf_close(&r->line);
	buf_close(&r->data);
}

/* 1: `ret` is a line, in `in`'s bytes or in r->line. 0: it goes on in the next piece. */
static int take_line(struct sse_reader *r, struct str *in, struct str *ret)
{
	size_t len = 0;
	int error;

	if (r->was_cr && in->len) {
		r->was_cr = false;
		if (in->at[0] == '\n')
			*in = (struct str){in->at + 1, in->len - 1};
	}
	while (len < in->len && in->at[len] != '\n' && in->at[len] != '\r')
		len++;
	if (len > r->line.limit)
		return -EMSGSIZE;
	*ret = (struct str){in->at, len};
	if (len == in->len || buf_len(&r->line)) {
		error = buf_append(&r->line, in->at, len);
		if (error < 0)
			return error;
	}
	if (len == in->len) {
		*in = (struct str){in->at + len, 0};
		return 0;
	}
	if (buf_len(&r->line))
		*ret = (struct str){buf_at(&r->line), buf_len(&r->line)};
	r->was_cr = in->at[len] == '\r';
	*in = (struct str){in->at + len + 1, in->len - len - 1};
	return 1;
}

static int take_field(struct sse_reader *r, struct str line)
{
	struct str value = line, name = str_cut(&value, ':');
	int error;

	if (name.len == line.len)
		value = STR("");
	if (value.len && value.at[0] == ' ')
		value = (struct str){value.at + 1, value.len - 1};
	if (str_eq(name, STR("data"))) {
		error = buf_append_str(&r->data, value);
		return error < 0 ? error : buf_append(&r->data, "\n", 1);
	}
	if (str_eq(name, STR("event"))) {
		if (value.len > SSE_NAME_MAX)
			return -EMSGSIZE;
		memcpy(r->event, value.at, value.len);
		r->event[value.len] = '\0';
	}
	return 0;
}

static void forget(struct sse_reader *r)
{
	buf_consume(&r->data, buf_len(&r->data));
	r->event[0] = '\0';
	r->was_event = false;
}

/* An empty line: the end of an event, if there was one. */
static bool end_event(struct sse_reader *r, struct sse_event *ret)
{
	if (!buf_len(&r->data)) {
		forget(r);
		return false;
	}
	ret->event = str_of(r->event);
	ret->data = (struct str){buf_at(&r->data), buf_len(&r->data) - 1};
	r->was_event = true;
	return true;
}

int sse_reader_next(struct sse_reader *r, struct str *in, struct sse_event *ret)
{
	struct str line;
	int got;

	if (r->was_event)
		forget(r);
	while ((got = take_line(r, in, &line)) > 0) {
		if (!r->is_begun && str_starts_with(line, MARK))
			line = (struct str){line.at + MARK.len, line.len - MARK.len};
		r->is_begun = true;
		if (!line.len && end_event(r, ret)) {
			buf_consume(&r->line, buf_len(&r->line));
			return 1;
		}
		got = line.len ? take_field(r, line) : 0;
		buf_consume(&r->line, buf_len(&r->line));
		if (got < 0)
			return got;
	}
	return got;
}
