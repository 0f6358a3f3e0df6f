#include "daemon/config.h"

#include <errno.h>
#include <grp.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "tests/unit/scratch.h"
#include "tests/unit/tap.h"

static int read_text(struct config *config, const char *text, struct err *err)
{
	const char *path = scratch_path("config.json");

	scratch_write(path, text, strlen(text));
	check(chmod(path, 0644) == 0);
	memset(err, 0, sizeof(*err));
	config_init(config);
	return config_read(config, path, err);
}

static void test_defaults(void)
{
	struct config c;
	struct err err;

	check(read_text(&c, "{}", &err) == 0);
	check(config_finish(&c, &err) == 0);
	check(c.paths.state_dir[0] == '/' && c.paths.run_dir[0] == '/');
	check(strstr(c.paths.socket, "/berthd/api.sock"));
	check(c.socket_gid == (gid_t)-1 && config_socket_mode(&c) == 0600);
	check(c.store_sync == STORE_SYNC_NORMAL && c.log_level == LOG_INFO_LEVEL);
	check(c.drain_ms == 10000 && c.max_connections == 0 && c.viewer_timeout_ms == 30000);
	check(c.max_sandboxes == 0 && c.max_running == 0);
	check(c.memory_floor == CONFIG_FLOOR_DEFAULT);
	check(c.init_timeout_ms == 30000 && !c.autostart);
	check(!c.keeper_is_awaited);
	check(!c.listen.host[0] && !c.preview.host[0] && !c.runtime[0] && !c.token_file[0]);
	check(!c.access_log[0]);
	check_str(c.file, scratch_path("config.json"));
	tap_ok("an empty file is all defaults");
}

static void test_all(void)
{
	const struct group *group = getgrgid(0);
	struct config c;
	struct err err;
	char text[1024];

	snprintf(text, sizeof(text),
		 "{\"socket\": \"/r/s.sock\", \"socket_group\": \"%s\", \"state_dir\": \"/s/\","
		 "\"run_dir\": \"run\", \"runtime\": \"/bin/true\", \"listen\": \"[::1]:0\","
		 "\"token_file\": \"keys/tokens\", \"preview\": \"localhost:8080\","
		 "\"preview_url\": \"https://P.example.com:8443\","
		 "\"store_sync\": \"full\", \"log_level\": \"debug\", \"drain\": \"2m\","
		 "\"max_connections\": 17, \"viewer_timeout\": \"5s\", \"max_sandboxes\": 9,"
		 "\"max_running\": 0, \"max_runs\": 7, \"memory_floor\": \"64M\", "
		 "\"init_timeout\": \"6s\","
		 "\"keeper\": \"await\", \"autostart\": true, \"access_log\": \"access\"}",
		 group ? group->gr_name : "root");
	check(read_text(&c, text, &err) == 0 && config_finish(&c, &err) == 0);
	check_str(c.paths.socket, "/r/s.sock");
	check_str(c.paths.state_dir, "/s");
	check_str(c.paths.run_dir, scratch_path("run"));
	check_str(c.token_file, scratch_path("keys/tokens"));
	check_str(c.access_log, scratch_path("access"));
	check_str(c.runtime, "/bin/true");
	check(c.socket_gid == 0 && config_socket_mode(&c) == 0660);
	check_str(c.listen.host, "::1");
	check(c.listen.port == 0 && c.preview.port == 8080);
	check_str(c.preview.host, "localhost");
	check_str(c.preview_url.domain, "p.example.com");
	check(c.preview_url.is_https && c.preview_url.port == 8443);
	check(c.store_sync == STORE_SYNC_FULL && c.log_level == LOG_DEBUG_LEVEL);
	check(c.drain_ms == 120000 && c.max_connections == 17 && c.viewer_timeout_ms == 5000);
	check(c.keeper_is_awaited);
	check(c.init_timeout_ms == 6000 && c.autostart);
	check(c.max_sandboxes == 9 && c.max_running == 0 && c.memory_floor == 64 << 20);
	check(c.max_runs == 7);
	check(read_text(&c, "{\"memory_floor\": 4096, \"max_running\": 3}", &err) == 0);
	check(c.memory_floor == 4096 && c.max_running == 3);
	check(read_text(&c, "{\"memory_floor\": 0}", &err) == 0 && c.memory_floor == 0);
	tap_ok("every setting is read; relative paths count from the file");
}

static void test_bad_fields(void)
{
	/* clang-format off */
	static const struct { const char *text, *words[2]; } cases[] = {
		{"",                                     {"JSON", ""}},
		{"{\"listen\": ",                        {"JSON", ""}},
		{"[]",                                   {"object", ""}},
		{"{\"sokcet\": \"/x\"}",                 {"sokcet", ""}},
		{"{\"listen\": 80}",                     {"listen", "string"}},
		{"{\"listen\": \"80\"}",                 {"listen: ", "HOST:PORT"}},
		{"{\"preview\": \"h:70000\"}",           {"preview: ", "65535"}},
		{"{\"preview_url\": \"h:8\"}",           {"preview_url: ", "SCHEME://DOMAIN"}},
		{"{\"state_dir\": \"\"}",                {"state_dir: ", "empty"}},
		{"{\"socket_group\": \"no-such-group\"}",{"socket_group: ", "no group no-such-group"}},
		{"\xef\xbb\xbf{}",                        {"json\": it begins with a byte order mark", "BOM"}},
		{"{\"listen\": null}",                   {"listen must not be null", ""}},
		{"{\n\"drain\": nil}",                   {"json\": it is not valid JSON", "(near line 2, column 1"}},
		{"{\n\n\"drain\": \"1s\",\n  \"x",        {"json\": it ends inside a string", "(at line 4, column 5)"}},
		{"{}\n x",                               {"it goes on after its JSON object", "(at line 2, column 2)"}},
		{"{\"store_sync\": \"off\"}",            {"store_sync: ", "\"normal\" or \"full\""}},
		{"{\"log_level\": \"loud\"}",            {"log_level: ", "\"warn\""}},
		{"{\"drain\": \"10\"}",                  {"drain: ", "duration"}},
		{"{\"drain\": \"2d\"}",                  {"drain: ", "at most"}},
		{"{\"viewer_timeout\": \"999ms\"}",     {"viewer_timeout: ", "at least a second"}},
		{"{\"keeper\": \"stop\"}",             {"keeper: ", "\"await\""}},
		{"{\"viewer_timeout\": \"2d\"}",        {"viewer_timeout: ", "at most"}},
		{"{\"autostart\": \"yes\"}",           {"autostart", "true or false"}},
		{"{\"init_timeout\": \"999ms\"}",       {"init_timeout: ", "at least a second"}},
		{"{\"max_connections\": 0}",             {"max_connections: ", "between 1 and"}},
		{"{\"max_connections\": -1}",            {"max_connections", ""}},
		{"{\"max_connections\": 1000001}",       {"max_connections: ", "between 1 and"}},
		{"{\"max_running\": 1000001}",           {"max_running: ", "0 for no limit"}},
		{"{\"max_sandboxes\": \"9\"}",           {"max_sandboxes", ""}},
		{"{\"memory_floor\": \"much\"}",         {"memory_floor", "size"}},
		{"{\"drain\": \"1s\", \"drain\": \"2s\"}", {"drain", ""}},
		{"{\"socket\": \"a\\u0000b\"}",          {"socket", ""}},
		{"{\"trust\": \"low\"}",               {"trust", ""}},
		{"{\"trust\": {\"some\": {}}}",        {"trust.some", ""}},
		{"{\"trust\": {\"low\": {\"seccomp\": \"\\u00e4\"}}}", {"trust: low: ", "\"strict\""}},
	};
	/* clang-format on */
	struct config c;
	struct err err;

	for (size_t i = 0; i < array_len(cases); i++) {
		check(read_text(&c, cases[i].text, &err) < 0);
		if (!strstr(err.sentence, cases[i].words[0]) ||
		    !strstr(err.sentence, cases[i].words[1]))
			printf("# %s: %s\n", cases[i].text, err.sentence);
		check(strstr(err.sentence, cases[i].words[0]));
		check(strstr(err.sentence, cases[i].words[1]));
		check(strstr(err.sentence, scratch_path("config.json")));
		check(!strchr(err.sentence, '\n') && !strstr(err.sentence, "the body"));
		check(err.code == ERR_INVALID_REQUEST);
	}
	tap_ok("a bad field gives one sentence that names file and field");
}

static void test_bad_files(void)
{
	char *large = malloc(CONFIG_FILE_SIZE_MAX + 1);
	struct config c;
	struct err err = {0};

	config_init(&c);
	check(config_read(&c, scratch_path("missing"), &err) == -ENOENT);
	check(strstr(err.sentence, "missing\": it cannot be read: No such file"));
	check(config_read(&c, "", &err) == -EINVAL);
	check(config_read(&c, scratch_dir, &err) == -EINVAL);
	check(strstr(err.sentence, "not a regular file"));
	check(read_text(&c, "{}", &err) == 0);
	check(chmod(scratch_path("config.json"), 0666) == 0);
	check(config_read(&c, scratch_path("config.json"), &err) == -EPERM);
	check(strstr(err.sentence, "chmod o-w"));
	memset(large, ' ', CONFIG_FILE_SIZE_MAX + 1);
	scratch_write(scratch_path("large"), large, CONFIG_FILE_SIZE_MAX + 1);
	check(config_read(&c, scratch_path("large"), &err) == -EFBIG);
	free(large);
	tap_ok("files that cannot be taken are said");
}

static void set(struct config *c, enum config_setting setting, const char *value)
{
	struct err err = {0};

	check(config_set(c, setting, str_of(value), NULL, &err) == 0);
}

static void test_relations(void)
{
	struct config c;
	struct err err = {0};

	config_init(&c);
	set(&c, CONFIG_STATE_DIR, scratch_dir);
	set(&c, CONFIG_LISTEN, "127.0.0.1:80");
	check(config_finish(&c, &err) == -EINVAL && strstr(err.sentence, "--token-file"));
	set(&c, CONFIG_TOKEN_FILE, "/x");
	check(config_finish(&c, &err) == 0);
	set(&c, CONFIG_PREVIEW, "127.0.0.1:80");
	check(config_finish(&c, &err) == -EINVAL && strstr(err.sentence, "--preview"));
	set(&c, CONFIG_PREVIEW, "127.0.0.1:81");
	check(config_finish(&c, &err) == 0);
	set(&c, CONFIG_RUNTIME, "/no/such/crun");
	check(config_finish(&c, &err) == -ENOENT && strstr(err.sentence, "/no/such/crun"));
	set(&c, CONFIG_RUNTIME, scratch_dir);
	check(config_finish(&c, &err) == -EACCES);
	check(strstr(err.sentence, "\" is not an executable file") &&
	      !strstr(err.sentence, "file:"));
	scratch_write(scratch_path("plain"), "", 0);
	set(&c, CONFIG_RUNTIME, scratch_path("plain"));
	check(config_finish(&c, &err) == -EACCES);
	tap_ok("settings that do not go together are refused");
}

static void test_preview(void)
{
	struct config c;
	struct err err = {0};

	config_init(&c);
	set(&c, CONFIG_PREVIEW, "auto");
	check_str(c.preview.host, "127.0.0.1");
	check(c.preview.port == 8620 && c.preview_is_auto);
	set(&c, CONFIG_STATE_DIR, scratch_dir);
	set(&c, CONFIG_TOKEN_FILE, "/x");
	set(&c, CONFIG_LISTEN, "127.0.0.1:8620");
	check(config_finish(&c, &err) == 0);
	set(&c, CONFIG_PREVIEW, "localhost:1");
	set(&c, CONFIG_PREVIEW, "auto");
	check(c.preview.port == 1 && !c.preview_is_auto);
	set(&c, CONFIG_PREVIEW, "none");
	set(&c, CONFIG_PREVIEW, "auto");
	check(!c.preview.host[0] && !c.preview.port);
	tap_ok("previews anywhere give way to what was said before, and to who has the port");
}

static void test_runtime_name(void)
{
	struct config c;
	struct err err = {0};

	config_init(&c);
	check(setenv("PATH", scratch_dir, 1) == 0);
	scratch_write(scratch_path("my-runtime"), "", 0);
	check(config_set(&c, CONFIG_RUNTIME, STR("my-runtime"), NULL, &err) == -ENOENT);
	check(strstr(err.sentence, "no program my-runtime on the PATH"));
	check(chmod(scratch_path("my-runtime"), 0755) == 0);
	set(&c, CONFIG_RUNTIME, "my-runtime");
	check_str(c.runtime, scratch_path("my-runtime"));
	check(read_text(&c, "{\"runtime\": \"my-runtime\"}", &err) == 0);
	check_str(c.runtime, scratch_path("my-runtime"));
	check(read_text(&c, "{\"runtime\": \"./my-runtime\"}", &err) == 0);
	check_str(c.runtime, scratch_path("./my-runtime"));
	tap_ok("a runtime without a slash is found on the PATH");
}

static void test_long_path(void)
{
	char path[PATH_MAX + 1];
	struct config c;
	struct err err = {0};

	config_init(&c);
	memset(path, 'x', sizeof(path));
	path[0] = '/';
	check(config_set(&c, CONFIG_SOCKET, (struct str){path, PATH_MAX}, NULL, &err) ==
	      -ENAMETOOLONG);
	check(config_set(&c, CONFIG_SOCKET, (struct str){path, PATH_MAX - 1}, NULL, &err) == 0);
	check(strlen(c.paths.socket) == PATH_MAX - 1);
	tap_ok("a path that does not fit is refused");
}

static void test_apply(void)
{
	struct config running, next;
	struct err err;

	check(read_text(&running, "{\"listen\": \"h:1\", \"token_file\": \"/a\"}", &err) == 0);
	check(read_text(&next,
			"{\"listen\": \"h:2\", \"token_file\": \"/b\", \"log_level\": \"warn\","
			"\"drain\": \"1s\", \"store_sync\": \"full\", \"max_sandboxes\": 1,"
			"\"max_running\": 2, \"memory_floor\": 3, \"access_log\": \"/c\"}",
			&err) == 0);
	check(config_apply(&running, &running) == 0);
	check(config_apply(&running, &next) == (1u << CONFIG_LISTEN | 1u << CONFIG_STORE_SYNC));
	check_str(running.token_file, "/b");
	check_str(running.access_log, "/c");
	check(running.listen.port == 1 && running.store_sync == STORE_SYNC_NORMAL);
	check(running.log_level == LOG_WARN_LEVEL && running.drain_ms == 1000);
	check(running.max_sandboxes == 1 && running.max_running == 2 && running.memory_floor == 3);
	config_init(&next);
	check(config_apply(&running, &next) == (1u << CONFIG_LISTEN | 1u << CONFIG_TOKEN_FILE));
	check_str(running.token_file, "/b");
	check(!running.access_log[0]);
	check(read_text(&next,
			"{\"listen\": \"h:1\", \"token_file\": \"/b\","
			"\"trust\": {\"low\": {\"limits\": {\"pids\": 99}}}}",
			&err) == 0);
	check(config_apply(&running, &next) == 0);
	check(running.trust.presets[TRUST_LOW].limits.pids == 99);
	check(running.trust.presets[TRUST_LOW].limits.files == 4096);
	tap_ok("a reload changes what it can and tells the rest");
}

int main(void)
{
	scratch_make();
	setenv("HOME", scratch_dir, 1);
	test_defaults();
	test_all();
	test_bad_fields();
	test_bad_files();
	test_relations();
	test_preview();
	test_runtime_name();
	test_long_path();
	test_apply();
	return tap_done();
}
