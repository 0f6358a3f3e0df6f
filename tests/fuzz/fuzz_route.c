/*
 * The first byte chooses a pattern, the rest is a path. A match must be undone by putting the
 * captures back into the pattern, and a capture of one segment holds no slash.
 */
#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "proto/route.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
	if (!condition)
		abort();
}

static const char *const patterns[] = {
	"/health",
	"/v1/sandbox/{id}",
	"/v1/sandbox/{id}/file/{path...}",
	"/v1/sandbox/{id}/processes/{p}/kill",
	"/{a}/{b}/{c}/{d...}",
	"/{rest...}",
};

static void check_match(const char *pattern, struct str path, const struct route_captures *captures)
{
	size_t used = 0;
	struct buf back;

	buf_init(&back, path.len);
	while (*pattern) {
		if (*pattern == '{') {
			struct str item = captures->items[used++];
			const char *end = strchr(pattern, '}');

			if (end[-1] != '.')
				must(item.len > 0 && !memchr(item.at, '/', item.len));
			must(buf_append_str(&back, item) == 0);
			pattern = end + 1;
		} else {
			must(buf_append(&back, pattern++, 1) == 0);
		}
	}
	must(used == captures->len);
	must(str_eq((struct str){buf_at(&back), buf_len(&back)}, path));
	buf_close(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct route_captures captures;
	const char *pattern;
	struct str path;

	if (size == 0)
		return 0;
	pattern = patterns[data[0] % array_len(patterns)];
	path = (struct str){(const char *)data + 1, size - 1};
	if (route_matches(pattern, path, &captures))
		check_match(pattern, path, &captures);
	return 0;
}
