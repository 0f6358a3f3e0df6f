#include "cmd/berth-init/work_match.h"

#include "proto/frame.h"

/* One set at `*pattern`, which stands behind its "[". False also for one that never ends. */
static bool match_set(const char **pattern, char byte)
{
	const char *at = *pattern;
	bool is_negated = *at == '!' || *at == '^', is_found = false;
	unsigned char c = (unsigned char)byte;

	at += is_negated;
	do {
		unsigned char low, high;

		if (*at == '\\' && at[1])
			at++;
		if (!*at)
			return false;
		low = high = (unsigned char)*at++;
		if (*at == '-' && at[1] && at[1] != ']') {
			at += at[1] == '\\' && at[2] ? 2 : 1;
			high = (unsigned char)*at++;
		}
		is_found |= c >= low && c <= high;
	} while (*at != ']');
	*pattern = at + 1;
	return is_found != is_negated && byte != '/';
}

/* One byte of the text, which is not at its end. */
static bool match_one(const char **pattern, char byte)
{
	const char *at = (*pattern)++;

	if (*at == '?')
		return byte != '/';
	if (*at == '[')
		return match_set(pattern, byte);
	if (*at == '\\' && at[1])
		at = (*pattern)++;
	return *at == byte;
}

/* Only the last star of each kind has to be tried again: no pattern takes longer than its length
 * times the square of the path's. */
static bool match(const char *pattern, const char *text)
{
	const char *star = NULL, *star_text = NULL, *far = NULL, *far_text = NULL;
	bool is_whole = false;

	while (*text || *pattern) {
		if (pattern[0] == '*' && pattern[1] == '*') {
			is_whole = pattern[2] == '/'; /* directories, or none at all */
			pattern += is_whole ? 3 : 2;
			far = pattern;
			far_text = text;
			star = NULL;
			continue;
		}
		if (*pattern == '*') {
			star = ++pattern;
			star_text = text;
			continue;
		}
		if (*pattern && *text && match_one(&pattern, *text)) {
			text++;
			continue;
		}
		if (star && *star_text && *star_text != '/') {
			pattern = star;
			text = ++star_text;
		} else if (far && *far_text) {
			if (is_whole)
				far_text = strchr(far_text, '/');
			if (!far_text)
				return false;
			star = NULL;
			pattern = far;
			text = ++far_text;
		} else {
			return false;
		}
	}
	return true;
}

static bool match_pattern(const char *pattern, const char *path, bool is_directory)
{
	size_t len = strlen(pattern);
	const char *slash = strrchr(path, '/');
	char copy[4096];

	if (len >= sizeof(copy) || !len)
		return false;
	memcpy(copy, pattern, len + 1);
	if (copy[len - 1] == '/') {
		if (!is_directory)
			return false;
		copy[--len] = '\0';
	}
	if (!strchr(copy, '/'))
		return match(copy, slash ? slash + 1 : path);
	return match(copy + (copy[0] == '/'), path);
}

bool match_any(struct str patterns, const char *path, bool is_directory)
{
	const char *pattern;

	while ((pattern = frame_list_next(&patterns))) {
		if (match_pattern(pattern, path, is_directory))
			return true;
	}
	return false;
}
