#include <errno.h>

#include "base/cleanup.h"
#include "proto/exec_request.h"
#include "tests/unit/tap.h"

static struct arena arena;
static struct err err;

static int parse(const char *text, struct process_request *ret)
{
	arena_close(&arena);
	err = (struct err){0};
	*ret = (struct process_request){.id = {NULL, 0}};
	return terminal_request_parse(&arena, str_of(text), ret, &err);
}

static void test_bodies(void)
{
	struct process_request q;

	check(parse("{}", &q) == 0);
	check(q.exec.is_terminal && !q.exec.cols && !q.exec.rows && !q.id.len && !q.autostart);
	check(str_starts_with(q.exec.argv, STR("sh\0-c\0")) && q.exec.argv.len > 10);
	check(str_eq(q.exec.cwd, STR("/workspace")) && !q.exec.env.len && !q.exec.user.len);
	check(!q.exec.timeout_ms);
	check(parse("{\"id\":\"main\",\"argv\":[\"vi\",\"a b\"],\"cwd\":\"/\",\"env\":{\"TERM\":"
		    "\"vt100\"},\"user\":\"1000\",\"cols\":65535,\"rows\":1}",
		    &q) == 0);
	check(str_eq(q.id, STR("main")) && str_eq(q.exec.argv, STR("vi\0a b\0")));
	check(str_eq(q.exec.cwd, STR("/")) && str_eq(q.exec.env, STR("TERM=vt100\0")));
	check(str_eq(q.exec.user, STR("1000")) && q.exec.cols == 65535 && q.exec.rows == 1);
	check(parse("{\"command\":\"top\"}", &q) == 0);
	check(str_eq(q.exec.argv, STR("sh\0-c\0top\0")));
	check(parse("{\"argv\":null,\"command\":null,\"id\":null,\"cols\":null}", &q) == 0);
	check(str_starts_with(q.exec.argv, STR("sh\0-c\0")));
	tap_ok("bodies");
}

static void test_refusals(void)
{
	/* clang-format off */
	static const struct { const char *text, *sentence; } bad[] = {
		{"", "must be a JSON object"},
		{"[]", "must be a JSON object"},
		{"{\"argv\":[]}", "argv must begin"},
		{"{\"argv\":[\"a\"],\"command\":\"b\"}", "exclude each other"},
		{"{\"argv\":[\"a\\u0000\"]}", "must not hold a NUL"},
		{"{\"cols\":65536}", "cols and rows"},
		{"{\"rows\":18446744073709551615}", "cols and rows"},
		{"{\"rows\":-1}", "rows must not be negative"},
		{"{\"cols\":\"80\"}", "cols must be an integer"},
		{"{\"cwd\":\"tmp\"}", "cwd must be an absolute path"},
		{"{\"user\":\"a b\"}", "user must be"},
		{"{\"env\":{\"A=B\":\"\"}}", "a name in env"},
		{"{\"timeout\":5}", "unknown field \"timeout\""},
		{"{\"autostart\":true}", "unknown field \"autostart\""},
		{"{\"stdin\":\"\"}", "unknown field \"stdin\""},
		{"{\"cols\":1,\"cols\":2}", "cols"},
	};
	/* clang-format on */
	struct process_request q;

	for (size_t i = 0; i < array_len(bad); i++) {
		check(parse(bad[i].text, &q) < 0 && err.code == ERR_INVALID_REQUEST);
		check(strstr(err.sentence, bad[i].sentence));
		if (tap_case_failed)
			printf("# %s: %s\n", bad[i].text, err.sentence);
	}
	tap_ok("what makes no sense is refused, and named");
}

static void test_shells(void)
{
	struct str argv = STR("");

	check(terminal_request_shell(&arena, STR(""), &argv) == 0);
	check(str_starts_with(argv, STR("sh\0-c\0")) && argv.at[argv.len - 1] == '\0');
	check(terminal_request_shell(&arena, STR("/bin/zsh"), &argv) == 0);
	check(str_eq(argv, STR("/bin/zsh\0")));
	check(terminal_request_shell(&arena, STR("ba\0sh"), &argv) == -EINVAL);
	tap_ok("shells");
}

int main(void)
{
	arena_init(&arena, 1024 * 1024);
	test_bodies();
	test_refusals();
	test_shells();
	arena_close(&arena);
	return tap_done();
}
