#include "proto/sse.h"

#include <errno.h>
#include <stdbool.h>

/* Steps through lines. Each kind of break is searched for once, however the two are mixed. */
struct lines {
	const char *at, *end;
	const char *lf, *cr; /* the next of each, `end` if there is none */
};

static const char *find(const char *at, const char *end, char c)
{
	const char *found = at < end ? memchr(at, c, (size_t)(end - at)) : NULL;

	return found ? found : end;
}

static struct lines lines_of(struct str data)
{
	const char *at = data.len ? data.at : "";
	const char *end = at + data.len;

	return (struct lines){at, end, find(at, end, '\n'), find(at, end, '\r')};
}

/* False after the last line; a text without any break is one line, an empty one too. */
static bool lines_next(struct lines *l, struct str *ret)
{
	const char *stop;

	if (!l->at)
		return false;
	stop = l->lf < l->cr ? l->lf : l->cr;
	*ret = (struct str){l->at, (size_t)(stop - l->at)};
	if (stop == l->end) {
		l->at = NULL;
		return true;
	}
	l->at = stop + 1;
	if (stop == l->cr) {
		if (l->lf == stop + 1 && l->lf != l->end)
			l->at++;
		l->cr = find(l->at, l->end, '\r');
	}
	if (l->lf < l->at)
		l->lf = find(l->at, l->end, '\n');
	return true;
}

static bool is_one_line(struct str s)
{
	return !s.len || (!memchr(s.at, '\n', s.len) && !memchr(s.at, '\r', s.len) &&
			  !memchr(s.at, '\0', s.len));
}

static char *put(char *at, struct str s)
{
	if (s.len)
		memcpy(at, s.at, s.len);
	return at + s.len;
}

static char *put_field(char *at, struct str name, struct str value)
{
	at = put(at, name);
	at = put(at, value);
	*at++ = '\n';
	return at;
}

int sse_format(struct buf *out, struct str event, struct str id, struct str data)
{
	const struct str id_name = STR("id: "), event_name = STR("event: "),
			 data_name = STR("data: ");
	struct lines lines = lines_of(data);
	size_t size = 1; /* the empty line at the end */
	struct str line;
	char *at;

	if (!is_one_line(event) || !is_one_line(id))
		return -EINVAL;
	/* A first pass for the size: the event is appended whole or not at all. */
	if (id.len)
		size += id_name.len + id.len + 1;
	if (event.len)
		size += event_name.len + event.len + 1;
	while (lines_next(&lines, &line))
		size += data_name.len + line.len + 1;
	at = buf_room(out, size);
	if (!at)
		return -EMSGSIZE;
	if (id.len)
		at = put_field(at, id_name, id);
	if (event.len)
		at = put_field(at, event_name, event);
	lines = lines_of(data);
	while (lines_next(&lines, &line))
		at = put_field(at, data_name, line);
	*at = '\n';
	buf_added(out, size);
	return 0;
}
