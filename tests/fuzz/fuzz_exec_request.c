/* The first byte chooses: a body, a query, or output whose tail is looked for. */
#include <assert.h>
#include <stdint.h>

#include "proto/agent.h"
#include "proto/exec_request.h"
#include "proto/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_request(const struct exec_request *q)
{
	struct str env = q->env;
	const char *item;

	assert(frame_list_count(q->argv) >= 1 && q->argv.at[0]);
	assert(frame_list_count(env) >= 0 && q->argv.len + env.len <= AGENT_ARGS_MAX);
	while ((item = frame_list_next(&env)) != NULL)
		assert(*item != '=' && strchr(item, '='));
	assert(q->cwd.at[0] == '/' && strlen(q->cwd.at) == q->cwd.len &&
	       q->cwd.len < AGENT_CWD_MAX);
	assert(strlen(q->user.at) == q->user.len && q->user.len <= AGENT_USER_MAX);
	assert(q->has_stdin || !q->stdin_bytes.len);
	assert(q->max_output_bytes <= EXEC_OUTPUT_MAX && q->timeout_ms < INT64_MAX / 2);
}

/* Text that is cut anywhere is text again without its tail. */
static void check_tail(struct str s)
{
	size_t tail = exec_utf8_tail(s), good = utf8_valid_len(s);

	assert(tail <= 3 && tail <= s.len);
	if (good == s.len)
		assert(tail == 0);
	if (tail)
		assert(utf8_valid_len(s) <= s.len - tail);
	for (size_t cut = 0; cut < good && cut < 16; cut++) {
		struct str part = {s.at, good - cut};

		assert(utf8_valid_len(part) == part.len - exec_utf8_tail(part));
	}
}

/* What is read can be stored, and is then read as the same. */
static void check_process(struct arena *arena, struct str text)
{
	struct process_request q, again;
	struct err err = {0};
	struct buf stored;

	if (process_request_parse(arena, text, &q, &err) < 0) {
		assert(err.code != ERR_NONE);
		return;
	}
	buf_init(&stored, 4 << 20);
	assert(process_request_store(&q, &stored) == 0);
	if (process_request_parse(arena, (struct str){buf_at(&stored), buf_len(&stored)}, &again,
				  &err) == 0) {
		assert(str_eq(q.exec.argv, again.exec.argv) && str_eq(q.exec.env, again.exec.env));
		assert(q.exec.timeout_ms == again.exec.timeout_ms &&
		       q.autostart == again.autostart);
	} else {
		assert(err.code == ERR_PAYLOAD_TOO_LARGE); /* the arena's limit */
	}
	buf_close(&stored);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = {(const char *)data + 1, size - 1};
	struct exec_request q;
	struct err err = {0};
	struct arena arena;
	int r;

	if (!size)
		return 0;
	if (data[0] == 't') {
		check_tail(text);
		return 0;
	}
	arena_init(&arena, 1 << 20);
	if (data[0] == 'p') {
		check_process(&arena, text);
		arena_close(&arena);
		return 0;
	}
	r = data[0] == 'q' ? exec_request_from_query(&arena, text, &q, &err)
			   : exec_request_parse(&arena, text, &q, &err);
	assert((r == 0) == (err.code == ERR_NONE));
	if (r == 0)
		check_request(&q);
	if (r == 0 && exec_request_for_shell(&arena, &q, &err) == 0)
		assert(frame_list_count(q.argv) == 1 && q.argv.len + q.env.len <= AGENT_ARGS_MAX);
	arena_close(&arena);
	return 0;
}
