#include "proto/code_request.h"

#include <errno.h>

#include "tests/unit/tap.h"

static struct arena arena;
static struct err err;

static int parse_context(const char *text, struct context_request *ret)
{
	arena_close(&arena);
	arena_init(&arena, 1 << 20);
	*ret = (struct context_request){.id = {NULL, 0}};
	err = (struct err){0};
	return context_request_parse(&arena, str_of(text), ret, &err);
}

static int parse_code(const char *text, struct code_request *ret)
{
	arena_close(&arena);
	arena_init(&arena, 1 << 20);
	*ret = (struct code_request){.code = {NULL, 0}};
	err = (struct err){0};
	return code_request_parse(&arena, str_of(text), ret, &err);
}

static void test_context(void)
{
	struct context_request q;

	check(parse_context("{\"language\": \"js\"}", &q) == 0);
	check(q.language == KERNEL_JAVASCRIPT && !q.id.len && !q.exec.env.len);
	check_str(q.exec.cwd.at, "/workspace");
	check(parse_context("{\"language\": \"bash\", \"id\": \"a.b\", \"cwd\": \"/x\", "
			    "\"env\": {\"A\": \"b\"}, \"user\": \"1\"}",
			    &q) == 0);
	check(q.language == KERNEL_BASH && str_eq(q.exec.env, STR("A=b\0")));
	check_str(q.id.at, "a.b");
	check_str(q.exec.user.at, "1");
	tap_ok("a context is asked for");
}

static void test_code(void)
{
	struct code_request q;

	check(parse_code("{\"code\": \"a\\u0000\"}", &q) == 0 && q.code.len == 2);
	check(q.language == KERNEL_PYTHON && !q.has_language && !q.context.len && !q.timeout_ms);
	check(parse_code("{\"code\": \"\", \"context\": \"c\", \"language\": \"ts\", "
			 "\"timeout_ms\": 7, \"file\": \"f\"}",
			 &q) == 0);
	check(q.language == KERNEL_TYPESCRIPT && q.has_language && q.timeout_ms == 7);
	check_str(q.context.at, "c");
	check_str(q.file.at, "f");
	tap_ok("code is sent");
}

static void test_refused(void)
{
	static const struct {
		const char *text, *word;
	} contexts[] =
		{
			{"{}", "language"},
			{"{\"language\": \"perl\"}", "language"},
			{"{\"language\": \"py\", \"id\": \"-\"}", "id"},
			{"{\"language\": \"py\", \"cwd\": \"x\"}", "cwd"},
			{"{\"language\": \"py\", \"env\": {\"=\": \"\"}}", "env"},
			{"{\"language\": \"py\", \"x\": 1}", "x"},
		},
	  codes[] = {
		  {"{}", "code"},
		  {"{\"code\": 1}", "code"},
		  {"{\"code\": \"\", \"language\": \"\"}", "language"},
		  {"{\"code\": \"\", \"context\": \"\"}", "context"},
		  {"{\"code\": \"\", \"timeout_ms\": 18446744073709551615}", "timeout_ms"},
	  };
	struct context_request context;
	struct code_request code;

	for (size_t i = 0; i < sizeof(contexts) / sizeof(*contexts); i++) {
		check(parse_context(contexts[i].text, &context) == -EINVAL);
		check(strstr(err.sentence, contexts[i].word));
	}
	for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++) {
		check(parse_code(codes[i].text, &code) == -EINVAL);
		check(strstr(err.sentence, codes[i].word));
	}
	tap_ok("what is asked for badly is refused, with the field's name");
}

static void test_written(void)
{
	struct str lines[] = {STR("a"), STR("b\0")};
	struct kernel_error error = {
		.name = STR("E"), .message = STR(""), .traceback = {lines, 2}, .line = 3};
	struct kernel_result result = {.text = STR("1"),
				       .json = STR("[1, 2]"),
				       .chart = STR("null"),
				       .is_value = true,
				       .is_truncated = true};
	struct json_writer w;
	struct buf out;

	buf_init(&out, 4096);
	json_writer_init(&w, false);
	json_array(&w);
	code_result_write(&result, &w);
	code_error_write(&error, &w);
	json_array_end(&w);
	check(json_writer_end(&w, &out) == 0 && buf_append(&out, "", 1) == 0);
	check_str(buf_at(&out),
		  "[{\"text\":\"1\",\"json\":[1, 2],\"chart\":null,\"is_value\":true,"
		  "\"truncated\":true},"
		  "{\"name\":\"E\",\"message\":\"\",\"traceback\":[\"a\",\"b\\u0000\"],"
		  "\"line\":3}]");
	json_writer_close(&w);
	buf_close(&out);
	tap_ok("results and errors are written");
}

int main(void)
{
	arena_init(&arena, 1 << 20);
	test_context();
	test_code();
	test_refused();
	test_written();
	arena_close(&arena);
	return tap_done();
}
