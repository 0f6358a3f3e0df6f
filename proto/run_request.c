#include "proto/run_request.h"

#include <errno.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "proto/agent.h"
#include "proto/exec_asked.h"
#include "proto/settings_limits.h"

struct asked_network {
	struct str mode;
};

/* What was asked for, before it is checked. */
struct asked_run {
	struct str task_id, code, language, image, input, request, metadata, trust;
	struct json_map env;
	bool env_given;
	uint64_t timeout_ms;
	struct settings_limits_body limits;
	struct asked_network network;
	struct json_objects tests;
	bool is_async;
	bool task_id_given, input_given, request_given, metadata_given, timeout_given, tests_given;
	bool image_given, trust_given, network_given, packages, bindings, callback;
};

/* clang-format off */
#define TEST(member) offsetof(struct run_test, member)
#define AT(member)   offsetof(struct asked_run, member)

static const struct json_field test_fields[] = {
	{ "input",    JSON_RAW, TEST(input),    false, TEST(input_given) },
	{ "expected", JSON_RAW, TEST(expected), false, TEST(expected_given) },
	{ NULL },
};

static const struct json_field network_fields[] = {
	{ "mode", JSON_STRING,  offsetof(struct asked_network, mode), true },
	{ "*",    JSON_IGNORED, 0 },
	{ NULL },
};

static const struct json_field run_fields[] = {
	{ "task_id",    JSON_STRING,  AT(task_id),    false, AT(task_id_given) },
	{ "code",       JSON_BYTES,   AT(code),       true },
	{ "language",   JSON_STRING,  AT(language),   true },
	{ "image",      JSON_STRING,  AT(image),      false, AT(image_given) },
	{ "input",      JSON_RAW,     AT(input),      false, AT(input_given) },
	{ "request",    JSON_RAW,     AT(request),    false, AT(request_given) },
	{ "env",        JSON_MAP,     AT(env),        false, AT(env_given) },
	{ "timeout_ms", JSON_UINT,    AT(timeout_ms), false, AT(timeout_given) },
	{ "limits",     JSON_OBJECT,  AT(limits),     false, 0, settings_limits_fields },
	{ "network",    JSON_OBJECT,  AT(network),    false, AT(network_given), network_fields },
	{ "trust",      JSON_STRING,  AT(trust),      false, AT(trust_given) },
	{ "tests",      JSON_OBJECTS, AT(tests),      false, AT(tests_given), test_fields, sizeof(struct run_test) },
	{ "metadata",   JSON_RAW,     AT(metadata),   false, AT(metadata_given) },
	{ "async",      JSON_BOOL,    AT(is_async) },
	{ "packages",   JSON_IGNORED, 0,              false, AT(packages) },
	{ "bindings",   JSON_IGNORED, 0,              false, AT(bindings) },
	{ "callback",   JSON_IGNORED, 0,              false, AT(callback) },
	{ NULL },
};
/* clang-format on */

static int refuse(struct err *err, const char *sentence)
{
	return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "%s", sentence);
}

static bool is_null(struct str text)
{
	return str_eq(text, STR("null"));
}

/* Each of these gets a reader of its own when it comes. */
static int check_later(const struct asked_run *a, struct err *err)
{
	const struct {
		const char *field, *why;
		bool is_asked;
	} later[] = {
		{"packages", "a run has what its image has", a->packages},
		{"bindings", "a run reaches nothing outside of its sandbox", a->bindings},
		{"callback", "ask for the end with POST /v1/runs/{run}/wait", a->callback},
		{"network", "a run has no network; its mode is \"none\"",
		 a->network_given && !str_eq(a->network.mode, STR("none"))},
	};

	for (size_t i = 0; i < array_len(later); i++) {
		if (later[i].is_asked)
			return err_set(err, -EOPNOTSUPP, ERR_UNSUPPORTED,
				       "%s is not supported yet: %s", later[i].field, later[i].why);
	}
	return 0;
}

static int check_env(const struct json_map *env, struct err *err)
{
	size_t size = 0;

	for (size_t i = 0; i < env->len; i++) {
		struct str name = env->items[i].key;
		size_t len = name.len + env->items[i].value.len + 2;

		if (!name.len || memchr(name.at, '=', name.len))
			return refuse(err, "a name in env must not be empty or hold \"=\"");
		if (len > AGENT_STRING_MAX)
			return err_set(err, -E2BIG, ERR_INVALID_REQUEST,
				       "env: \"%.*s\" is longer than the %d bytes that name and "
				       "value may have together",
				       STR_ARGS(name), AGENT_STRING_MAX - 2);
		size += len;
	}
	if (size > SETTINGS_ENV_MAX)
		return err_set(err, -E2BIG, ERR_INVALID_REQUEST,
			       "env has more than %d bytes of names and values", SETTINGS_ENV_MAX);
	return 0;
}

static int check_tests(const struct asked_run *a, struct err *err)
{
	const struct run_test *tests = a->tests.items;

	if (a->tests_given && (a->input_given || a->request_given))
		return refuse(err, "tests and input exclude each other: each test has its own "
				   "input");
	if (a->tests.len > RUN_TESTS_MAX)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "tests has more than %d tests",
			       RUN_TESTS_MAX);
	for (size_t i = 0; i < a->tests.len; i++) {
		if (!tests[i].expected_given)
			return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
				       "field \"tests[%zu].expected\" is missing", i);
	}
	return 0;
}

static int check_sizes(const struct asked_run *a, struct err *err)
{
	if (!a->code.len)
		return refuse(err, "code must not be empty");
	if (a->code.len > RUN_CODE_MAX)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "code has more than %d bytes",
			       RUN_CODE_MAX);
	if (a->task_id.len > RUN_TASK_ID_MAX)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "task_id has more than %d bytes",
			       RUN_TASK_ID_MAX);
	if (a->metadata_given && a->metadata.len > RUN_METADATA_MAX)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "metadata has more than %d bytes",
			       RUN_METADATA_MAX);
	if (a->request_given && a->input_given)
		return refuse(err, "input and request exclude each other: give one of them");
	if (a->request_given && !is_null(a->request) && a->request.at[0] != '{')
		return refuse(err, "request must be an object: {\"method\", \"url\", \"headers\", "
				   "\"body\"}");
	if (a->timeout_given && a->timeout_ms > EXEC_TIMEOUT_MAX_MS)
		return refuse(err, EXEC_TIMEOUT_RULE);
	return 0;
}

static int check(const struct asked_run *a, struct err *err)
{
	int r = check_later(a, err);

	if (r == 0)
		r = check_sizes(a, err);
	if (r == 0)
		r = check_env(&a->env, err);
	if (r == 0)
		r = settings_limits_check(&a->limits, err);
	return r == 0 ? check_tests(a, err) : r;
}

void run_limits_fill(struct settings_limits *l)
{
	if (!l->output_bytes)
		l->output_bytes = RUN_OUTPUT_DEFAULT;
	if (!l->disk_bytes)
		l->disk_bytes = l->memory_bytes ? l->memory_bytes / 2 : RUN_DISK_DEFAULT;
	if (!l->inodes)
		l->inodes = RUN_INODES_DEFAULT;
}

int run_request_parse(struct arena *arena, struct str body, struct run_request *ret,
		      struct err *err)
{
	struct asked_run a = {.timeout_ms = RUN_TIMEOUT_DEFAULT};
	enum trust trust = TRUST_UNSAID;
	int language, r = json_parse(arena, body, run_fields, &a, err);

	if (r == 0)
		r = check(&a, err);
	if (r < 0)
		return r;
	language = kernel_language_find(a.language);
	if (language < 0)
		return refuse(err, "language must be python, javascript, typescript or bash");
	if (language == KERNEL_BASH && a.tests_given)
		return refuse(err, "bash has no result that tests could be about, only what it "
				   "prints: leave out tests, or choose another language");
	if (language == KERNEL_BASH && a.request_given && !is_null(a.request))
		return refuse(err, "bash has no handler that could take a request: give it an "
				   "input, which is $INPUT, or choose another language");
	if (a.image_given && !settings_is_image(a.image))
		return refuse(err, "image must be " SETTINGS_IMAGE_RULE);
	if (a.trust_given && trust_parse(a.trust, &trust) < 0)
		return refuse(err, "trust must be " TRUST_NAMES);
	*ret = (struct run_request){
		.task_id = a.task_id_given ? a.task_id : STR(""),
		.code = a.code,
		.language = (enum kernel_language)language,
		.image = a.image_given ? a.image : STR(SETTINGS_IMAGE_HOST),
		.input = a.input_given ? a.input : STR(""),
		.request = a.request_given && !is_null(a.request) ? a.request : STR(""),
		.env = a.env,
		.env_given = a.env_given,
		.timeout_ms = a.timeout_ms,
		.trust = trust,
		.limits = settings_limits_take(&a.limits),
		.tests = a.tests.items,
		.tests_len = a.tests.len,
		.has_tests = a.tests_given,
		.metadata = a.metadata_given ? a.metadata : STR(""),
		.is_async = a.is_async,
	};
	return 0;
}

int run_wait_parse(struct arena *arena, struct str body, uint64_t *ret_ms, struct err *err)
{
	static const struct json_field fields[] = {
		{"timeout_ms", JSON_UINT, 0},
		{NULL},
	};
	uint64_t timeout_ms = UINT64_MAX;
	int r = body.len ? json_parse(arena, body, fields, &timeout_ms, err) : 0;

	if (r == 0 && timeout_ms != UINT64_MAX && timeout_ms > EXEC_TIMEOUT_MAX_MS)
		r = refuse(err, EXEC_TIMEOUT_RULE);
	if (r == 0)
		*ret_ms = timeout_ms ? timeout_ms : UINT64_MAX;
	return r;
}
