/* A line of a kernel: what is read is text, and what is raw in it is JSON by itself. */
#include <assert.h>
#include <stdint.h>

#include "proto/kernel.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(struct str s)
{
	assert(utf8_is_valid(s) && (!s.len || s.at[s.len] == '\0'));
}

/* It goes into an order as it stands, and comes out of it as the same. */
static void check_raw(struct arena *arena, struct str s)
{
	struct kernel_order order = {.kind = KERNEL_INVOKE, .call = 1, .input = s};
	struct kernel_report report = {0};
	struct json_writer w;
	struct buf line;
	struct err err;

	check_text(s);
	if (!s.len)
		return;
	assert(!memchr(s.at, '\n', s.len) && !memchr(s.at, '\r', s.len));
	buf_init(&line, KERNEL_LINE_MAX);
	assert(kernel_order_write(&order, &line) == 0);
	assert(memchr(buf_at(&line), '\n', buf_len(&line)) == buf_at(&line) + buf_len(&line) - 1);
	buf_close(&line);
	json_writer_init(&w, false);
	json_object(&w);
	json_key(&w, "call");
	json_int(&w, 1);
	json_key(&w, "value");
	json_raw(&w, s);
	json_object_end(&w);
	assert(json_writer_end(&w, &line) == 0);
	json_writer_close(&w);
	if (kernel_report_parse(arena, (struct str){buf_at(&line), buf_len(&line)}, &report,
				&err) == 0)
		assert(str_eq(report.value, s));
	else
		assert(err.code == ERR_PAYLOAD_TOO_LARGE); /* the arena's limit */
	buf_close(&line);
}

static void check_report(struct arena *arena, const struct kernel_report *r)
{
	const struct str texts[] = {
		r->result.text,   r->result.html, r->result.markdown, r->result.svg,
		r->result.png,    r->result.jpeg, r->result.latex,    r->log.level,
		r->log.message,   r->error.name,  r->error.message,   r->error.file,
		r->error.blocked,
	};

	assert((r->kind == KERNEL_READY) == (r->call == 0) && r->call <= INT64_MAX);
	assert(r->kind <= KERNEL_DONE && r->done <= KERNEL_DONE_INTERRUPTED);
	assert((r->kind == KERNEL_VALUE) == (r->value.len > 0));
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		check_text(texts[i]);
	for (size_t i = 0; i < r->error.traceback.len; i++)
		check_text(r->error.traceback.items[i]);
	check_raw(arena, r->value);
	check_raw(arena, r->result.json);
	check_raw(arena, r->result.chart);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str line = {(const char *)data, size};
	struct kernel_report report = {0};
	struct err err = {0};
	struct arena arena;
	int r;

	arena_init(&arena, 1 << 20);
	r = kernel_report_parse(&arena, line, &report, &err);
	assert((r == 0) == (err.code == ERR_NONE));
	if (r == 0)
		check_report(&arena, &report);
	arena_close(&arena);
	return 0;
}
