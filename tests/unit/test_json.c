#include "proto/json.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/cleanup.h"
#include "tests/unit/tap.h"

struct inner {
	int64_t pids;
	struct str memory;
	struct {
		bool is_last;
	} deep;
};

struct req {
	bool flag, flag_given;
	int64_t number, must;
	uint64_t count, size;
	double cpus;
	struct str cwd, stdin_bytes;
	bool cwd_given, limits_given, any_given, argv_given;
	struct json_strings argv;
	struct json_map env;
	struct inner limits;
};

/* clang-format off */
static const struct json_field deep_fields[] = {
	{"is_last", JSON_BOOL, offsetof(struct inner, deep.is_last) - offsetof(struct inner, deep), true},
	{NULL},
};

static const struct json_field inner_fields[] = {
	{"pids",   JSON_INT,    offsetof(struct inner, pids)},
	{"memory", JSON_STRING, offsetof(struct inner, memory)},
	{"deep",   JSON_OBJECT, offsetof(struct inner, deep), .fields = deep_fields},
	{NULL},
};

static const struct json_field fields[] = {
	{"flag",   JSON_BOOL,    offsetof(struct req, flag), false, offsetof(struct req, flag_given)},
	{"number", JSON_INT,     offsetof(struct req, number)},
	{"count",  JSON_UINT,    offsetof(struct req, count)},
	{"size",   JSON_SIZE,    offsetof(struct req, size)},
	{"cpus",   JSON_NUMBER,  offsetof(struct req, cpus)},
	{"cwd",    JSON_STRING,  offsetof(struct req, cwd), false, offsetof(struct req, cwd_given)},
	{"stdin",  JSON_BYTES,   offsetof(struct req, stdin_bytes)},
	{"argv",   JSON_STRINGS, offsetof(struct req, argv), false, offsetof(struct req, argv_given)},
	{"env",    JSON_MAP,     offsetof(struct req, env)},
	{"limits", JSON_OBJECT,  offsetof(struct req, limits), false, offsetof(struct req, limits_given), inner_fields},
	{"any",    JSON_IGNORED, 0, false, offsetof(struct req, any_given)},
	{NULL},
};

static const struct json_field required_fields[] = {
	{"must", JSON_INT,     offsetof(struct req, must), true},
	{"any",  JSON_IGNORED, 0, true, offsetof(struct req, any_given)},
	{NULL},
};
/* clang-format on */

static struct arena arena;
static struct err err;

static int parse(struct str text, struct req *ret)
{
	/* Of its exact size, so that a sanitizer sees a read past the end. */
	cleanup_free char *exact = malloc(text.len ? text.len : 1);
	int r;

	memcpy(exact, text.at, text.len);
	arena_close(&arena);
	*ret = (struct req){.number = -7};
	err = (struct err){0};
	r = json_parse(&arena, (struct str){exact, text.len}, fields, ret, &err);
	/* Nothing that was kept may point into the body. */
	memset(exact, 'x', text.len);
	return r;
}

static void test_types(void)
{
	struct req q;

	check(parse(STR(" {\"flag\":true,\"number\":-12,\"count\":18446744073709551615,"
			"\"cpus\":1.5e0,\"cwd\":\"/"
			"w\\u00e4\\ud83d\\ude00\",\"stdin\":\"a\\u0000b\","
			"\"argv\":[\"x\",\"\",\"y\\n\"],\"env\":{\"B\":\"1\",\"A\":\"\"},"
			"\"limits\":{\"pids\":9223372036854775807,\"memory\":\"5M\","
			"\"deep\":{\"is_last\":true}},\"any\":[{\"a\":[1,null,\"\\u0000\"]},1e999]}"
			"\r\n\t "),
		    &q) == 0);
	check(q.flag && q.flag_given && q.number == -12 && q.count == UINT64_MAX && q.cpus == 1.5);
	check_str(q.cwd.at, "/w\xc3\xa4\xf0\x9f\x98\x80");
	check(q.cwd.len == 8 && q.cwd_given && q.any_given && q.limits_given && q.argv_given);
	check(q.stdin_bytes.len == 3 && memcmp(q.stdin_bytes.at, "a\0b", 4) == 0);
	check(q.argv.len == 3);
	check_str(q.argv.items[0].at, "x");
	check_str(q.argv.items[1].at, "");
	check_str(q.argv.items[2].at, "y\n");
	check(q.env.len == 2);
	check_str(q.env.items[0].key.at, "B");
	check_str(q.env.items[0].value.at, "1");
	check_str(q.env.items[1].key.at, "A");
	check_str(q.env.items[1].value.at, "");
	check(q.limits.pids == INT64_MAX && q.limits.deep.is_last);
	check_str(q.limits.memory.at, "5M");
	tap_ok("every type lands in the struct");

	check(parse(STR("{}"), &q) == 0);
	check(q.number == -7 && !q.flag_given && !q.cwd_given && !q.cwd.at);
	check(parse(STR("{\"flag\":null,\"number\":null,\"count\":null,\"cpus\":null,\"cwd\":null,"
			"\"stdin\":null,\"argv\":null,\"env\":null,\"limits\":null,\"any\":null}"),
		    &q) == 0);
	check(q.number == -7 && !q.flag_given && !q.cwd_given && !q.limits_given && !q.any_given);
	check(!q.argv_given && !q.argv.items);
	tap_ok("what is absent or null leaves the default");

	check(parse(STR("{\"argv\":[],\"env\":{},\"limits\":{},\"any\":{}}"), &q) == 0);
	check(q.argv_given && !q.argv.len && !q.env.len && q.limits_given && q.any_given);
	check(parse(STR("{\"number\":-9223372036854775808,\"cpus\":-0}"), &q) == 0);
	check(q.number == INT64_MIN && q.cpus == 0);
	check(parse(STR("{\"number\":0,\"count\":0,\"cpus\":1e-400}"), &q) == 0);
	check(q.number == 0 && q.cpus == 0);
	check(parse(STR("{\"env\":{\"\":\"empty\",\"\\u0041\":\"esc\"}}"), &q) == 0);
	check_str(q.env.items[1].key.at, "A");
	check(parse(STR("{\"size\":9223372036854775807}"), &q) == 0 && q.size == INT64_MAX);
	check(parse(STR("{\"size\":\"512M\"}"), &q) == 0 && q.size == 512 << 20);
	check(parse(STR("{\"size\":\"0\"}"), &q) == 0 && q.size == 0);
	tap_ok("empty containers and the ends of the ranges");
}

struct bad {
	struct str text;
	const char *sentence; /* must be in it */
};

/* clang-format off */
#define BAD(text, sentence) {STR(text), sentence}
static const struct bad bad_values[] = {
	BAD("{\"flag\":1}", "flag must be true or false"),
	BAD("{\"flag\":\"true\"}", "flag must be true or false"),
	BAD("{\"flag\":[]}", "flag must be true or false"),
	BAD("{\"flag\":{}}", "flag must be true or false"),
	BAD("{\"number\":true}", "number must be an integer"),
	BAD("{\"number\":\"1\"}", "number must be an integer"),
	BAD("{\"number\":[1]}", "number must be an integer"),
	BAD("{\"number\":{}}", "number must be an integer"),
	BAD("{\"number\":1.5}", "number must be an integer"),
	BAD("{\"number\":1.0}", "number must be an integer"),
	BAD("{\"number\":1e2}", "number must be an integer"),
	BAD("{\"number\":1e400}", "number must be an integer"),
	BAD("{\"number\":-0}", "number must be an integer"),
	BAD("{\"number\":9223372036854775808}", "number is out of range"),
	BAD("{\"number\":-9223372036854775809}", "number is out of range"),
	BAD("{\"number\":99999999999999999999}", "number is out of range"),
	BAD("{\"number\":-99999999999999999999}", "number is out of range"),
	BAD("{\"count\":-1}", "count must not be negative"),
	BAD("{\"count\":-99999999999999999999}", "count must not be negative"),
	BAD("{\"count\":-0}", "count must be an integer"),
	BAD("{\"count\":18446744073709551616}", "count is out of range"),
	BAD("{\"count\":99999999999999999999}", "count is out of range"),
	BAD("{\"count\":0.5}", "count must be an integer"),
	BAD("{\"count\":\"\"}", "count must be an integer"),
	BAD("{\"size\":\"5X\"}", "size must be a size: an integer, or a string such as \"512M\""),
	BAD("{\"size\":\"\"}", "size must be a size"),
	BAD("{\"size\":\"5M\\u0000\"}", "size must be a size"),
	BAD("{\"size\":1.5}", "size must be a size"),
	BAD("{\"size\":true}", "size must be a size"),
	BAD("{\"size\":[]}", "size must be a size"),
	BAD("{\"size\":{}}", "size must be a size"),
	BAD("{\"size\":-1}", "size must not be negative"),
	BAD("{\"size\":9223372036854775808}", "size is out of range"),
	BAD("{\"size\":\"8388608T\"}", "size is out of range"),
	BAD("{\"cpus\":\"1\"}", "cpus must be a number"),
	BAD("{\"cpus\":false}", "cpus must be a number"),
	BAD("{\"cpus\":1e400}", "cpus is out of range"),
	BAD("{\"cpus\":-1e400}", "cpus is out of range"),
	BAD("{\"cwd\":1}", "cwd must be a string"),
	BAD("{\"cwd\":true}", "cwd must be a string"),
	BAD("{\"cwd\":[]}", "cwd must be a string"),
	BAD("{\"cwd\":{}}", "cwd must be a string"),
	BAD("{\"cwd\":\"a\\u0000b\"}", "cwd must not hold a NUL"),
	BAD("{\"stdin\":1}", "stdin must be a string"),
	BAD("{\"stdin\":[]}", "stdin must be a string"),
	BAD("{\"argv\":\"x\"}", "argv must be an array of strings"),
	BAD("{\"argv\":{}}", "argv must be an array of strings"),
	BAD("{\"argv\":1}", "argv must be an array of strings"),
	BAD("{\"argv\":[1]}", "argv[0] must be a string"),
	BAD("{\"argv\":[\"a\",\"b\",null]}", "argv[2] must be a string"),
	BAD("{\"argv\":[\"a\",[\"b\"]]}", "argv[1] must be a string"),
	BAD("{\"argv\":[\"a\",{}]}", "argv[1] must be a string"),
	BAD("{\"argv\":[true]}", "argv[0] must be a string"),
	BAD("{\"argv\":[\"a\",\"\\u0000\"]}", "argv[1] must not hold a NUL"),
	BAD("{\"env\":\"x\"}", "env must be an object"),
	BAD("{\"env\":[]}", "env must be an object"),
	BAD("{\"env\":{\"A\":1}}", "env.A must be a string"),
	BAD("{\"env\":{\"A\":null}}", "env.A must be a string"),
	BAD("{\"env\":{\"A\":\"\",\"B\":{}}}", "env.B must be a string"),
	BAD("{\"env\":{\"A\":[]}}", "env.A must be a string"),
	BAD("{\"env\":{\"A\":false}}", "env.A must be a string"),
	BAD("{\"env\":{\"A\":\"\\u0000\"}}", "env.A must not hold a NUL"),
	BAD("{\"env\":{\"A\\u0000\":\"\"}}", "env.A\\x00 must not hold a NUL character in its name"),
	BAD("{\"env\":{\"A\":\"1\",\"B\":\"\",\"\\u0041\":\"2\"}}", "field \"env.A\" is given twice"),
	BAD("{\"env\":{\"\":\"1\",\"\":\"2\"}}", "field \"env.\" is given twice"),
	BAD("{\"limits\":[]}", "limits must be an object"),
	BAD("{\"limits\":\"\"}", "limits must be an object"),
	BAD("{\"limits\":{\"memory\":5}}", "limits.memory must be a string"),
	BAD("{\"limits\":{\"pids\":\"5\"}}", "limits.pids must be an integer"),
	BAD("{\"limits\":{\"pids\":1e400}}", "limits.pids must be an integer"),
	BAD("{\"limits\":{\"deep\":{\"is_last\":0}}}", "limits.deep.is_last must be true or false"),
	BAD("{\"limits\":{\"deep\":{\"is_last\":null}}}", "limits.deep.is_last must be true or false"),
	BAD("{\"limits\":{\"deep\":{}}}", "field \"limits.deep.is_last\" is missing"),
	BAD("{\"limits\":{\"foo\":1}}", "unknown field \"limits.foo\""),
	BAD("{\"limits\":{\"deep\":{\"is_last\":true,\"x\":1}}}", "unknown field \"limits.deep.x\""),
	BAD("{\"foo\":1}", "unknown field \"foo\""),
	BAD("{\"\":1}", "unknown field \"\""),
	BAD("{\"fla\":true}", "unknown field \"fla\""),
	BAD("{\"flags\":true}", "unknown field \"flags\""),
	BAD("{\"Flag\":true}", "unknown field \"Flag\""),
	BAD("{\"flag\\u0000\":true}", "unknown field \"flag\\x00\""),
	BAD("{\"\\u0000\":true}", "unknown field \"\\x00\""),
	BAD("{\"\\u001b[31m\\\"\\\\\xc3\xa4\":true}", "unknown field \"\\x1b[31m\\x22\\x5c\\xc3\\xa4\""),
	BAD("{\"flag\":true,\"flag\":true}", "field \"flag\" is given twice"),
	BAD("{\"flag\":null,\"flag\":true}", "field \"flag\" is given twice"),
	BAD("{\"flag\":true,\"fl\\u0061g\":true}", "field \"flag\" is given twice"),
	BAD("{\"limits\":{\"pids\":1,\"pids\":1}}", "field \"limits.pids\" is given twice"),
	BAD("{\"any\":1,\"any\":1}", "field \"any\" is given twice"),
	BAD("{\"any\":{\"a\":1,\"b\":{},\"a\":2}}", "field \"any.a\" is given twice"),
	BAD("{\"any\":[1,{\"x\":{\"y\":[{\"a\":1,\"a\":1}]}}]}", "field \"any[1].x.y[0].a\" is given twice"),
};

static const struct bad bad_texts[] = {
	BAD("", "the body must be a JSON object"),
	BAD(" \n", "the body must be a JSON object"),
	BAD("[]", "the body must be a JSON object"),
	BAD("1", "the body must be a JSON object"),
	BAD("null", "the body must be a JSON object"),
	BAD("\"{}\"", "the body must be a JSON object"),
	BAD("\xef\xbb\xbf{}", "the body begins with a byte order mark: save it as UTF-8 without one (BOM)"),
	BAD("\0{}", "the body must be a JSON object"),
	BAD("{", "ends before"),
	BAD("{\"flag\"", "ends before"),
	BAD("{\"flag\":t", "ends before"),
	BAD("{\"flag\":true", "ends before"),
	BAD("{\"count\":12", "ends before"),
	BAD("{\"cwd", "ends inside a string"),
	BAD("{\"cwd\\", "ends inside a string"),
	BAD("{\"cwd\\\"", "ends inside a string"),
	BAD("{\"cwd\":\"\\u00", "four hexadecimal digits"),
	BAD("{\"cwd\":\"\\ud83d\\u", "half of a surrogate pair"),
	BAD("{}{}", "goes on after"),
	BAD("{} x", "goes on after its JSON object (at byte 3)"),
	BAD("{} \"unfinished", "goes on after"),
	BAD("{}\0", "goes on after"),
	BAD("{}}", "goes on after"),
	BAD("{},", "goes on after"),
	BAD("{}\f", "goes on after"),
	BAD("{\f}", "control character"),
	BAD("{\v}", "control character"),
	BAD("{\0}", "control character"),
	BAD("/**/{}", "must be a JSON object"),
	BAD("{/**/}", "not valid JSON"),
	BAD("{//\n}", "not valid JSON"),
	BAD("{\"flag\":true,}", "not valid JSON"),
	BAD("{,}", "not valid JSON"),
	BAD("{\"flag\"}", "not valid JSON"),
	BAD("{\"flag\" true}", "not valid JSON"),
	BAD("{\"flag\":}", "not valid JSON"),
	BAD("{flag:true}", "not valid JSON"),
	BAD("{'flag':true}", "not valid JSON"),
	BAD("{\"flag\":True}", "not valid JSON"),
	BAD("{\"flag\":truefalse}", "not valid JSON"),
	BAD("{\"flag\":tru}", "not valid JSON"),
	BAD("{1:true}", "not valid JSON"),
	BAD("{\"cpus\":NaN}", "not valid JSON"),
	BAD("{\"cpus\":Infinity}", "not valid JSON"),
	BAD("{\"cpus\":+1}", "not valid JSON"),
	BAD("{\"cpus\":01}", "not valid JSON"),
	BAD("{\"cpus\":1.}", "not valid JSON"),
	BAD("{\"cpus\":.5}", "not valid JSON"),
	BAD("{\"cpus\":1e}", "not valid JSON"),
	BAD("{\"cpus\":-}", "not valid JSON"),
	BAD("{\"cpus\":0x10}", "not valid JSON"),
	BAD("{\"any\":[1,]}", "not valid JSON"),
	BAD("{\"any\":[1 2]}", "not valid JSON"),
	BAD("{\"any\":[}]", "not valid JSON"),
	BAD("{\"any\":[1}}", "not valid JSON"),
	BAD("{]", "not valid JSON"),
	BAD("{\"cwd\":\"\n\"}", "not valid JSON"),
	BAD("{\"cwd\":\"\\x41\"}", "not valid JSON"),
	BAD("{\"cwd\":\"\\'\"}", "not valid JSON"),
	BAD("{\"cwd\":\"\\uzzzz\"}", "not valid JSON"),
	BAD("{\"cwd\":\"\\ud800\"}", "half of a surrogate pair (at byte 8)"),
	BAD("{\"cwd\":\"\\udc00\"}", "half of a surrogate pair"),
	BAD("{\"cwd\":\"\\ud800\\ud800\"}", "half of a surrogate pair"),
	BAD("{\"cwd\":\"\\ud800\\u0041\"}", "half of a surrogate pair"),
	BAD("{\"cwd\":\"\\ud800x\\udc00\"}", "half of a surrogate pair"),
	BAD("{\"cwd\":\"\\ud800\\n\"}", "half of a surrogate pair"),
	BAD("{\"\\udfff\":1}", "half of a surrogate pair"),
	BAD("{\"any\":\"\\udfff\"}", "half of a surrogate pair"),
	BAD("{\"cwd\":\"\xff\"}", "not valid UTF-8 (at byte 8)"),
	BAD("{\"cwd\":\"\xed\xa0\x80\"}", "not valid UTF-8"),
	BAD("{\"cwd\":\"\xc0\xaf\"}", "not valid UTF-8"),
	BAD("{\"cwd\":\"\xf4\x90\x80\x80\"}", "not valid UTF-8"),
	BAD("{\"cwd\":\"\xc3\"}", "not valid UTF-8"),
	BAD("{\"\x80\":1}", "not valid UTF-8"),
	BAD("{\xc2\xa0}", "not valid JSON"),
};
/* clang-format on */

static void run_bad(const struct bad *cases, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++) {
		struct req q;
		int r = parse(cases[i].text, &q);

		check(r == -EINVAL && err.code == ERR_INVALID_REQUEST);
		if (r == 0 || !strstr(err.sentence, cases[i].sentence)) {
			printf("# %s: \"%s\", expected \"%s\"\n", cases[i].text.at, err.sentence,
			       cases[i].sentence);
			check(false);
		}
	}
	tap_ok(name);
}

static void test_required(void)
{
	struct req q = {0};

	check(json_parse(&arena, STR("{\"any\":1}"), required_fields, &q, &err) == -EINVAL);
	check_str(err.sentence, "field \"must\" is missing");
	check(json_parse(&arena, STR("{\"must\":1}"), required_fields, &q, &err) == -EINVAL);
	check_str(err.sentence, "field \"any\" is missing");
	check(json_parse(&arena, STR("{\"must\":null,\"any\":1}"), required_fields, &q, &err) < 0);
	check_str(err.sentence, "must must be an integer");
	check(json_parse(&arena, STR("{\"must\":1,\"any\":null}"), required_fields, &q, &err) == 0);
	check(q.must == 1 && q.any_given);
	check(json_parse(&arena, STR("{"), required_fields, &q, NULL) == -EINVAL);
	arena_close(&arena);
	tap_ok("required fields are named when missing or null");
}

/* `count` times `part`, in which %zu is the number, between two texts. */
static struct buf repeated(const char *before, const char *part, size_t count, const char *after)
{
	struct buf b;

	buf_init(&b, 1u << 30);
	buf_append_str(&b, str_of(before));
	for (size_t i = 0; i < count; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		if (strchr(part, '%'))
			buf_printf(&b, part, i);
		else
			buf_append_str(&b, str_of(part));
#pragma GCC diagnostic pop
	}
	buf_append_str(&b, str_of(after));
	return b;
}

static int parse_buf(struct buf b, struct req *q)
{
	int r = parse((struct str){buf_at(&b), buf_len(&b)}, q);

	buf_close(&b);
	return r;
}

static void test_depth(void)
{
	struct req q;
	static const char before[] = "{\"any\":";
	cleanup_free char *deep = malloc(10 << 20);

	check(parse_buf(repeated("{\"any\":", "[", 31, "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}"), &q) ==
	      0);
	check(parse_buf(repeated("{\"any\":", "[", 32, "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}"), &q) <
	      0);
	check_str(err.sentence, "the body is nested too deeply (at byte 38)");
	check(parse_buf(repeated("", "{\"any\":", 33, ""), &q) < 0);
	check_str(err.sentence, "the body is nested too deeply (at byte 224)");
	memset(deep, '[', 10 << 20);
	check(parse((struct str){deep, 10 << 20}, &q) < 0);
	check_str(err.sentence, "the body must be a JSON object");
	memcpy(deep, before, strlen(before));
	check(parse((struct str){deep, 10 << 20}, &q) < 0);
	check_str(err.sentence, "the body is nested too deeply (at byte 38)");
	check(arena.used == 0);
	tap_ok("depth 33 is refused before anything grows");
}

static void test_many(void)
{
	struct req q;
	struct timespec before, after;
	struct buf map;
	double ms;

	check(parse_buf(repeated("{\"argv\":[\"\"", ",\"a%zu\"", JSON_ITEMS_MAX - 1, "]}"), &q) ==
	      0);
	check(q.argv.len == JSON_ITEMS_MAX);
	check_str(q.argv.items[JSON_ITEMS_MAX - 1].at, "a65534");
	check(parse_buf(repeated("{\"argv\":[\"\"", ",\"\"", JSON_ITEMS_MAX, "]}"), &q) == -EINVAL);
	check_str(err.sentence, "argv has more than 65536 elements");
	map = repeated("{\"env\":{\"\":\"\"", ",\"a%zu\":\"v\"", JSON_ITEMS_MAX - 1, "}}");
	clock_gettime(CLOCK_MONOTONIC, &before);
	check(parse_buf(map, &q) == 0);
	clock_gettime(CLOCK_MONOTONIC, &after);
	ms = (double)(after.tv_sec - before.tv_sec) * 1e3 +
	     (double)(after.tv_nsec - before.tv_nsec) / 1e6;
	printf("# a map of 65,536 keys: %.1f ms, arena %zu kB\n", ms, arena.used / 1024);
	check(ms < 2000); /* comparing each with each takes longer, also where sanitizers do not */
	check(q.env.len == JSON_ITEMS_MAX);
	check_str(q.env.items[12346].key.at, "a12345");
	check_str(q.env.items[12346].value.at, "v");
	check(parse_buf(repeated("{\"env\":{\"\":\"\"", ",\"a%zu\":\"\"", JSON_ITEMS_MAX, "}}"),
			&q) < 0);
	check_str(err.sentence, "env has more than 65536 elements");
	check(parse_buf(repeated("{\"env\":{\"a777\":\"\"", ",\"a%zu\":\"v\"", 5000, "}}"), &q) <
	      0);
	check_str(err.sentence, "field \"env.a777\" is given twice");
	check(parse_buf(repeated("{\"any\":[{\"a9\":\"\"", ",\"a%zu\":{}", 10, "}]}"), &q) < 0);
	check_str(err.sentence, "field \"any[0].a9\" is given twice");
	check(parse_buf(repeated("{\"any\":[0", ",{\"a\":1,\"b\":[{\"a\":2}]}", 5000, "]}"), &q) ==
	      0);
	check(arena.used < 300 * 1024);
	tap_ok("arrays and maps hold 65,536 elements, and no key twice");
}

static void test_memory(void)
{
	struct req q;
	struct buf large = repeated("{\"cwd\":\"", "0123456789", 2000, "\"}");
	struct buf escaped = repeated("{\"cwd\":\"", "\\n1234567", 2000, "\"}");
	struct buf names = repeated("{\"argv\":[\"\"", ",\"\"", 3000, "]}");
	struct arena small;

	for (size_t limit = 0; limit < 200 * 1024; limit += 4096) {
		struct str texts[] = {{buf_at(&large), buf_len(&large)},
				      {buf_at(&escaped), buf_len(&escaped)},
				      {buf_at(&names), buf_len(&names)}};

		for (size_t i = 0; i < array_len(texts); i++) {
			int r;

			arena_init(&small, limit);
			r = json_parse(&small, texts[i], fields, &q, &err);
			check(r == 0 || (r == -EMSGSIZE && err.code == ERR_PAYLOAD_TOO_LARGE));
			check(r < 0 || limit > 16 * 1024);
			check(r == 0 || limit < 192 * 1024);
			check(small.used <= limit);
			arena_close(&small);
		}
	}
	check(parse((struct str){buf_at(&escaped), buf_len(&escaped)}, &q) == 0);
	check(q.cwd.len == 16000 && memcmp(q.cwd.at + 15992, "\n1234567", 9) == 0);
	buf_close(&large);
	buf_close(&escaped);
	buf_close(&names);
	tap_ok("the arena's limit is an answer, not a crash");
}

static void test_edges(void)
{
	struct req q;

	/* Around the size at which yajl's buffer for unescaped strings doubles. */
	for (size_t len = 2040; len < 2060; len++) {
		check(parse_buf(repeated("{\"stdin\":\"\\n", "x", len, "\"}"), &q) == 0);
		check(q.stdin_bytes.len == len + 1);
		check(parse_buf(repeated("{\"stdin\":\"", "x", len, "\\n\"}"), &q) == 0);
		check(q.stdin_bytes.at[len] == '\n' && q.stdin_bytes.len == len + 1);
	}
	check(parse_buf(repeated("{\"cpus\":0.", "0", 126, "}"), &q) == 0);
	check(parse_buf(repeated("{\"cpus\":0.", "0", 127, "}"), &q) == -EINVAL);
	check_str(err.sentence, "cpus has too many digits");
	check(parse_buf(repeated("{\"count\":1", "0", 1 << 20, "}"), &q) == -EINVAL);
	check_str(err.sentence, "count has too many digits");
	check(parse_buf(repeated("{\"any\":1", "0", 1 << 20, "}"), &q) == 0);
	check(parse_buf(repeated("{\"", "a", 1000, "\":1}"), &q) == -EINVAL);
	check(strlen(err.sentence) < 100 && strstr(err.sentence, "aaa...\""));
	check(parse_buf(repeated("{\"any\":{\"", "\\u0001", 1000, "\":{\"a\":1,\"a\":1}}}"), &q) <
	      0);
	check(strlen(err.sentence) < 120 && strstr(err.sentence, "\\x01....a\" is given twice"));
	check(parse_buf(repeated("", " ", 1 << 20, "{}"), &q) == 0);
	check(arena.used == 0);
	tap_ok("long numbers, names and unescaped strings");
}

int main(void)
{
	arena_init(&arena, 16 << 20);
	test_types();
	run_bad(bad_values, array_len(bad_values), "wrong values are refused by name");
	run_bad(bad_texts, array_len(bad_texts), "what is not one JSON object is refused");
	test_required();
	test_depth();
	test_many();
	test_memory();
	test_edges();
	arena_close(&arena);
	return tap_done();
}
