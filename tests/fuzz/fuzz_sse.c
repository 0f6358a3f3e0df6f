/* Reads the event as a browser does; it must find what was put in, with every line break an LF. */
#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "proto/sse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Lines end with LF only: we write nothing else. */
static bool next_line(struct str *in, struct str *ret)
{
	const char *lf = in->len ? memchr(in->at, '\n', in->len) : NULL;

	if (!lf)
		return false;
	*ret = (struct str){in->at, (size_t)(lf - in->at)};
	*in = (struct str){lf + 1, in->len - ret->len - 1};
	return true;
}

static void check_field(struct str *in, struct str name, struct str value)
{
	struct str line;
	bool is_there = next_line(in, &line);

	assert(is_there && str_starts_with(line, name));
	assert(str_eq((struct str){line.at + name.len, line.len - name.len}, value));
}

static void check_event(struct str in, struct str event, struct str id, struct str data)
{
	cleanup_free char *text = malloc(data.len + 1);
	size_t len = 0;
	struct str line;

	for (size_t i = 0; i < data.len; i++) {
		bool is_pair = data.at[i] == '\n' && i && data.at[i - 1] == '\r';

		if (!is_pair)
			text[len++] = data.at[i] == '\r' ? '\n' : data.at[i];
	}
	text[len++] = '\n';
	if (id.len)
		check_field(&in, STR("id: "), id);
	if (event.len)
		check_field(&in, STR("event: "), event);
	data = (struct str){text, len};
	while (next_line(&data, &line))
		check_field(&in, STR("data: "), line);
	assert(str_eq(in, STR("\n")));
}

static bool is_name(struct str s)
{
	for (size_t i = 0; i < s.len; i++) {
		if (s.at[i] == '\n' || s.at[i] == '\r' || s.at[i] == '\0')
			return false;
	}
	return true;
}

/* The first two bytes say how long event and id are. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct str rest = {(const char *)bytes + 2, size - 2}, event, id;
	struct buf out;
	int r;

	if (size < 2)
		return 0;
	event = (struct str){rest.at, bytes[0] < rest.len ? bytes[0] : rest.len};
	rest = (struct str){rest.at + event.len, rest.len - event.len};
	id = (struct str){rest.at, bytes[1] < rest.len ? bytes[1] : rest.len};
	rest = (struct str){rest.at + id.len, rest.len - id.len};
	buf_init(&out, 512);
	r = sse_format(&out, event, id, rest);
	if (!is_name(event) || !is_name(id))
		assert(r == -EINVAL && buf_len(&out) == 0);
	else if (r == 0)
		check_event((struct str){buf_at(&out), buf_len(&out)}, event, id, rest);
	else
		assert(r == -EMSGSIZE && buf_len(&out) == 0 &&
		       7 * rest.len + event.len + id.len > 480);
	buf_close(&out);
	return 0;
}
