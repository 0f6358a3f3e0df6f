/* What is read can be stored, and comes back the same; what is refused changes nothing. */
#include <assert.h>
#include <stdint.h>

#include "proto/frame.h"
#include "proto/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_same(const struct settings *a, const struct settings *b)
{
	assert(settings_equal(a, b));
	assert(frame_list_count(a->env) >= 0 && frame_list_count(a->labels) >= 0);
}

static void check_stored(const struct settings *settings)
{
	struct settings back;
	struct arena arena;
	struct buf text;
	struct err err;

	arena_init(&arena, 1 << 24);
	buf_init(&text, 1 << 24);
	assert(settings_store(settings, &text) == 0);
	assert(settings_restore(&arena, (struct str){buf_at(&text), buf_len(&text)}, &back, &err) ==
	       0);
	check_same(settings, &back);
	settings_close(&back);
	buf_close(&text);
	arena_close(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = {(const char *)data, size};
	struct settings_request q = {.is_strict = size % 2};
	struct err err = {0};
	struct arena arena;
	struct settings before;
	int r;

	settings_init(&q.settings);
	before = q.settings;
	arena_init(&arena, 1 << 20);
	r = settings_read(&arena, text, &q, &err);
	assert((r == 0) == (err.code == ERR_NONE));
	if (r == 0)
		check_stored(&q.settings);
	else
		check_same(&before, &q.settings);
	arena_close(&arena);
	settings_close(&q.settings);
	return 0;
}
