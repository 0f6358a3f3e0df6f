#include "cmd/berthd/options.h"

#include <errno.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "tests/unit/scratch.h"
#include "tests/unit/tap.h"

#define ARGS_MAX 16

struct args {
	int count;
	char *list[ARGS_MAX + 1];
};

/* Writable copies, as main() gets them: getopt_long() may change their order. */
static void args_init(struct args *args, const char *const *list)
{
	args->list[0] = strdup("berthd");
	for (args->count = 1; list[args->count - 1]; args->count++)
		args->list[args->count] = strdup(list[args->count - 1]);
	args->list[args->count] = NULL;
}

static void args_close(struct args *args)
{
	for (int i = 0; i < args->count; i++)
		free(args->list[i]);
}

#define PARSE(config, action, err, ...)                                                            \
	parse(config, action, err, (const char *const[]){__VA_ARGS__, NULL})

static int parse(struct config *config, enum options_action *action, struct err *err,
		 const char *const *list)
{
	cleanup(args_close) struct args args;

	args_init(&args, list);
	memset(err, 0, sizeof(*err));
	return options_parse(args.count, args.list, config, action, err);
}

static void test_flags(void)
{
	enum options_action action;
	struct config c;
	struct err err;

	check(PARSE(&c, &action, &err, NULL) == 0);
	check(action == OPTIONS_RUN && c.paths.socket[0] == '/');
	check(PARSE(&c, &action, &err, "--socket=/a.sock", "--state-dir", "/s", "--run-dir", "/r",
		    "--runtime", "/bin/true", "--listen", "127.0.0.1:0", "--token-file", "/t",
		    "--preview", "localhost:0", "--log-level", "warn") == 0);
	check_str(c.paths.socket, "/a.sock");
	check_str(c.paths.state_dir, "/s");
	check_str(c.paths.run_dir, "/r");
	check_str(c.runtime, "/bin/true");
	check_str(c.listen.host, "127.0.0.1");
	check_str(c.token_file, "/t");
	check_str(c.preview.host, "localhost");
	check(c.log_level == LOG_WARN_LEVEL);
	check(PARSE(&c, &action, &err, "--max-sandboxes", "9", "--max-running=0", "--memory-floor",
		    "1G", "--access-log", "/l") == 0);
	check_str(c.access_log, "/l");
	check(c.max_sandboxes == 9 && c.max_running == 0 && c.memory_floor == 1 << 30);
	check(PARSE(&c, &action, &err, "--state-dir", "/a", "--state-dir", "/b") == 0);
	check_str(c.paths.state_dir, "/b");
	tap_ok("flags become settings");
}

static void test_relative(void)
{
	enum options_action action;
	char current[PATH_MAX], expected[PATH_MAX + 8];
	struct config c;
	struct err err;

	check(chdir(scratch_dir) == 0 && getcwd(current, sizeof(current)));
	check(PARSE(&c, &action, &err, "--state-dir", "state/", "--run-dir", "./run") == 0);
	snprintf(expected, sizeof(expected), "%s/state", current);
	check_str(c.paths.state_dir, expected);
	check(strstr(c.paths.socket, "/./run/berthd/api.sock") && c.paths.socket[0] == '/');
	tap_ok("relative directories count from the current one");
}

static void test_bad_flags(void)
{
	/* clang-format off */
	static const struct { const char *args[4], *word; } cases[] = {
		{{"--bogus"},                         "there is no flag \"--bogus\""},
		{{"--bogus=1"},                       "there is no flag \"--bogus=1\""},
		{{"-x"},                              "there is no flag \"-x\""},
		{{"--s", "x"},                        "there is no flag \"--s\""},
		{{"--socket"},                        "\"--socket\" needs a value"},
		{{"--help=me"},                       "\"--help\" takes no value"},
		{{"serve"},                           "takes only flags, not \"serve\""},
		{{"--", "--socket"},                  "takes only flags, not \"--socket\""},
		{{"--socket", ""},                    "--socket: must not be empty"},
		{{"--listen", "80"},                  "--listen: must be HOST:PORT"},
		{{"--listen", "127.0.0.1:80"},        "--token-file"},
		{{"--log-level", "loud"},             "--log-level: must be"},
		{{"--max-running", "-1"},             "--max-running: must be a number"},
		{{"--memory-floor", "5%"},            "--memory-floor: must be a size"},
		{{"--socket-group", "no-such-group"}, "--socket-group: this machine"},
		{{"--runtime", "/no/such/crun"},      "the runtime \"/no/such/crun\""},
		{{"--config", "/no/such/file"},       "the configuration file \"/no/such/file\""},
	};
	/* clang-format on */
	enum options_action action;
	struct config c;
	struct err err;

	for (size_t i = 0; i < array_len(cases); i++) {
		check(parse(&c, &action, &err, cases[i].args) < 0);
		if (!strstr(err.sentence, cases[i].word))
			printf("# %s: %s\n", cases[i].args[0], err.sentence);
		check(strstr(err.sentence, cases[i].word) && !strchr(err.sentence, '\n'));
	}
	tap_ok("a bad flag gives one sentence");
}

static void test_actions(void)
{
	enum options_action action = OPTIONS_RUN;
	cleanup_free char *text = NULL;
	size_t len = 0;
	struct config c;
	struct err err;
	FILE *out;

	check(PARSE(&c, &action, &err, "--help", "--bogus") == 0 && action == OPTIONS_HELP);
	check(PARSE(&c, &action, &err, "--version") == 0 && action == OPTIONS_VERSION);
	check(PARSE(&c, &action, &err, "-h") == 0 && action == OPTIONS_HELP);
	out = open_memstream(&text, &len);
	options_print_help(out);
	fclose(out);
	check(strncmp(text, "Usage: berthd [FLAGS]\n", 22) == 0);
	check(strstr(text, "\n  --listen HOST:PORT ") && strstr(text, "\n  --version "));
	tap_ok("help and version");
}

static void write_config(const char *text)
{
	scratch_write(scratch_path("config.json"), text, strlen(text));
}

static void test_reload(void)
{
	const char *const list[] = {"--config", scratch_path("config.json"), "--log-level", "error",
				    NULL};
	cleanup(args_close) struct args args;
	enum options_action action;
	struct config c;
	struct err err = {0};
	unsigned stale = 77;

	args_init(&args, list);
	write_config("{\"log_level\": \"debug\", \"drain\": \"1s\", \"preview\": \"h:1\"}");
	check(options_parse(args.count, args.list, &c, &action, &err) == 0);
	check(c.log_level == LOG_ERROR_LEVEL && c.drain_ms == 1000 && c.preview.port == 1);
	write_config("{\"log_level\": \"info\", \"drain\": \"2s\", \"preview\": \"h:2\"}");
	check(options_reload(args.count, args.list, &c, &stale, &err) == 0);
	check(stale == 1u << CONFIG_PREVIEW);
	check(c.log_level == LOG_ERROR_LEVEL && c.drain_ms == 2000 && c.preview.port == 1);
	write_config("{\"drain\": \"3s\", \"listen\": \"h:3\"}");
	check(options_reload(args.count, args.list, &c, &stale, &err) == -EINVAL);
	check(c.drain_ms == 2000 && strstr(err.sentence, "--token-file"));
	tap_ok("a reload reads the file again, the flags stay above it");
}

static void test_binds(void)
{
	const char *const list[] = {
		"--allow-bind", "/b/:ro", "--config", scratch_path("config.json"),
		"--allow-bind", "c",      NULL};
	const char *const bad[] = {"--allow-bind", "/a/../b", NULL};
	const char *binds[MOUNTS_ALLOWED_MAX];
	cleanup(args_close) struct args args, bad_args;
	char expected[PATH_MAX], cwd[PATH_MAX];
	cleanup(buf_close) struct buf many;
	enum options_action action;
	unsigned stale = 0;
	struct config c;
	struct err err = {0};

	args_init(&args, list);
	write_config("{\"allow_bind\": [\"/a\", \"d:ro\"]}");
	check(options_parse(args.count, args.list, &c, &action, &err) == 0);
	check(config_binds(&c, binds) == 4);
	check_str(binds[0], "/a");
	snprintf(expected, sizeof(expected), "%s:ro", scratch_path("d"));
	check_str(binds[1], expected);
	check_str(binds[2], "/b:ro");
	check(getcwd(cwd, sizeof(cwd)) != NULL);
	check(strncmp(binds[3], cwd, strlen(cwd)) == 0);
	check_str(binds[3] + strlen(cwd), "/c");
	write_config("{\"allow_bind\": []}");
	check(options_reload(args.count, args.list, &c, &stale, &err) == 0);
	check(stale == 1u << CONFIG_ALLOW_BIND && config_binds(&c, binds) == 4);
	args_init(&bad_args, bad);
	check(options_parse(bad_args.count, bad_args.list, &c, &action, &err) == -EINVAL);
	check(strstr(err.sentence, "--allow-bind"));
	/* With those of the flags one too many. */
	buf_init(&many, 4096);
	buf_printf(&many, "{\"allow_bind\": [\"/x\"");
	for (size_t i = 2; i < MOUNTS_ALLOWED_MAX; i++)
		buf_printf(&many, ", \"/x\"");
	buf_append(&many, "]}", 3);
	write_config(buf_at(&many));
	check(options_parse(args.count, args.list, &c, &action, &err) == -E2BIG);
	check(strstr(err.sentence, "--allow-bind"));
	tap_ok("folders that may be mounted are collected from the file and all flags");
}

int main(void)
{
	scratch_make();
	setenv("HOME", scratch_dir, 1);
	test_flags();
	test_relative();
	test_bad_flags();
	test_actions();
	test_reload();
	test_binds();
	return tap_done();
}
