#include "proto/route.h"

#include <assert.h>

static size_t segment_len(struct str path)
{
	const char *slash = path.len ? memchr(path.at, '/', path.len) : NULL;

	return slash ? (size_t)(slash - path.at) : path.len;
}

bool route_matches(const char *pattern, struct str path, struct route_captures *ret)
{
	struct route_captures captures = {.len = 0};

	while (*pattern) {
		size_t len = 1;

		if (*pattern == '{') {
			const char *end = strchr(pattern, '}');
			bool takes_rest;

			assert(end && captures.len < ROUTE_CAPTURES_MAX);
			takes_rest = end - pattern > 3 && memcmp(end - 3, "...", 3) == 0;
			len = takes_rest ? path.len : segment_len(path);
			if (len == 0 && !takes_rest)
				return false;
			captures.items[captures.len++] = (struct str){path.at, len};
			pattern = end + 1;
		} else {
			if (path.len == 0 || *path.at != *pattern)
				return false;
			pattern++;
		}
		path = (struct str){path.at + len, path.len - len};
	}
	if (path.len > 0)
		return false;
	*ret = captures;
	return true;
}
