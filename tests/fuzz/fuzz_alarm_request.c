/* What is read keeps every promise of its header; a time comes back as it was told. */
#include <assert.h>
#include <stdint.h>

#include "proto/agent.h"
#include "proto/alarm_request.h"
#include "proto/time_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_time(int64_t ms)
{
	char text[TIME_TEXT_SIZE];
	int64_t back = -1;

	assert(ms > 0 && time_text_format(ms, text) == 0);
	assert(time_text_read(str_of(text), &back) == 0 && back == ms);
}

static void check_request(const struct alarm_request *q)
{
	assert(q->at_ms || q->every_ms);
	assert(!q->every_ms || q->every_ms >= ALARM_EVERY_MIN_MS);
	assert(q->argv.len <= ALARM_ARGV_MAX && frame_list_count(q->argv) >= 1 && q->argv.at[0]);
	assert(q->timeout_ms < INT64_MAX / 2);
	if (q->at_ms)
		check_time(q->at_ms);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct alarm_request q;
	struct err err = {0};
	struct arena arena;
	int r;

	arena_init(&arena, 1 << 20);
	r = alarm_request_parse(&arena, (struct str){(const char *)data, size}, &q, &err);
	assert((r == 0) == (err.code == ERR_NONE));
	if (r == 0)
		check_request(&q);
	arena_close(&arena);
	return 0;
}
