#include "proto/exec_request.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "proto/agent.h"
#include "tests/unit/tap.h"

static struct arena arena;
static struct err err;

static int parse(const char *text, struct exec_request *ret)
{
	arena_close(&arena);
	err = (struct err){0};
	return exec_request_parse(&arena, str_of(text), ret, &err);
}

static int query(const char *text, struct exec_request *ret)
{
	arena_close(&arena);
	err = (struct err){0};
	return exec_request_from_query(&arena, str_of(text), ret, &err);
}

static void test_body(void)
{
	struct exec_request q;

	check(parse("{\"argv\":[\"ls\",\"\",\"-l\"]}", &q) == 0);
	check(str_eq(q.argv, STR("ls\0\0-l\0")) && !q.env.len);
	check(str_eq(q.cwd, STR("/workspace")) && !q.user.len && !q.has_stdin &&
	      !q.stdin_bytes.len);
	check(!q.detach && !q.timeout_ms && q.max_output_bytes == EXEC_OUTPUT_DEFAULT);
	check(parse("{\"command\":\"echo $A\",\"cwd\":\"/\",\"env\":{\"A\":\"1=\",\"B\":\"\"},"
		    "\"user\":\"1000:100\",\"timeout_ms\":1500,\"max_output_bytes\":0,"
		    "\"detach\":true,\"stdin\":\"a\\u0000b\"}",
		    &q) == 0);
	check(str_eq(q.argv, STR("sh\0-c\0echo $A\0")));
	check(str_eq(q.env, STR("A=1=\0B=\0")) && str_eq(q.cwd, STR("/")));
	check(str_eq(q.user, STR("1000:100")) && q.timeout_ms == 1500 && !q.max_output_bytes);
	check(q.detach && q.has_stdin && str_eq(q.stdin_bytes, STR("a\0b")));
	check(parse("{\"argv\":[\"x\"],\"stdin\":\"AP8=\",\"stdin_encoding\":\"base64\"}", &q) ==
	      0);
	check(q.has_stdin && str_eq(q.stdin_bytes, STR("\0\xff")));
	check(parse("{\"argv\":[\"x\"],\"stdin\":\"\",\"stdin_encoding\":\"utf-8\"}", &q) == 0);
	check(q.has_stdin && !q.stdin_bytes.len);
	check(parse("{\"argv\":[\"x\"],\"command\":null,\"stdin\":null,\"stdin_encoding\":null,"
		    "\"timeout_ms\":null,\"cwd\":null,\"user\":null,\"env\":null}",
		    &q) == 0);
	check(!q.has_stdin);
	tap_ok("bodies");
}

struct bad {
	const char *text;
	const char *sentence;
};

/* clang-format off */
static const struct bad bad_bodies[] = {
	{"{}", "argv or command is missing"},
	{"", "must be a JSON object"},
	{"{\"argv\":[\"x\"],\"command\":\"x\"}", "exclude each other"},
	{"{\"argv\":[]}", "argv must begin"},
	{"{\"argv\":[\"\"]}", "argv must begin"},
	{"{\"argv\":\"ls\"}", "argv must be an array"},
	{"{\"argv\":[\"a\",\"b\\u0000\"]}", "argv[1] must not hold a NUL"},
	{"{\"command\":\"\"}", "command must not be empty"},
	{"{\"argv\":[\"x\"],\"env\":{\"\":\"\"}}", "a name in env"},
	{"{\"argv\":[\"x\"],\"env\":{\"A=B\":\"\"}}", "a name in env"},
	{"{\"argv\":[\"x\"],\"env\":{\"A\":1}}", "env.A must be a string"},
	{"{\"argv\":[\"x\"],\"cwd\":\"\"}", "cwd must be an absolute path"},
	{"{\"argv\":[\"x\"],\"cwd\":\"tmp\"}", "cwd must be an absolute path"},
	{"{\"argv\":[\"x\"],\"user\":\"\"}", "user must be"},
	{"{\"argv\":[\"x\"],\"user\":\"1000:0x\"}", "user must be"},
	{"{\"argv\":[\"x\"],\"user\":\"1000:\"}", "user must be"},
	{"{\"argv\":[\"x\"],\"user\":\":1\"}", "user must be"},
	{"{\"argv\":[\"x\"],\"user\":\"1:2:3\"}", "user must be"},
	{"{\"argv\":[\"x\"],\"user\":\"4294967295\"}", "user must be"},
	{"{\"argv\":[\"x\"],\"user\":\"99999999999\"}", "user must be"},
	{"{\"argv\":[\"x\"],\"user\":\"name:1\"}", "user must be"},
	{"{\"argv\":[\"x\"],\"user\":\"1name\"}", "user must be"},
	{"{\"argv\":[\"x\"],\"user\":\"a b\"}", "user must be"},
	{"{\"argv\":[\"x\"],\"user\":\"-x\"}", "user must be"},
	{"{\"argv\":[\"x\"],\"timeout_ms\":-1}", "timeout_ms must not be negative"},
	{"{\"argv\":[\"x\"],\"timeout_ms\":\"5s\"}", "timeout_ms must be an integer"},
	{"{\"argv\":[\"x\"],\"timeout_ms\":18446744073709551615}", "timeout_ms must be from 1"},
	{"{\"argv\":[\"x\"],\"max_output_bytes\":67108865}", "max_output_bytes must be at most"},
	{"{\"argv\":[\"x\"],\"stdin_encoding\":\"hex\"}", "stdin_encoding must be"},
	{"{\"argv\":[\"x\"],\"stdin\":\"Zg\",\"stdin_encoding\":\"base64\"}", "stdin must be base64"},
	{"{\"argv\":[\"x\"],\"stdin\":\"Zg==\\n\",\"stdin_encoding\":\"base64\"}", "stdin must be"},
	{"{\"argv\":[\"x\"],\"timeout\":5}", "unknown field \"timeout\""},
};

static const struct bad bad_queries[] = {
	{"", "argv or command is missing"},
	{"argv=x&command=x", "exclude each other"},
	{"argv=", "argv must begin"},
	{"argv=x&cwd=a", "cwd must be"},
	{"argv=x&cwd=/a&cwd=/b", "cwd is given twice"},
	{"argv=x&env=A", "env must be NAME=value"},
	{"argv=x&env=", "env must be NAME=value"},
	{"argv=x&env==b", "a name in env"},
	{"argv=x&env=A=1&env=A=2", "a name in env is given twice"},
	{"argv=%0", "bad percent-escape"},
	{"argv=%zz", "bad percent-escape"},
	{"argv=a%00b", "a NUL"},
	{"argv=x&timeout_ms=", "timeout_ms must be an integer"},
	{"argv=x&timeout_ms=5s", "timeout_ms must be an integer"},
	{"argv=x&timeout_ms=-5", "timeout_ms must be an integer"},
	{"argv=x&timeout_ms=9999999999999999999", "timeout_ms must be an integer"},
	{"argv=x&timeout_ms=999999999999999999", "timeout_ms must be from 1"},
	{"argv=x&max_output_bytes=99999999", "max_output_bytes must be at most"},
	{"argv=x&stdin=y", "a parameter that exec does not know"},
	{"argv=x&user=0x1", "user must be"},
};
/* clang-format on */

static void check_bad(const struct bad *cases, size_t count,
		      int (*parse_it)(const char *, struct exec_request *))
{
	for (size_t i = 0; i < count; i++) {
		struct exec_request q;

		check(parse_it(cases[i].text, &q) < 0 && err.code == ERR_INVALID_REQUEST);
		if (!strstr(err.sentence, cases[i].sentence))
			printf("# %s: %s\n", cases[i].text, err.sentence);
		check(strstr(err.sentence, cases[i].sentence));
	}
}

static void test_query(void)
{
	struct exec_request q;

	check(query("argv=sh&argv=-c&argv=cat+%2B%20%26&&env=A=%3D1+&env=B=&cwd=%2Ftmp&user=nobody&"
		    "timeout_ms=250&max_output_bytes=10",
		    &q) == 0);
	check_str(err.sentence, "");
	check(str_eq(q.argv, STR("sh\0-c\0cat + &\0")));
	check(str_eq(q.env, STR("A==1 \0B=\0")) && str_eq(q.cwd, STR("/tmp")));
	check(str_eq(q.user, STR("nobody")) && q.timeout_ms == 250 && q.max_output_bytes == 10);
	check(q.has_stdin && !q.stdin_bytes.len && !q.detach);
	check(query("command=wc%20-c", &q) == 0 && str_eq(q.argv, STR("sh\0-c\0wc -c\0")));
	check(query("argv=%ff%fe", &q) == 0 && str_eq(q.argv, STR("\xff\xfe\0")));
	tap_ok("queries");
	check_bad(bad_queries, array_len(bad_queries), query);
	tap_ok("bad queries are refused by name");
}

/* {"argv":["xxx..."]} with that many x, or {"argv":["x"],"stdin":"xxx..."}. */
static char *long_body(const char *head, size_t len, const char *tail)
{
	char *text = malloc(strlen(head) + len + strlen(tail) + 1), *at = text;

	at = mempcpy(at, head, strlen(head));
	memset(at, 'A', len);
	memcpy(at + len, tail, strlen(tail) + 1);
	return text;
}

static void test_limits(void)
{
	cleanup_free char *args = long_body("{\"argv\":[\"", AGENT_ARGS_MAX - 1, "\"]}");
	cleanup_free char *more = long_body("{\"argv\":[\"", AGENT_ARGS_MAX, "\"]}");
	cleanup_free char *plain =
		long_body("{\"argv\":[\"x\"],\"stdin\":\"", EXEC_STDIN_MAX + 1, "\"}");
	cleanup_free char *coded =
		long_body("{\"argv\":[\"x\"],\"stdin_encoding\":\"base64\",\"stdin\":\"",
			  (size_t)EXEC_STDIN_MAX / 3 * 4 + 4, "\"}");
	cleanup_free char *cwd = long_body("{\"argv\":[\"x\"],\"cwd\":\"/", AGENT_CWD_MAX, "\"}");
	char pairs[2048] = "argv=x";
	struct exec_request q;

	check(parse(args, &q) == 0 && q.argv.len == AGENT_ARGS_MAX);
	check(parse(more, &q) == -E2BIG && err.code == ERR_INVALID_REQUEST);
	check(parse(plain, &q) == -EMSGSIZE && err.code == ERR_PAYLOAD_TOO_LARGE);
	check(parse(coded, &q) == -EMSGSIZE && err.code == ERR_PAYLOAD_TOO_LARGE);
	check(parse(cwd, &q) == -EINVAL);
	memset(pairs + 6, '&', 2000);
	check(query(pairs, &q) == -EINVAL);
	tap_ok("limits");
}

static void test_end(void)
{
	struct exec_end end = {.reason = EXEC_SIGNALED,
			       .exit_code = 137,
			       .signal = 9,
			       .duration_ms = 5,
			       .is_measured = true,
			       .cpu_ms = 2,
			       .max_rss_bytes = 4096,
			       .oom_suspected = true};
	struct json_writer w;
	struct buf out;

	buf_init(&out, 4096);
	json_writer_init(&w, false);
	json_array(&w);
	json_object(&w);
	exec_end_write(&end, &w);
	json_object_end(&w);
	end = (struct exec_end){.reason = EXEC_LOST, .exit_code = -1, .message = "bad \xff"};
	json_object(&w);
	exec_end_write(&end, &w);
	json_object_end(&w);
	json_array_end(&w);
	check(json_writer_end(&w, &out) == 0 && buf_append(&out, "", 1) == 0);
	json_writer_close(&w);
	check_str(buf_at(&out),
		  "[{\"exit_code\":137,\"reason\":\"signaled\",\"signal\":9,\"duration_ms\":5,"
		  "\"cpu_ms\":2,\"max_rss_bytes\":4096,\"oom_suspected\":true},"
		  "{\"exit_code\":null,\"reason\":\"lost\",\"duration_ms\":0,\"cpu_ms\":null,"
		  "\"max_rss_bytes\":null,\"message\":\"bad ?\"}]");
	buf_close(&out);
	tap_ok("the end of an exec");
}

static void test_session(void)
{
	static const char *const bad[] = {
		"{\"id\":\"\"}",      "{\"id\":\"-a\"}",
		"{\"id\":\"a b\"}",   "{\"id\":\"_\"}",
		"{\"shell\":\"\"}",   "{\"cwd\":\"a\"}",
		"{\"argv\":[\"a\"]}", "[]",
		"{\"user\":\"a b\"}", "{\"env\":{\"\":\"\"}}",
	};
	struct session_request s;
	struct exec_request q;

	check(session_request_parse(&arena, STR("{}"), &s, &err) == 0);
	check(!s.id.len && !s.shell.len && str_eq(s.exec.cwd, STR("/workspace")));
	check(session_request_parse(&arena,
				    STR("{\"id\":\"a.B:1_-\",\"shell\":\"zsh\",\"cwd\":\"/\","
					"\"env\":{\"A\":\"1\"},\"user\":\"1:2\"}"),
				    &s, &err) == 0);
	check(str_eq(s.id, STR("a.B:1_-")) && str_eq(s.shell, STR("zsh")) &&
	      str_eq(s.exec.env, (struct str){"A=1", 4}) && str_eq(s.exec.user, STR("1:2")));
	for (size_t i = 0; i < array_len(bad); i++)
		check(session_request_parse(&arena, str_of(bad[i]), &s, &err) < 0);
	check(exec_request_parse(&arena, STR("{\"argv\":[\"a'b\",\"\",\"c\"]}"), &q, &err) == 0 &&
	      exec_request_for_shell(&arena, &q, &err) == 0);
	check(str_eq(q.argv, (struct str){"'a'\\''b' '' 'c'", 16}) && !q.cwd.len);
	check(exec_request_parse(&arena, STR("{\"command\":\"a 'b'\",\"cwd\":\"/x\"}"), &q, &err) ==
		      0 &&
	      exec_request_for_shell(&arena, &q, &err) == 0);
	check(str_eq(q.argv, (struct str){"a 'b'", 6}) && str_eq(q.cwd, STR("/x")));
	check(exec_request_parse(&arena, STR("{\"command\":\"a\",\"env\":{\"a-b\":\"\"}}"), &q,
				 &err) == 0 &&
	      exec_request_for_shell(&arena, &q, &err) < 0);
	check(exec_request_parse(&arena, STR("{\"command\":\"a\",\"user\":\"1\"}"), &q, &err) ==
		      0 &&
	      exec_request_for_shell(&arena, &q, &err) < 0);
	tap_ok("sessions, and what a shell is given");
}

static void test_tail(void)
{
	static const struct {
		struct str text;
		size_t tail;
	} cases[] = {
		{STR(""), 0},
		{STR("abc"), 0},
		{STR("\xc3\xa4"), 0},
		{STR("a\xc3"), 1},
		{STR("\xe2\x82"), 2},
		{STR("\xe2\x82\xac"), 0},
		{STR("\xf0\x9f\x98"), 3},
		{STR("x\xf0\x9f"), 2},
		{STR("\xf0\x9f\x98\x80"), 0},
		{STR("\xf0"), 1},
		{STR("\x80\x80\x80\x80"), 0},
		{STR("\x80"), 0},
		{STR("\xff"), 0},
		{STR("\xc0"), 0},
		{STR("\xed\xa0"), 0},
		{STR("\xe0\x80"), 0},
		{STR("\xf4\x90"), 0},
		{STR("\xf5"), 0},
		{STR("\xc3\x28"), 0},
	};

	for (size_t i = 0; i < array_len(cases); i++) {
		if (exec_utf8_tail(cases[i].text) != cases[i].tail)
			printf("# case %zu\n", i);
		check(exec_utf8_tail(cases[i].text) == cases[i].tail);
	}
	tap_ok("unfinished characters");
}

static int parse_process(const char *text, struct process_request *ret)
{
	err = (struct err){0};
	return process_request_parse(&arena, str_of(text), ret, &err);
}

static void test_process(void)
{
	static const char *const bad[] = {
		"{}",
		"{\"argv\":[]}",
		"{\"argv\":[\"a\"],\"stdin\":\"x\"}",
		"{\"argv\":[\"a\"],\"detach\":true}",
		"{\"argv\":[\"a\"],\"timeout\":-0.5}",
		"{\"argv\":[\"a\"],\"timeout\":1e300}",
		"{\"argv\":[\"a\"],\"timeout_ms\":1e3}",
		"{\"argv\":[\"a\"],\"autostart\":1}",
		"{\"argv\":[\"a\"],\"env\":{\"=\":\"\"}}",
	};
	struct process_request q = {.id = STR("")}, again;
	struct buf text;

	arena_close(&arena);
	check(parse_process("{\"argv\":[\"a\"]}", &q) == 0);
	check(!q.id.len && !q.autostart && !q.exec.timeout_ms && !q.exec.has_stdin);
	check(parse_process(
		      "{\"id\":\"Web\",\"command\":\"x \\\" y\",\"cwd\":\"/tmp\",\"user\":\"root\","
		      "\"env\":{\"A\":\"1=\\n\",\"B\":\"\"},\"timeout\":1.5,\"autostart\":true}",
		      &q) == 0);
	check(str_eq(q.id, STR("Web")) && q.autostart && q.exec.timeout_ms == 2);
	buf_init(&text, 4096);
	check(process_request_store(&q, &text) == 0 && buf_append(&text, "", 1) == 0);
	check(parse_process(buf_at(&text), &again) == 0);
	check(str_eq(again.exec.argv, q.exec.argv) && str_eq(again.exec.env, q.exec.env));
	check(str_eq(again.exec.cwd, q.exec.cwd) && str_eq(again.exec.user, q.exec.user));
	check(again.exec.timeout_ms == 2 && again.autostart && !again.id.len);
	buf_close(&text);
	for (size_t i = 0; i < array_len(bad); i++) {
		check(parse_process(bad[i], &q) == -EINVAL);
		check(err.code == ERR_INVALID_REQUEST);
	}
	tap_ok("a process is read, stored, and read again");
}

int main(void)
{
	arena_init(&arena, 128 << 20);
	test_body();
	check_bad(bad_bodies, array_len(bad_bodies), parse);
	tap_ok("bad bodies are refused by name");
	test_query();
	test_limits();
	test_end();
	test_session();
	test_tail();
	test_process();
	arena_close(&arena);
	return tap_done();
}
