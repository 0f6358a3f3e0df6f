#include "proto/trust_table.h"

#include <errno.h>

#include "base/cleanup.h"
#include "proto/capability.h"
#include "tests/unit/tap.h"

static struct arena arena;
static struct err err;

static const struct trust_means all = {true, true, true, true, true, true, true, true, 65536};

static int take_text(struct trust_table *table, const char *text)
{
	struct trust_words words;
	int r;

	arena_close(&arena);
	err = (struct err){0};
	trust_words_init(&words, table);
	r = json_parse(&arena, str_of(text), trust_fields, &words, &err);
	return r < 0 ? r : trust_table_take(table, &words, &err);
}

static void test_names(void)
{
	enum trust trust = TRUST_UNSAID;

	for (enum trust i = TRUST_HIGH; i < TRUST_COUNT; i++)
		check(trust_parse(str_of(trust_name(i)), &trust) == 0 && trust == i);
	check(!trust_name(TRUST_UNSAID));
	check(trust_parse(STR(""), &trust) == -EINVAL && trust_parse(STR("High"), &trust) < 0);
	check(trust_parse(STR("untrusted\0"), &trust) < 0 && trust == TRUST_UNTRUSTED);
	tap_ok("names, and no others");
}

static void test_built_in(void)
{
	struct trust_table table;
	const struct trust_preset *p = table.presets;

	trust_table_init(&table);
	check(p[TRUST_UNSAID].capabilities == CAPABILITY_ALL && !p[TRUST_UNSAID].is_strict);
	check(p[TRUST_HIGH].capabilities == CAPABILITY_ALL && !p[TRUST_HIGH].limits.memory_bytes);
	check(!p[TRUST_MEDIUM].is_strict && !p[TRUST_MEDIUM].is_cap);
	check(p[TRUST_LOW].is_strict && p[TRUST_LOW].is_cap);
	check(p[TRUST_UNTRUSTED].is_strict && p[TRUST_UNTRUSTED].is_cap);
	check(!p[TRUST_UNTRUSTED].capabilities);
	for (enum trust i = TRUST_MEDIUM; i < TRUST_UNTRUSTED; i++) {
		const struct settings_limits *more = &p[i].limits, *less = &p[i + 1].limits;

		check(less->memory_bytes < more->memory_bytes && less->pids < more->pids);
		check(!(p[i + 1].capabilities & ~p[i].capabilities));
	}
	tap_ok("each preset gives less than the one before");
}

static void test_take(void)
{
	struct trust_table table;
	const struct trust_preset *p = table.presets;

	trust_table_init(&table);
	check(take_text(&table, "{}") == 0 && p[TRUST_LOW].limits.pids == 256);
	check(take_text(&table, "{\"low\": {\"limits\": {\"memory\": \"64M\", \"pids\": 0},"
				"\"capabilities\": [\"CAP_KILL\", \"CAP_CHOWN\"],"
				"\"seccomp\": \"default\", \"runtime\": \"runc\"},"
				"\"high\": {\"seccomp\": \"strict\", \"capabilities\": []}}") == 0);
	check(p[TRUST_LOW].limits.memory_bytes == 64 << 20 && !p[TRUST_LOW].limits.pids);
	check(p[TRUST_LOW].limits.files == 4096 && !p[TRUST_LOW].is_strict && p[TRUST_LOW].is_cap);
	check(p[TRUST_LOW].capabilities == (1u << CAPABILITY_CHOWN | 1u << CAPABILITY_KILL));
	check_str(p[TRUST_LOW].runtime, "runc");
	check(p[TRUST_HIGH].is_strict && !p[TRUST_HIGH].capabilities);
	check(p[TRUST_UNTRUSTED].limits.pids == 128 && p[TRUST_UNTRUSTED].is_strict);
	tap_ok("the file says what it says, and the rest stays");
}

static void test_wrong(void)
{
	/* clang-format off */
	static const struct {
		const char *text, *words[2];
	} cases[] = {
		{"{\"none\": {}}",                                     {"none", ""}},
		{"{\"low\": {\"limit\": {}}}",                         {"low.limit", ""}},
		{"{\"low\": {\"limits\": {\"pids\": 7}}}",             {"low: ", "limits.pids"}},
		{"{\"low\": {\"limits\": {\"memory\": \"much\"}}}",    {"memory", ""}},
		{"{\"low\": {\"capabilities\": \"none\"}}",            {"capabilities", ""}},
		{"{\"low\": {\"capabilities\": [\"CAP_KILL\", \"KILL\"]}}", {"low: ", "capabilities[1]"}},
		{"{\"low\": {\"capabilities\": [\"CAP_SYS_ADMIN\"]}}", {"low: ", "capabilities[0]"}},
		{"{\"low\": {\"seccomp\": \"none\"}}",                 {"low: ", "\"strict\""}},
		{"{\"low\": {\"runtime\": \"/bin/crun\"}}",            {"low: ", "no path"}},
		{"{\"low\": {\"runtime\": \"\"}}",                     {"low: ", "a name"}},
		{"{\"low\": {\"seccomp\": \"\"}}",                     {"low: ", "\"strict\""}},
		{"{\"untrusted\": 1}",                                 {"untrusted", ""}},
	};
	/* clang-format on */
	struct trust_table table, before;

	trust_table_init(&table);
	trust_table_init(&before);
	for (size_t i = 0; i < array_len(cases); i++) {
		check(take_text(&table, cases[i].text) < 0);
		if (!strstr(err.sentence, cases[i].words[0]) ||
		    !strstr(err.sentence, cases[i].words[1]))
			printf("# %s: %s\n", cases[i].text, err.sentence);
		check(strstr(err.sentence, cases[i].words[0]));
		check(strstr(err.sentence, cases[i].words[1]));
		check(err.code == ERR_INVALID_REQUEST);
		check(table.presets[TRUST_LOW].limits.pids ==
		      before.presets[TRUST_LOW].limits.pids);
		check(table.presets[TRUST_LOW].capabilities ==
		      before.presets[TRUST_LOW].capabilities);
	}
	tap_ok("what is wrong is named, and changes nothing");
}

static void test_apply(void)
{
	static const struct trust_means few = {.files = 512};
	struct settings_limits limits = {0};
	struct trust_table table;

	trust_table_init(&table);
	check(trust_apply(&table, TRUST_UNSAID, &all, &limits, &err) == 0 && !limits.memory_bytes);
	check(trust_apply(&table, TRUST_UNTRUSTED, &all, &limits, &err) == 0);
	check(limits.memory_bytes == 256 << 20 && limits.pids == 128 && limits.files == 1024);
	check(limits.cpu_milli == 1000 && !limits.disk_bytes);
	/* Once more it is as it is. */
	check(trust_apply(&table, TRUST_UNTRUSTED, &all, &limits, &err) == 0 && limits.pids == 128);
	limits = (struct settings_limits){.pids = 16, .memory_bytes = 256 << 20};
	check(trust_apply(&table, TRUST_UNTRUSTED, &all, &limits, &err) == 0 && limits.pids == 16);
	limits = (struct settings_limits){0};
	check(trust_apply(&table, TRUST_UNTRUSTED, &few, &limits, &err) == 0);
	check(!limits.memory_bytes && !limits.cpu_milli && !limits.files && limits.pids == 128);
	tap_ok("what is not said is the preset's, where the host can hold it");
}

static void test_caps(void)
{
	/* clang-format off */
	static const struct {
		struct settings_limits asked;
		const char *words;
	} cases[] = {
		{{.memory_bytes = (256 << 20) + 1}, "limits.memory may be at most 256M"},
		{{.cpu_milli = 1001},               "limits.cpus may be at most 1:"},
		{{.pids = 129},                     "limits.pids may be at most 128"},
		{{.files = 1025},                   "limits.files may be at most 1024"},
		{{.file_size = UINT64_MAX},         "limits.file_size may be at most 256M"},
	};
	/* clang-format on */
	struct settings_limits limits;
	struct trust_table table;

	trust_table_init(&table);
	for (size_t i = 0; i < array_len(cases); i++) {
		limits = cases[i].asked;
		check(trust_apply(&table, TRUST_UNTRUSTED, &all, &limits, &err) == -EPERM);
		check(err.code == ERR_FORBIDDEN && strstr(err.sentence, "\"untrusted\""));
		if (!strstr(err.sentence, cases[i].words))
			printf("# %s\n", err.sentence);
		check(strstr(err.sentence, cases[i].words));
		check(settings_limits_equal(&limits, &cases[i].asked));
		check(trust_apply(&table, TRUST_MEDIUM, &all, &limits, &err) == 0);
	}
	/* Of what the table does not limit, any amount may be asked for. */
	limits = (struct settings_limits){.disk_bytes = 1ULL << 40};
	check(trust_apply(&table, TRUST_UNTRUSTED, &all, &limits, &err) == 0);
	/* But of swap there is none, unless the table has some. */
	limits = (struct settings_limits){.swap_bytes = 1};
	check(trust_apply(&table, TRUST_UNTRUSTED, &all, &limits, &err) == -EPERM);
	check(strstr(err.sentence, "limits.swap may not be asked for"));
	check(trust_apply(&table, TRUST_MEDIUM, &all, &limits, &err) == 0);
	table.presets[TRUST_LOW].limits.cpu_milli = 1500;
	limits = (struct settings_limits){.cpu_milli = 2000};
	check(trust_apply(&table, TRUST_LOW, &all, &limits, &err) < 0);
	check(strstr(err.sentence, "at most 1.5:"));
	tap_ok("more than a capped preset has is refused by name");
}

/* Every field that a sandbox has. */
static void test_all_fields(void)
{
	static const struct trust_means none = {.files = 65536};

	for (const struct json_field *f = settings_limits_fields; f->name; f++) {
		struct settings_limits_body body = {0}, more = {0}, got;
		bool is_part = f->type == JSON_NUMBER;
		const uint64_t number = 4096, larger = 4097;
		const double part = 0.5, greater = 0.6;
		struct settings_limits limits = {0};
		struct trust_table table = {0};
		char words[64];

		memcpy((char *)&body + f->offset, is_part ? (void *)&part : (void *)&number, 8);
		memcpy((char *)&more + f->offset, is_part ? (void *)&greater : (void *)&larger, 8);
		table.presets[TRUST_LOW].limits = settings_limits_take(&body);
		table.presets[TRUST_LOW].is_cap = true;
		check(trust_apply(&table, TRUST_LOW, &all, &limits, &err) == 0);
		got = settings_limits_give(&limits);
		if (memcmp(&got, &body, sizeof(got)) != 0)
			printf("# limits.%s is not filled\n", f->name);
		check(memcmp(&got, &body, sizeof(got)) == 0);
		limits = settings_limits_take(&more);
		snprintf(words, sizeof(words), "limits.%s may be at most", f->name);
		if (trust_apply(&table, TRUST_LOW, &all, &limits, &err) != -EPERM)
			printf("# limits.%s has no cap\n", f->name);
		check(trust_apply(&table, TRUST_LOW, &none, &limits, &err) == -EPERM);
		check(strstr(err.sentence, words));
	}
	tap_ok("every limit is filled, and has a cap");
}

int main(void)
{
	arena_init(&arena, 1 << 20);
	test_names();
	test_built_in();
	test_take();
	test_wrong();
	test_apply();
	test_caps();
	test_all_fields();
	arena_close(&arena);
	return tap_done();
}
