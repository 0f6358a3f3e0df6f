/*
 * Up to the first line break: a name; then a raw query. What is decoded, encoded and decoded again
 * must stay the same; a value that is found must be the decoded text behind its name.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"
#include "proto/uri.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
	if (!condition)
		abort();
}

static struct str encode(struct arena *arena, struct str s)
{
	static const char digits[] = "0123456789aBcDeF";
	char *bytes = arena_alloc(arena, 3 * s.len + 1);

	must(bytes != NULL);
	for (size_t i = 0; i < s.len; i++) {
		bytes[3 * i] = '%';
		bytes[3 * i + 1] = digits[(uint8_t)s.at[i] >> 4];
		bytes[3 * i + 2] = digits[(uint8_t)s.at[i] & 15];
	}
	return (struct str){bytes, 3 * s.len};
}

static void check_decode(struct arena *arena, struct str raw)
{
	struct str once, again;

	if (uri_decode(arena, raw, &once) < 0) {
		must(raw.len > 0 && memchr(raw.at, '%', raw.len) != NULL);
		return;
	}
	must(once.len <= raw.len && once.at[once.len] == '\0');
	must(uri_decode(arena, encode(arena, once), &again) == 0 && str_eq(once, again));
}

static void check_query(struct arena *arena, struct str query, struct str name)
{
	int r, r_twice;
	struct str value;
	struct buf twice;

	r = uri_query(arena, query, name, &value);
	must(r == 0 || r == 1 || r == -EINVAL);
	must(r != 1 || (value.len <= query.len && value.at[value.len] == '\0'));
	/* Given once more under another spelling of its name, it is there, or there twice. */
	buf_init(&twice, 1 << 24);
	must(buf_append_str(&twice, encode(arena, name)) == 0);
	must(buf_append_str(&twice, STR("=%31&")) == 0);
	must(buf_append_str(&twice, query) == 0);
	r_twice = uri_query(arena, (struct str){buf_at(&twice), buf_len(&twice)}, name, &value);
	must(r_twice == (r == 0 ? 1 : -EINVAL));
	must(r_twice != 1 || str_eq(value, STR("1")));
	buf_close(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str input = {(const char *)data, size}, name, query;
	const char *end = size ? memchr(data, '\n', size) : NULL;
	struct arena arena;

	if (!end)
		return 0;
	name = (struct str){input.at, (size_t)(end - input.at)};
	query = (struct str){end + 1, size - name.len - 1};
	arena_init(&arena, 64 << 20);
	check_decode(&arena, query);
	if (name.len > 0)
		check_query(&arena, query, name);
	arena_close(&arena);
	return 0;
}
