#include "proto/kernel.h"

#include <errno.h>
#include <stdlib.h>

#include "tests/unit/tap.h"

static struct arena arena;
static struct kernel_report report;
static struct err err;

static int parse(const char *line)
{
	arena_close(&arena);
	arena_init(&arena, 1 << 20);
	err = (struct err){0};
	return kernel_report_parse(&arena, str_of(line), &report, &err);
}

static const char *written(const struct kernel_order *order)
{
	static char text[4096];
	struct buf out;
	int r;

	buf_init(&out, KERNEL_LINE_MAX);
	r = kernel_order_write(order, &out);
	if (r < 0)
		snprintf(text, sizeof(text), "%s", strerrorname_np(-r));
	else
		snprintf(text, sizeof(text), "%.*s", (int)buf_len(&out), buf_at(&out));
	buf_close(&out);
	return text;
}

static void test_languages(void)
{
	for (int i = 0; i < KERNEL_LANGUAGE_COUNT; i++)
		check(kernel_language_find(str_of(kernel_language_name(i))) == i);
	check(kernel_language_find(STR("js")) == KERNEL_JAVASCRIPT);
	check(kernel_language_find(STR("node")) == KERNEL_JAVASCRIPT);
	check(kernel_language_find(STR("ts")) == KERNEL_TYPESCRIPT);
	check(kernel_language_find(STR("py")) == KERNEL_PYTHON);
	check(kernel_language_find(STR("sh")) == KERNEL_BASH);
	check(kernel_language_find(STR("")) < 0 && kernel_language_find(STR("perl")) < 0);
	tap_ok("languages have names");
}

static void test_orders(void)
{
	struct json_pair pairs[] = {{STR("A"), STR("b\"")}, {STR("C"), STR("")}};
	struct kernel_order order = {
		.kind = KERNEL_CODE,
		.call = 7,
		.language = KERNEL_PYTHON,
		.code = STR("print('a')\n\0"),
	};

	check_str(written(&order), "{\"call\":7,\"code\":\"print('a')\\n\\u0000\"}\n");
	order.code = (struct str){NULL, 0};
	check_str(written(&order), "{\"call\":7,\"code\":\"\"}\n");
	order.kind = KERNEL_LOAD;
	order.language = KERNEL_TYPESCRIPT;
	order.code = STR("x");
	order.file = STR("a.ts");
	order.cwd = STR("/w");
	order.env = (struct json_map){pairs, 2};
	check_str(written(&order),
		  "{\"call\":7,\"load\":\"x\",\"file\":\"a.ts\",\"cwd\":\"/w\","
		  "\"env\":{\"A\":\"b\\\"\",\"C\":\"\"},\"language\":\"typescript\"}\n");
	order = (struct kernel_order){.kind = KERNEL_INVOKE, .call = 8};
	check_str(written(&order), "{\"call\":8,\"invoke\":{}}\n");
	order.input = STR("[1, null]");
	order.request = STR("{}");
	check_str(written(&order),
		  "{\"call\":8,\"invoke\":{\"input\":[1, null],\"request\":{}}}\n");
	order = (struct kernel_order){.kind = KERNEL_CODE, .call = 9, .code = STR("\xff")};
	check_str(written(&order), "EILSEQ");
	tap_ok("orders are written as lines");
}

static void test_long_order(void)
{
	char *code = malloc(KERNEL_LINE_MAX);
	struct kernel_order order = {.kind = KERNEL_CODE, .call = 1};
	const size_t frame = strlen("{\"call\":1,\"code\":\"\"}\n");
	struct buf out;

	memset(code, 'x', KERNEL_LINE_MAX);
	buf_init(&out, 2 * KERNEL_LINE_MAX);
	order.code = (struct str){code, KERNEL_LINE_MAX - frame};
	check(kernel_order_write(&order, &out) == 0 && buf_len(&out) == KERNEL_LINE_MAX);
	order.code.len++;
	check(kernel_order_write(&order, &out) == -EMSGSIZE && buf_len(&out) == KERNEL_LINE_MAX);
	buf_close(&out);
	free(code);
	tap_ok("an order is no longer than a line may be");
}

static void test_ready(void)
{
	check(parse("{\"ready\": true, \"language\": \"python\", \"version\": \"3\", \"pid\": "
		    "7}") == 0);
	check(report.kind == KERNEL_READY && report.pid == 7 && report.call == 0);
	check(parse("{\"ready\": false, \"pid\": 7}") == -EINVAL);
	check(parse("{\"ready\": true, \"call\": 1}") == -EINVAL);
	tap_ok("ready");
}

static void test_reports(void)
{
	check(parse("{\"call\": 1, \"checked\": true}") == 0 && report.kind == KERNEL_CHECKED);
	check(report.call == 1);
	check(parse("{\"call\": 2, \"result\": {\"text\": \"a\\u0000\", \"json\": {\"a\": [1]}, "
		    "\"chart\": null, \"png\": \"aGk=\", \"is_value\": true, \"truncated\": "
		    "true}}") == 0);
	check(report.kind == KERNEL_RESULT && report.result.text.len == 2);
	check(report.result.is_value && report.result.is_truncated && !report.result.html.len);
	check_str(report.result.json.at, "{\"a\": [1]}");
	check_str(report.result.chart.at, "null");
	check_str(report.result.png.at, "aGk=");
	check(parse("{\"call\": 3, \"log\": {\"level\": \"warn\", \"message\": \"m\", "
		    "\"time\": 1700000000.5}}") == 0);
	check(report.kind == KERNEL_LOG && report.log.time == 1700000000.5);
	check(parse("{\"call\": 3, \"value\": null, \"nothing\": true}") == 0);
	check(report.kind == KERNEL_VALUE && report.is_nothing);
	check_str(report.value.at, "null");
	check(parse("{\"call\": 3, \"value\": [1]}") == 0 && !report.is_nothing);
	check(parse("{\"call\": 4, \"error\": {\"name\": \"E\", \"message\": \"\", "
		    "\"traceback\": [\"a\\u0000\", \"b\"], \"file\": \"c.py\", \"line\": 2, "
		    "\"column\": 5, \"is_syntax\": true, \"exit_code\": 4, \"blocked\": "
		    "\"network\", \"too_long\": true}}") == 0);
	check(report.error.is_too_long);
	check(report.kind == KERNEL_ERROR && report.error.line == 2 && report.error.column == 5);
	check(report.error.traceback.len == 2 && report.error.is_syntax);
	check(report.error.exit_code == 4);
	check_str(report.error.blocked.at, "network");
	check(parse("{\"call\": 5, \"done\": \"interrupted\"}") == 0);
	check(report.kind == KERNEL_DONE && report.done == KERNEL_DONE_INTERRUPTED);
	tap_ok("every report is read");
}

static void test_refused(void)
{
	static const char *const lines[] = {
		"",
		"1",
		"[]",
		"{}",
		"{\"call\": 1}",
		"{\"call\": 1, \"done\": \"maybe\"}",
		"{\"done\": \"ok\"}",
		"{\"call\": 0, \"done\": \"ok\"}",
		"{\"call\": -1, \"done\": \"ok\"}",
		"{\"call\": 1.5, \"done\": \"ok\"}",
		"{\"call\": 18446744073709551615, \"done\": \"ok\"}",
		"{\"call\": \"1\", \"done\": \"ok\"}",
		"{\"call\": 1, \"done\": \"ok\", \"done\": \"ok\"}",
		"{\"call\": 1, \"done\": \"ok\", \"checked\": true}",
		"{\"call\": 1, \"done\": \"ok\", \"nothing\": true}",
		"{\"call\": 1, \"checked\": false}",
		"{\"call\": 1, \"result\": {\"text\": 1}}",
		"{\"call\": 1, \"result\": {\"texts\": \"\"}}",
		"{\"call\": 1, \"result\": []}",
		"{\"call\": 1, \"error\": {\"name\": \"E\"}}",
		"{\"call\": 1, \"error\": {\"name\": \"E\", \"message\": \"\", \"line\": -1}}",
		"{\"call\": 1, \"error\": {\"name\": \"\", \"message\": \"\", \"traceback\": 1}}",
		"{\"call\": 1, \"error\": {\"name\": \"E\", \"message\": \"\", \"exit_code\": 0}}",
		"{\"call\": 1, \"error\": {\"name\": \"E\", \"message\": \"\", \"exit_code\":256}}",
		"{\"call\": 1, \"log\": {\"message\": \"\"}}",
		"{\"call\": 1, \"log\": {\"level\": \"\", \"message\": \"\", \"time\": 1e999}}",
		"{\"call\": 1, \"value\": nan}",
		"{\"call\": 1, \"done\": \"ok\"} x",
		"{\"call\": 1, \"other\": 1, \"done\": \"ok\"}",
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		check(parse(lines[i]) == -EINVAL);
		check(err.code != ERR_NONE && err.sentence[0]);
		if (err.code == ERR_NONE)
			printf("# %s\n", lines[i]);
	}
	tap_ok("what makes no sense is refused");
}

int main(void)
{
	arena_init(&arena, 1 << 20);
	test_languages();
	test_orders();
	test_long_order();
	test_ready();
	test_reports();
	test_refused();
	arena_close(&arena);
	return tap_done();
}
