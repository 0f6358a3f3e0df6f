#include "proto/settings.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "proto/agent.h"
#include "proto/frame.h"
#include "tests/unit/tap.h"

static struct arena arena;
static struct err err;

static int read_text(struct settings_request *q, const char *text)
{
	arena_close(&arena);
	err = (struct err){0};
	return settings_read(&arena, str_of(text), q, &err);
}

static bool has_list(struct str list, const char *wanted, size_t len)
{
	return str_eq(list, (struct str){wanted, len});
}

#define LIST(literal) literal, sizeof(literal) - 1

static void test_defaults(void)
{
	struct settings_request q = {0};

	settings_init(&q.settings);
	check(read_text(&q, "") == 0 && read_text(&q, "{}") == 0);
	check_str(q.settings.image, "host");
	check(!q.id.len && !q.start && !q.settings.is_read_only && !q.settings.env.len);
	check(!q.settings.limits.memory_bytes && !q.settings.limits.cpu_milli);
	check(read_text(
		      &q,
		      "{\"id\":null,\"image\":null,\"env\":null,\"sleep_after\":null,"
		      "\"sleep_mode\":null,\"keep_alive\":false,\"max_awake\":null,"
		      "\"stop_after\":null,\"delete_after\":null,\"stop_grace\":null,"
		      "\"hold_open_sockets\":false,"
		      "\"network\":{\"mode\":\"none\",\"allow\":[],\"deny\":[],\"max_bytes\":null},"
		      "\"limits\":{\"disk\":null,\"memory\":null},\"labels\":{}}") == 0);
	check(q.settings.times.sleep_after == 600000 && !q.settings.keep_alive);
	check(q.settings.times.max_awake == SETTINGS_NEVER);
	check(q.settings.times.stop_after == SETTINGS_NEVER);
	check(q.settings.times.delete_after == SETTINGS_NEVER);
	check(q.settings.times.stop_grace == 10000);
	check(q.settings.sleep_mode == SLEEP_AUTO);
	tap_ok("nothing, and what asks for the default, changes nothing");
	settings_close(&q.settings);
}

static void test_trust(void)
{
	cleanup(buf_close) struct buf text;
	struct settings_request q = {0};
	struct settings before, back;

	buf_init(&text, 1 << 16);
	settings_init(&before);
	settings_init(&q.settings);
	check(read_text(&q, "{\"trust\":null}") == 0 && q.settings.trust == TRUST_UNSAID);
	check(read_text(&q, "{\"trust\":\"low\",\"limits\":{\"pids\":100000}}") == 0);
	check(q.settings.trust == TRUST_LOW && q.settings.limits.pids == 100000);
	check(!settings_start_alike(&before, &q.settings));
	check(read_text(&q, "{\"trust\":\"lower\"}") < 0 && q.settings.trust == TRUST_LOW);
	check(err.code == ERR_INVALID_REQUEST && strstr(err.sentence, "\"untrusted\""));
	check(read_text(&q, "{\"trust\":[]}") < 0 && read_text(&q, "{\"trust\":\"\"}") < 0);
	check(settings_store(&q.settings, &text) == 0);
	check(settings_restore(&arena, (struct str){buf_at(&text), buf_len(&text)}, &back, &err) ==
	      0);
	check(settings_equal(&back, &q.settings) && back.trust == TRUST_LOW);
	settings_close(&back);
	settings_close(&q.settings);
	tap_ok("trust is a name, and a start with another is another");
}

static void test_all(void)
{
	struct settings_request q = {0};

	settings_init(&q.settings);
	check(read_text(&q, "{\"id\":\"Job-1\",\"image\":\"python3.11_x-y\",\"start\":true,"
			    "\"read_only\":true,\"env\":{\"B\":\"1=2\",\"A\":\"\"},"
			    "\"labels\":{\"team\":\"a\"},\"limits\":{\"memory\":\"512M\","
			    "\"swap\":1024,\"cpus\":1.5,\"pids\":64,\"files\":1000,"
			    "\"file_size\":\"1G\"}}") == 0);
	check_str(err.sentence, "");
	check(str_eq(q.id, STR("Job-1")) && q.start && q.settings.is_read_only);
	check_str(q.settings.image, "python3.11_x-y");
	check(has_list(q.settings.env, LIST("B=1=2\0A=\0")));
	check(has_list(q.settings.labels, LIST("team=a\0")));
	check(q.settings.limits.memory_bytes == 512 << 20 && q.settings.limits.swap_bytes == 1024);
	check(q.settings.limits.cpu_milli == 1500 && q.settings.limits.pids == 64);
	check(q.settings.limits.files == 1000 && q.settings.limits.file_size == 1 << 30);
	tap_ok("every field lands");

	check(read_text(&q, "{\"limits\":{\"cpus\":0.01}}") == 0);
	check(!q.id.len && !q.start);
	check(q.settings.limits.cpu_milli == 10 && q.settings.limits.pids == 64);
	check(q.settings.is_read_only && q.settings.env.len && q.settings.labels.len);
	check(read_text(&q, "{\"limits\":{\"memory\":0},\"env\":{},\"read_only\":false}") == 0);
	check(!q.settings.limits.memory_bytes && !q.settings.env.len && !q.settings.is_read_only);
	check(q.settings.limits.cpu_milli == 10 && q.settings.labels.len);
	tap_ok("what is not named stays; 0 is the default again");
	settings_close(&q.settings);
}

static void test_times(void)
{
	struct settings_request q = {0};
	struct settings_times *times = &q.settings.times;
	enum sleep_mode mode;

	settings_init(&q.settings);
	check(read_text(&q, "{\"sleep_after\":\"100ms\",\"sleep_mode\":\"freeze\","
			    "\"keep_alive\":true,\"max_awake\":\"1s\",\"stop_after\":\"90m\","
			    "\"delete_after\":\"3650d\",\"stop_grace\":\"1h\"}") == 0);
	check(times->sleep_after == 100 && times->max_awake == 1000);
	check(times->stop_after == 90 * 60000 && times->delete_after == 315360000000);
	check(times->stop_grace == 3600000);
	check(read_text(&q, "{\"stop_grace\":\"0s\"}") == 0 && times->stop_grace == 0);
	check(q.settings.sleep_mode == SLEEP_FREEZE && q.settings.keep_alive);
	check(read_text(&q, "{\"sleep_after\":\"never\",\"sleep_mode\":\"stop\"}") == 0);
	check(times->sleep_after == SETTINGS_NEVER && times->max_awake == 1000);
	check(q.settings.sleep_mode == SLEEP_STOP && q.settings.keep_alive);
	check(read_text(&q, "{\"keep_alive\":false,\"stop_after\":\"never\"}") == 0);
	check(!q.settings.keep_alive && times->stop_after == SETTINGS_NEVER);
	tap_ok("the times of sleep, each for itself");

	for (mode = SLEEP_AUTO; mode < SLEEP_MODES; mode++) {
		enum sleep_mode back = SLEEP_MODES;

		check(sleep_mode_parse(str_of(sleep_mode_name(mode)), &back) == 0 && back == mode);
	}
	check(sleep_mode_parse(STR("Stop"), &mode) == -EINVAL && mode == SLEEP_MODES);
	tap_ok("modes of sleep have names");
	settings_close(&q.settings);
}

static void test_start_alike(void)
{
	struct settings_request q = {0};
	struct settings before;

	settings_init(&q.settings);
	check(settings_copy(&before, &q.settings) == 0 && settings_equal(&before, &q.settings));
	check(read_text(&q, "{\"sleep_after\":\"1s\",\"sleep_mode\":\"stop\",\"keep_alive\":true,"
			    "\"max_awake\":\"1s\",\"stop_after\":\"1s\","
			    "\"delete_after\":\"1s\"}") == 0);
	check(!settings_equal(&before, &q.settings) && settings_start_alike(&before, &q.settings));
	check(read_text(&q, "{\"limits\":{\"pids\":8,\"memory\":\"64M\",\"swap\":\"1M\","
			    "\"cpus\":0.5,\"memory_threshold\":0.5,\"cpu_time_ms\":1,"
			    "\"io_read\":\"10M\",\"io_write\":1048576,\"io_read_ops\":100,"
			    "\"io_write_ops\":1000000000}}") == 0);
	check(q.settings.limits.io_read == 10 << 20 && q.settings.limits.io_write == 1 << 20);
	check(q.settings.limits.io_read_ops == 100 && q.settings.limits.io_write_ops == 1000000000);
	check(settings_start_alike(&before, &q.settings));
	check(!settings_limits_keep(&before.limits, &q.settings.limits));
	check(read_text(&q, "{\"limits\":{\"files\":99}}") == 0);
	check(!settings_start_alike(&before, &q.settings));
	tap_ok("how it sleeps, and what cgroups limit, needs no new start");
	settings_close(&before);
	settings_close(&q.settings);
}

static void test_equal(void)
{
	static const char *const changes[] = {
		"{\"image\":\"x\"}",
		"{\"read_only\":true}",
		"{\"env\":{\"A\":\"1\"}}",
		"{\"labels\":{\"A\":\"1\"}}",
		"{\"keep_alive\":true}",
		"{\"hold_open_sockets\":true}",
		"{\"sleep_mode\":\"stop\"}",
		"{\"sleep_after\":\"1s\"}",
		"{\"max_awake\":\"1s\"}",
		"{\"stop_after\":\"1s\"}",
		"{\"delete_after\":\"1s\"}",
		"{\"stop_grace\":\"1s\"}",
		"{\"limits\":{\"memory\":\"8M\"}}",
		"{\"limits\":{\"swap\":\"8M\"}}",
		"{\"limits\":{\"cpus\":1}}",
		"{\"limits\":{\"pids\":8}}",
		"{\"limits\":{\"files\":64}}",
		"{\"limits\":{\"file_size\":\"64K\"}}",
		"{\"limits\":{\"output_bytes\":\"64K\"}}",
		"{\"limits\":{\"memory_threshold\":0.8}}",
		"{\"limits\":{\"cpu_time_ms\":1}}",
		"{\"limits\":{\"disk\":\"1M\"}}",
		"{\"limits\":{\"inodes\":64}}",
		"{\"limits\":{\"io_read\":\"1M\"}}",
		"{\"limits\":{\"io_write\":\"1M\"}}",
		"{\"limits\":{\"io_read_ops\":100}}",
		"{\"limits\":{\"io_write_ops\":100}}",
		"{\"ephemeral\":true}",
		"{\"mounts\":[{\"type\":\"bind\",\"source\":\"/\",\"target\":\"/a\"}]}",
		"{\"mounts\":[{\"type\":\"tmpfs\",\"size\":\"1M\",\"target\":\"/a\"}]}",
	};

	for (size_t i = 0; i < array_len(changes); i++) {
		struct settings_request q = {0};
		struct settings before, after;

		settings_init(&q.settings);
		settings_init(&before);
		check(read_text(&q, changes[i]) == 0 && !settings_equal(&before, &q.settings));
		check(settings_copy(&after, &q.settings) == 0);
		check(read_text(&q, changes[i]) == 0 && settings_equal(&after, &q.settings));
		settings_close(&after);
		settings_close(&q.settings);
	}
	tap_ok("each setting makes a difference, and none twice");
}

struct bad {
	const char *text;
	const char *sentence;
	enum err_code code;
};

/* clang-format off */
#define MOUNT_1  "{\"type\":\"tmpfs\",\"size\":\"1M\",\"target\":\"/a\"},"
#define MOUNTS_8 MOUNT_1 MOUNT_1 MOUNT_1 MOUNT_1 MOUNT_1 MOUNT_1 MOUNT_1 MOUNT_1

static const struct bad bad[] = {
	{"{\"sleep_after\":5}", "sleep_after must be a string", ERR_INVALID_REQUEST},
	{"{\"sleep_after\":\"5\"}", "sleep_after must be \"never\" or a duration", ERR_INVALID_REQUEST},
	{"{\"sleep_after\":\"\"}", "sleep_after must be \"never\" or a duration", ERR_INVALID_REQUEST},
	{"{\"sleep_after\":\"Never\"}", "sleep_after must be \"never\" or", ERR_INVALID_REQUEST},
	{"{\"sleep_after\":\"99ms\"}", "sleep_after must be \"never\" or at least 100ms",
	 ERR_INVALID_REQUEST},
	{"{\"sleep_after\":\"3651d\"}", "sleep_after must be \"never\" or at most 3650d",
	 ERR_INVALID_REQUEST},
	{"{\"sleep_after\":\"99999999999999999999s\"}",
	 "sleep_after must be \"never\" or at most 3650d", ERR_INVALID_REQUEST},
	{"{\"sleep_mode\":\"\"}", "sleep_mode must be \"auto\", \"freeze\" or \"stop\"",
	 ERR_INVALID_REQUEST},
	{"{\"sleep_mode\":\"frozen\",\"sleep_after\":\"1s\"}", "sleep_mode must be",
	 ERR_INVALID_REQUEST},
	{"{\"max_awake\":\"999ms\"}", "max_awake must be \"never\" or at least 1s", ERR_INVALID_REQUEST},
	{"{\"stop_grace\":\"never\"}", "stop_grace must be a duration such as", ERR_INVALID_REQUEST},
	{"{\"stop_grace\":\"61m\"}", "stop_grace must be at most 1h", ERR_INVALID_REQUEST},
	{"{\"stop_after\":\"0s\"}", "stop_after must be \"never\" or at least 1s", ERR_INVALID_REQUEST},
	{"{\"delete_after\":\"1\"}", "delete_after must be \"never\" or a", ERR_INVALID_REQUEST},
	{"{\"keep_alive\":\"yes\"}", "keep_alive must be", ERR_INVALID_REQUEST},
	{"{\"keep_alive\":true,\"env\":{\"\":\"\"}}", "a name in env", ERR_INVALID_REQUEST},
	{"{\"hold_open_sockets\":1}", "hold_open_sockets must be", ERR_INVALID_REQUEST},
	{"{\"network\":{\"mode\":\"full\"}}", "network.mode is not", ERR_UNSUPPORTED},
	{"{\"network\":{\"mode\":\"allow\"}}", "network.mode is not", ERR_UNSUPPORTED},
	{"{\"network\":{\"mode\":\"ful\"}}", "network.mode must be", ERR_INVALID_REQUEST},
	{"{\"network\":{\"allow\":[\"x\"]}}", "network.allow is not", ERR_UNSUPPORTED},
	{"{\"network\":{\"deny\":[\"x\"]}}", "network.deny is not", ERR_UNSUPPORTED},
	{"{\"network\":{\"max_requests\":1}}", "network.max_requests is not", ERR_UNSUPPORTED},
	{"{\"network\":{\"max_bytes\":\"1M\"}}", "network.max_bytes is not", ERR_UNSUPPORTED},
	{"{\"network\":{\"credentials\":{}}}", "network.credentials is not", ERR_UNSUPPORTED},
	{"{\"network\":\"none\"}", "network must be an object", ERR_INVALID_REQUEST},
	{"{\"limits\":{\"memory_threshold\":1.5}}", "limits.memory_threshold must", ERR_INVALID_REQUEST},
	{"{\"limits\":{\"memory_threshold\":-0.5}}", "limits.memory_threshold must", ERR_INVALID_REQUEST},
	{"{\"limits\":{\"cpu_time_ms\":9223372036854775807}}", "limits.cpu_time_ms must", ERR_INVALID_REQUEST},
	{"{\"limits\":{\"disk\":\"1K\"}}", "limits.disk must be from 1M", ERR_INVALID_REQUEST},
	{"{\"limits\":{\"inodes\":1}}", "limits.inodes must be from 64", ERR_INVALID_REQUEST},
	{"{\"limits\":{\"io_read\":1048575}}", "limits.io_read must be from 1M to 1T in a second, or 0", ERR_INVALID_REQUEST},
	{"{\"limits\":{\"io_write\":\"1025G\"}}", "limits.io_write must be from 1M", ERR_INVALID_REQUEST},
	{"{\"limits\":{\"io_read_ops\":99}}", "limits.io_read_ops must be from 100 to 1000000000", ERR_INVALID_REQUEST},
	{"{\"limits\":{\"io_write_ops\":4294967306}}", "limits.io_write_ops must be", ERR_INVALID_REQUEST},
	{"{\"limits\":{\"io_write_ops\":\"1K\"}}", "limits.io_write_ops must be", ERR_INVALID_REQUEST},
	{"{\"mounts\":[{\"type\":\"x\",\"target\":\"/a\"}]}", "mounts[0].type must be", ERR_INVALID_REQUEST},
	{"{\"mounts\":[{\"type\":\"bind\",\"target\":\"/a\"}]}", "mounts[0].source must", ERR_INVALID_REQUEST},
	{"{\"mounts\":[{\"type\":\"bind\",\"source\":\"/b\",\"size\":\"1M\",\"target\":\"/a\"}]}", "mounts[0].size is for", ERR_INVALID_REQUEST},
	{"{\"mounts\":[{\"type\":\"tmpfs\",\"source\":\"/b\",\"size\":\"1M\",\"target\":\"/a\"}]}", "mounts[0].source is for", ERR_INVALID_REQUEST},
	{"{\"mounts\":[{\"type\":\"tmpfs\",\"target\":\"/a\"}]}", "mounts[0].size must", ERR_INVALID_REQUEST},
	{"{\"mounts\":[{\"type\":\"tmpfs\",\"size\":1,\"target\":\"/a\"}]}", "mounts[0].size must", ERR_INVALID_REQUEST},
	{"{\"mounts\":[{\"type\":\"tmpfs\",\"size\":\"1M\",\"target\":\"a\"}]}", "mounts[0].target must be an absolute", ERR_INVALID_REQUEST},
	{"{\"mounts\":[{\"type\":\"tmpfs\",\"size\":\"1M\",\"target\":\"/a/../b\"}]}", "mounts[0].target must be an absolute", ERR_INVALID_REQUEST},
	{"{\"mounts\":[{\"type\":\"bind\",\"source\":\"/b/\",\"target\":\"/a\"}]}", "mounts[0].source must be an absolute", ERR_INVALID_REQUEST},
	{"{\"mounts\":[{\"type\":\"bind\",\"source\":\"/b\",\"target\":\"/\"}]}", "nothing can be mounted on", ERR_INVALID_REQUEST},
	{"{\"mounts\":[{\"type\":\"bind\",\"source\":\"/b\",\"target\":\"/proc/x\"}]}", "nothing can be mounted on", ERR_INVALID_REQUEST},
	{"{\"mounts\":[{\"type\":\"bind\",\"source\":\"/b\",\"target\":\"/a\"},{\"type\":\"bind\",\"source\":\"/b\",\"target\":\"/a/c\"}]}", "mounts[1].target is the same", ERR_INVALID_REQUEST},
	{"{\"mounts\":[" MOUNTS_8 MOUNTS_8 "{\"type\":\"tmpfs\",\"size\":\"1M\",\"target\":\"/a\"}]}", "mounts: at most 16", ERR_INVALID_REQUEST},
	{"{\"limits\":{\"output_bytes\":1}}", "limits.output_bytes must be", ERR_INVALID_REQUEST},
	{"{\"limits\":{\"memory\":\"1\"}}", "limits.memory must be from 8M to 1024T, or 0 for the default",
	 ERR_INVALID_REQUEST},
	{"{\"limits\":{\"memory\":\"1025T\"}}", "limits.memory must be from 8M", ERR_INVALID_REQUEST},
	{"{\"limits\":{\"swap\":\"1025T\"}}", "limits.swap must be at most 1024T", ERR_INVALID_REQUEST},
	{"{\"limits\":{\"memory\":\"lots\"}}", "limits.memory must be a size", ERR_INVALID_REQUEST},
	{"{\"limits\":{\"cpus\":-1}}", "limits.cpus must be", ERR_INVALID_REQUEST},
	{"{\"limits\":{\"cpus\":1e-3}}", "limits.cpus must be", ERR_INVALID_REQUEST},
	{"{\"limits\":{\"cpus\":1e300}}", "limits.cpus must be", ERR_INVALID_REQUEST},
	{"{\"limits\":{\"cpus\":1001}}", "limits.cpus must be from 0.01 to 1000", ERR_INVALID_REQUEST},
	{"{\"limits\":{\"pids\":7}}", "limits.pids must be from 8 to 4194304", ERR_INVALID_REQUEST},
	{"{\"limits\":{\"files\":63}}", "limits.files must be from 64 to 1048576", ERR_INVALID_REQUEST},
	{"{\"limits\":{\"file_size\":65535}}", "limits.file_size must be at least 64K, or 0",
	 ERR_INVALID_REQUEST},
	{"{\"limits\":{\"pids\":4194305}}", "limits.pids must be", ERR_INVALID_REQUEST},
	{"{\"limits\":{\"files\":4294967297}}", "limits.files must be", ERR_INVALID_REQUEST},
	{"{\"limits\":{\"cores\":1}}", "unknown field \"limits.cores\"", ERR_INVALID_REQUEST},
	{"{\"id\":\"\"}", "id must be", ERR_INVALID_REQUEST},
	{"{\"id\":\"-a\"}", "id must be", ERR_INVALID_REQUEST},
	{"{\"id\":\"a/b\"}", "id must be", ERR_INVALID_REQUEST},
	{"{\"image\":\"\"}", "image must be", ERR_INVALID_REQUEST},
	{"{\"image\":\"..\"}", "image must be", ERR_INVALID_REQUEST},
	{"{\"image\":\"a/b\"}", "image must be", ERR_INVALID_REQUEST},
	{"{\"image\":\"0123456789012345678901234567890123456789012345678901234567890123\"}",
	 "image must be", ERR_INVALID_REQUEST},
	{"{\"env\":{\"\":\"x\"}}", "a name in env must not", ERR_INVALID_REQUEST},
	{"{\"env\":{\"A=B\":\"x\"}}", "a name in env must not", ERR_INVALID_REQUEST},
	{"{\"env\":{\"A\":\"\\u0000\"}}", "env.A must not hold a NUL", ERR_INVALID_REQUEST},
	{"{\"env\":{\"A\":\"\",\"A\":\"\"}}", "\"env.A\" is given twice", ERR_INVALID_REQUEST},
	{"{\"labels\":{\"=\":\"\"}}", "a name in labels must not", ERR_INVALID_REQUEST},
	{"{\"sleepAfter\":\"5m\"}", "unknown field \"sleepAfter\"", ERR_INVALID_REQUEST},
	{"[]", "must be a JSON object", ERR_INVALID_REQUEST},
};
/* clang-format on */

static void test_refused(void)
{
	struct settings_request q = {0};
	struct settings before;

	settings_init(&q.settings);
	check(read_text(&q, "{\"env\":{\"K\":\"v\"},\"labels\":{\"l\":\"w\"},"
			    "\"sleep_after\":\"7s\",\"limits\":{\"pids\":9}}") == 0);
	before = q.settings;
	for (size_t i = 0; i < array_len(bad); i++) {
		check(read_text(&q, bad[i].text) < 0 && err.code == bad[i].code);
		if (!strstr(err.sentence, bad[i].sentence) || err.code != bad[i].code)
			printf("# %s: %s\n", bad[i].text, err.sentence);
		check(strstr(err.sentence, bad[i].sentence));
		check(settings_equal(&before, &q.settings));
	}
	tap_ok("wrong, unknown and unsupported fields are named, and change nothing");
	settings_close(&q.settings);
}

static void test_bridge(void)
{
	static const char body[] = "{\"exposedPorts\":[1,{}],\"timeoutMs\":5,"
				   "\"createTimeoutMs\":\"x\"}";
	struct settings_request q = {0};

	settings_init(&q.settings);
	check(read_text(&q, body) == 0);
	q.is_strict = true;
	check(read_text(&q, body) == -EINVAL);
	check_str(err.sentence, "unknown field \"exposedPorts\"");
	check(read_text(&q, "{\"timeoutMs\":1}") == -EINVAL);
	check(read_text(&q, "{\"createTimeoutMs\":1}") == -EINVAL);
	check(read_text(&q, "{\"timeoutMs\":null}") == 0);
	tap_ok("what the bridge's clients send is dropped on its route only");
	settings_close(&q.settings);
}

/* Of variables that have `each` bytes, as many as fill `size`; the last has `more`. */
static void make_env(char *text, size_t size, size_t each, size_t more)
{
	char *at = mempcpy(text, "{\"env\":{", 8);

	for (size_t i = 0; i < size / each; i++) {
		size_t len = each - 3 + (i + 1 == size / each ? more : 0);

		at += snprintf(at, 8, "%s\"%c\":\"", i ? "," : "", (char)('A' + i));
		memset(at, 'x', len);
		at += len;
		*at++ = '"';
	}
	memcpy(at, "}}", 3);
}

static void test_size(void)
{
	struct settings_request q = {0};
	static char text[SETTINGS_ENV_MAX + 4096];

	settings_init(&q.settings);
	make_env(text, SETTINGS_ENV_MAX, 65536, 0);
	check(read_text(&q, text) == 0 && q.settings.env.len == SETTINGS_ENV_MAX);
	make_env(text, SETTINGS_ENV_MAX, 65536, 1);
	check(read_text(&q, text) == -E2BIG && err.code == ERR_INVALID_REQUEST);
	check(strncmp(err.sentence, "env must not be larger", 22) == 0);
	check(q.settings.env.len == SETTINGS_ENV_MAX);
	make_env(text, AGENT_STRING_MAX, AGENT_STRING_MAX, 0);
	check(read_text(&q, text) == 0 && q.settings.env.len == AGENT_STRING_MAX);
	make_env(text, AGENT_STRING_MAX, AGENT_STRING_MAX, 1);
	check(read_text(&q, text) == -E2BIG && err.code == ERR_INVALID_REQUEST);
	check(strncmp(err.sentence, "env: \"A\" is longer", 18) == 0);
	tap_ok("the environment has a limit, and each variable");
	settings_close(&q.settings);
}

static void test_store(void)
{
	struct settings_request q = {0};
	struct settings back;
	struct buf text;

	settings_init(&q.settings);
	buf_init(&text, 4096);
	check(read_text(&q, "{\"image\":\"x\",\"read_only\":true,\"env\":{\"A\":\"\\u00e4=\\n\","
			    "\"B\":\"\"},\"labels\":{\"t\":\"1\"},\"limits\":{\"cpus\":0.123,"
			    "\"memory\":\"9T\",\"pids\":30},\"sleep_after\":\"150ms\","
			    "\"max_awake\":\"36h\",\"delete_after\":\"7d\",\"keep_alive\":true,"
			    "\"hold_open_sockets\":true,"
			    "\"sleep_mode\":\"stop\"}") == 0);
	check(settings_store(&q.settings, &text) == 0);
	arena_close(&arena);
	check(settings_restore(&arena, (struct str){buf_at(&text), buf_len(&text)}, &back, &err) ==
	      0);
	check_str(back.image, "x");
	check(settings_equal(&back, &q.settings));
	check(back.times.delete_after == 7 * 86400000 && back.keep_alive);
	check(back.hold_open_sockets);
	settings_close(&back);
	check(settings_restore(&arena, STR("{\"image\":\"host\"}"), &back, &err) == 0);
	check(back.times.sleep_after == 600000 && back.times.stop_after == SETTINGS_NEVER);
	settings_close(&back);
	check(settings_restore(&arena, STR("{\"limits\":{\"pids\":1}}"), &back, &err) == 0);
	check(back.limits.pids == 1);
	settings_close(&back);
	check(settings_restore(&arena, STR("{\"pids\":1}"), &back, &err) == -EINVAL);
	check_str(err.sentence, "the stored settings cannot be read: unknown field \"pids\"");
	buf_close(&text);
	settings_close(&q.settings);
	tap_ok("the stored form comes back");
}

static void test_write(void)
{
	struct settings_request q = {0};
	struct json_writer w;
	struct buf text;

	settings_init(&q.settings);
	buf_init(&text, 4096);
	check(read_text(&q, "{\"env\":{\"SECRET\":\"x\"},\"limits\":{\"cpus\":1.5,"
			    "\"memory_threshold\":0.8},\"mounts\":[{\"type\":\"bind\",\"source\":"
			    "\"/srv\",\"target\":\"/data\",\"read_only\":true},{\"type\":"
			    "\"tmpfs\",\"size\":\"1M\",\"target\":\"/m\"}],"
			    "\"max_awake\":\"5400s\",\"stop_after\":\"1500ms\"}") == 0);
	json_writer_init(&w, false);
	json_object(&w);
	settings_write(&q.settings, &w);
	json_object_end(&w);
	check(json_writer_end(&w, &text) == 0 && buf_append(&text, "", 1) == 0);
	json_writer_close(&w);
	check_str(buf_at(&text),
		  "{\"image\":\"host\",\"trust\":null,\"read_only\":false,\"ephemeral\":false,"
		  "\"mounts\":[{"
		  "\"type\":\"bind\",\"source\":\"/srv\",\"target\":\"/data\",\"read_only\":true},{"
		  "\"type\":\"tmpfs\",\"size\":1048576,\"target\":\"/m\",\"read_only\":false}],"
		  "\"sleep_after\":\"10m\","
		  "\"max_awake\":\"90m\",\"stop_after\":\"1500ms\",\"delete_after\":\"never\","
		  "\"stop_grace\":\"10s\",\"sleep_mode\":\"auto\",\"keep_alive\":false,"
		  "\"hold_open_sockets\":false,\"limits\":{"
		  "\"memory\":null,\"memory_threshold\":0.8,"
		  "\"swap\":null,\"cpus\":1.5,\"cpu_time_ms\":null,\"pids\":null,\"files\":null,"
		  "\"file_size\":null,\"disk\":null,\"inodes\":null,\"io_read\":null,"
		  "\"io_write\":null,\"io_read_ops\":null,\"io_write_ops\":null,\"output_bytes\":"
		  "null},"
		  "\"network\":{\"mode\":\"none\"},\"labels\":{}}");
	buf_close(&text);
	settings_close(&q.settings);
	tap_ok("as they are shown, without the environment");
}

static void test_change_env(void)
{
	static const struct {
		const char *body, *env; /* NULL: refused, and as before */
	} cases[] = {
		{"{\"A\":\"1\",\"B\":\"x=\\n'\\\"\"}", "A=1 B=x=\n'\""},
		{"{}", "A=1 B=x=\n'\""},
		{"{\"A\":null,\"C\":\"\"}", "B=x=\n'\" C="},
		{"{\"C\":\"3\",\"D\":null}", "B=x=\n'\" C=3"},
		{"{\"C\":4}", NULL},
		{"{\"\":\"4\"}", NULL},
		{"{\"A=B\":\"4\"}", NULL},
		{"{\"A\":\"1\",\"A\":\"2\"}", NULL},
		{"{\"A\":\"\\u0000\"}", NULL},
		{"{},\"x\":{}", NULL},
		{"[]", NULL},
		{"null", NULL},
		{"", NULL},
		{"{\"B\":null,\"C\":null}", ""},
	};
	struct settings s;
	char now[64] = "";

	settings_init(&s);
	for (size_t i = 0; i < array_len(cases); i++) {
		int r = settings_change_env(&arena, str_of(cases[i].body), &s, &err);
		struct str list = s.env;
		const char *item;

		check(r == (cases[i].env ? 0 : -EINVAL));
		if (cases[i].env)
			snprintf(now, sizeof(now), "%s", cases[i].env);
		for (const char *at = now; (item = frame_list_next(&list)); at += strlen(item) + 1)
			check(strncmp(at, item, strlen(item)) == 0);
		check(s.env.len == (*now ? strlen(now) + 1 : 0));
	}
	check(settings_change_env(&arena, (struct str){"{}\0", 3}, &s, &err) == -EINVAL);
	settings_close(&s);
	tap_ok("the environment is changed, or stays as it was");
}

int main(void)
{
	arena_init(&arena, 4 << 20);
	test_defaults();
	test_trust();
	test_all();
	test_times();
	test_start_alike();
	test_equal();
	test_refused();
	test_bridge();
	test_size();
	test_store();
	test_write();
	test_change_env();
	arena_close(&arena);
	return tap_done();
}
