/* A pattern, a newline, a text: what is found lies in the text, and again when it comes in bytes.
 */
#include "proto/pattern.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool find_in(const struct pattern *pattern, struct str text, size_t step, size_t ret[2])
{
	struct pattern_search *search = pattern_search_new(pattern);
	bool is_found;

	assert(search);
	for (size_t at = 0; at < text.len; at += step) {
		size_t left = text.len - at;

		pattern_search_feed(search, (struct str){text.at + at, left < step ? left : step});
	}
	pattern_search_end(search);
	is_found = pattern_search_found(search, &ret[0], &ret[1]);
	pattern_search_free(search);
	return is_found;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = {(const char *)data, size}, first = str_cut(&text, '\n');
	size_t whole[2], pieces[2];
	struct pattern *pattern;
	struct err err;

	pattern = pattern_new(first, &err);
	if (!pattern) {
		assert(err.code == ERR_INVALID_REQUEST);
		return 0;
	}
	text.len = text.len < 512 ? text.len : 512;
	if (find_in(pattern, text, 512, whole)) {
		assert(whole[0] <= whole[1] && whole[1] <= text.len);
		assert(find_in(pattern, text, 1, pieces));
		assert(whole[0] == pieces[0] && whole[1] == pieces[1]);
	} else {
		assert(!find_in(pattern, text, 3, pieces));
	}
	pattern_free(pattern);
	return 0;
}
