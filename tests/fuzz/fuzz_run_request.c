/* What is read keeps every promise of its header. */
#include <assert.h>
#include <stdint.h>

#include "proto/exec_asked.h"
#include "proto/run_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_request(struct run_request *q)
{
	run_limits_fill(&q->limits);
	assert(q->code.len && q->code.len <= RUN_CODE_MAX);
	assert(q->language < KERNEL_LANGUAGE_COUNT && q->task_id.len <= RUN_TASK_ID_MAX);
	assert(q->timeout_ms <= EXEC_TIMEOUT_MAX_MS);
	assert(!q->request.len || (q->request.at[0] == '{' && !q->input.len));
	assert(!q->has_tests || !q->input.len);
	assert(q->tests_len <= RUN_TESTS_MAX && (q->has_tests || !q->tests_len));
	for (size_t i = 0; i < q->tests_len; i++)
		assert(q->tests[i].expected.len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct run_request q;
	struct err err = {0};
	struct arena arena;
	int r;

	arena_init(&arena, 1 << 20);
	r = run_request_parse(&arena, (struct str){(const char *)data, size}, &q, &err);
	assert((r == 0) == (err.code == ERR_NONE));
	if (r == 0)
		check_request(&q);
	arena_close(&arena);
	return 0;
}
