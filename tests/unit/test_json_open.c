/* Tables with a "*": the reader of an answer whose writer may be newer. */
#include "proto/json.h"

#include <errno.h>

#include "tests/unit/tap.h"

struct answer {
	int64_t pid;
	struct {
		struct str name;
	} runtime;
};

/* clang-format off */
static const struct json_field runtime_fields[] = {
	{ "name", JSON_STRING, 0 },
	{ "*",    JSON_IGNORED },
	{ NULL },
};

static const struct json_field fields[] = {
	{ "pid",     JSON_INT,    offsetof(struct answer, pid), true },
	{ "runtime", JSON_OBJECT, offsetof(struct answer, runtime), .fields = runtime_fields },
	{ "*",       JSON_IGNORED },
	{ NULL },
};
/* clang-format on */

static int parse(const char *text, int64_t *ret_pid, char ret_error[512])
{
	struct answer answer = {0};
	struct err err = {0};
	struct arena arena;
	int r;

	arena_init(&arena, 1 << 20);
	r = json_parse(&arena, str_of(text), fields, &answer, &err);
	*ret_pid = answer.pid;
	memcpy(ret_error, err.sentence, sizeof(err.sentence));
	arena_close(&arena);
	return r;
}

static void test_dropped(void)
{
	static const char *const texts[] = {
		"{\"new\": 1, \"pid\": 7}",
		"{\"pid\": 7, \"new\": {\"a\": [1, {\"b\": null}], \"pid\": \"x\"}}",
		"{\"new\": [[], {}], \"other\": null, \"pid\": 7, \"third\": \"\\u0000\"}",
		"{\"pid\": 7, \"runtime\": {\"name\": \"x\", \"new\": {\"name\": 3}}}",
		"{\"n\\u0000w\": true, \"*\": 1.5, \"\": 0, \"pid\": 7}",
	};
	char error[512];
	int64_t pid;

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		check(parse(texts[i], &pid, error) == 0 && pid == 7);
		if (*error)
			printf("# %s: %s\n", texts[i], error);
	}
	tap_ok("fields that the table does not name are dropped");
}

static void test_still_checked(void)
{
	char error[512];
	int64_t pid;

	check(parse("{\"new\": 1}", &pid, error) == -EINVAL);
	check_str(error, "field \"pid\" is missing");
	check(parse("{\"pid\": \"7\", \"new\": 1}", &pid, error) == -EINVAL);
	check(parse("{\"pid\": 7, \"new\": 1, \"pid\": 7}", &pid, error) == -EINVAL);
	check(parse("{\"pid\": 7, \"new\": [}", &pid, error) == -EINVAL);
	check(parse("{\"pid\": 7, \"new\": {\"a\": 1, \"a\": 2}}", &pid, error) == -EINVAL);
	tap_ok("what it names is checked as ever");
}

int main(void)
{
	test_dropped();
	test_still_checked();
	return tap_done();
}
