/* What is read can be stored, and comes back the same; what is refused changes nothing. */
#include <assert.h>
#include <stdint.h>

#include "proto/frame.h"
#include "proto/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_same(const struct settings *a, const struct settings *b)
{
	assert(strcmp(a->image, b->image) == 0 && a->is_read_only == b->is_read_only);
	assert(a->limits.memory_bytes == b->limits.memory_bytes &&
	       a->limits.swap_bytes == b->limits.swap_bytes &&
	       a->limits.cpu_milli == b->limits.cpu_milli && a->limits.pids == b->limits.pids &&
	       a->limits.files == b->limits.files && a->limits.file_size == b->limits.file_size);
	assert(a->times.sleep_after == b->times.sleep_after &&
	       a->times.max_awake == b->times.max_awake &&
	       a->times.stop_after == b->times.stop_after &&
	       a->times.stop_grace == b->times.stop_grace &&
	       a->times.delete_after == b->times.delete_after && a->sleep_mode == b->sleep_mode &&
	       a->keep_alive == b->keep_alive);
	assert(str_eq(a->env, b->env) && str_eq(a->labels, b->labels));
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
