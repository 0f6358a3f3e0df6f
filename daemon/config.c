#include "daemon/config.h"

#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/host.h"
#include "daemon/file.h"
#include "proto/json.h"

#define DRAIN_MS_DEFAULT  10000
#define VIEWER_MS_DEFAULT 30000
#define INIT_MS_DEFAULT   30000

enum kind {
	KIND_PATH,
	KIND_PROGRAM,
	KIND_GROUP,
	KIND_NAME,
	KIND_ADDRESS,
	KIND_SYNC,
	KIND_KEEPER,
	KIND_LEVEL,
	KIND_DRAIN,
	KIND_COUNT,
	KIND_LIMIT,
	KIND_SIZE,
	KIND_FLAG,
	KIND_TIMEOUT,
	KIND_PREVIEW,
	KIND_PREVIEW_URL,
	KIND_BINDS,
	KIND_PRESET,
	KIND_TRUST, /* an object, so in the file alone; likewise: */
	KIND_POOL,
};

struct setting {
	const char *name;
	enum kind kind;
	bool is_live; /* can change while berthd runs */
	size_t offset, size;
};

#define AT(member) offsetof(struct config, member), sizeof(((struct config *)NULL)->member)

/* clang-format off */
static const struct setting settings[CONFIG_SETTING_COUNT] = {
	[CONFIG_SOCKET]          = {"socket",          KIND_PATH,    false, AT(paths.socket)},
	[CONFIG_SOCKET_GROUP]    = {"socket_group",    KIND_GROUP,   false, AT(socket_group)},
	[CONFIG_USER]            = {"user",            KIND_NAME,    false, AT(user)},
	[CONFIG_STATE_DIR]       = {"state_dir",       KIND_PATH,    false, AT(paths.state_dir)},
	[CONFIG_RUN_DIR]         = {"run_dir",         KIND_PATH,    false, AT(paths.run_dir)},
	[CONFIG_RUNTIME]         = {"runtime",         KIND_PROGRAM, false, AT(runtime)},
	[CONFIG_KEEPER]          = {"keeper",          KIND_KEEPER,  false, AT(keeper_is_awaited)},
	[CONFIG_LISTEN]          = {"listen",          KIND_ADDRESS, false, AT(listen)},
	[CONFIG_TOKEN_FILE]      = {"token_file",      KIND_PATH,    true,  AT(token_file)},
	[CONFIG_PREVIEW]         = {"preview",         KIND_PREVIEW, false, AT(preview)},
	[CONFIG_ACCESS_LOG]      = {"access_log",      KIND_PATH,    true,  AT(access_log)},
	[CONFIG_PREVIEW_URL]     = {"preview_url",     KIND_PREVIEW_URL, false, AT(preview_url)},
	[CONFIG_STORE_SYNC]      = {"store_sync",      KIND_SYNC,    false, AT(store_sync)},
	[CONFIG_LOG_LEVEL]       = {"log_level",       KIND_LEVEL,   true,  AT(log_level)},
	[CONFIG_DRAIN]           = {"drain",           KIND_DRAIN,   true,  AT(drain_ms)},
	[CONFIG_MAX_CONNECTIONS] = {"max_connections", KIND_COUNT,   false, AT(max_connections)},
	[CONFIG_VIEWER_TIMEOUT]  = {"viewer_timeout",  KIND_TIMEOUT, true,  AT(viewer_timeout_ms)},
	[CONFIG_MAX_SANDBOXES]   = {"max_sandboxes",   KIND_LIMIT,   true,  AT(max_sandboxes)},
	[CONFIG_MAX_RUNNING]     = {"max_running",     KIND_LIMIT,   true,  AT(max_running)},
	[CONFIG_MEMORY_FLOOR]    = {"memory_floor",    KIND_SIZE,    true,  AT(memory_floor)},
	[CONFIG_MAX_RUNS]        = {"max_runs",        KIND_COUNT,   true,  AT(max_runs)},
	[CONFIG_INIT_TIMEOUT]    = {"init_timeout",    KIND_TIMEOUT, false, AT(init_timeout_ms)},
	[CONFIG_AUTOSTART]       = {"autostart",       KIND_FLAG,    false, AT(autostart)},
	[CONFIG_ALLOW_BIND]      = {"allow_bind",      KIND_BINDS,   false, AT(allow_bind)},
	[CONFIG_TRUST]           = {"trust",           KIND_TRUST,   true,  AT(trust)},
	[CONFIG_RUN_TRUST]       = {"run_trust",       KIND_PRESET,  true,  AT(run_trust)},
	[CONFIG_POOL]            = {"pool",            KIND_POOL,    true,  AT(pool)},
};
/* clang-format on */

void config_init(struct config *config)
{
	memset(config, 0, sizeof(*config));
	config->socket_gid = (gid_t)-1;
	config->log_level = LOG_INFO_LEVEL;
	config->store_sync = STORE_SYNC_NORMAL;
	config->drain_ms = DRAIN_MS_DEFAULT;
	config->viewer_timeout_ms = VIEWER_MS_DEFAULT;
	config->memory_floor = CONFIG_FLOOR_DEFAULT;
	config->init_timeout_ms = INIT_MS_DEFAULT;
	trust_table_init(&config->trust);
	config->run_trust = TRUST_UNTRUSTED;
	pool_settings_init(&config->pool);
}

const char *config_setting_name(enum config_setting setting)
{
	return settings[setting].name;
}

static int set_path(char ret[PATH_MAX], struct str value, const char *base_dir, struct err *err)
{
	cleanup_free char *current = NULL;
	int n;

	while (value.len > 1 && value.at[value.len - 1] == '/')
		value.len--;
	if (value.at[0] != '/' && !base_dir) {
		base_dir = current = getcwd(NULL, 0);
		if (!current)
			return err_set(err, -errno, ERR_INVALID_REQUEST,
				       "a relative path needs a current directory: %s",
				       strerror(errno));
	}
	memset(ret, 0, PATH_MAX);
	if (value.at[0] == '/')
		n = snprintf(ret, PATH_MAX, "%.*s", STR_ARGS(value));
	else
		n = snprintf(ret, PATH_MAX, "%s/%.*s", base_dir, STR_ARGS(value));
	if (n >= PATH_MAX)
		return err_set(err, -ENAMETOOLONG, ERR_INVALID_REQUEST,
			       "the path is longer than %d bytes", PATH_MAX - 1);
	if (path_has_controls(ret))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "the path holds a control character, such as a new line");
	return 0;
}

/* As a shell takes it: a name without a slash is looked for on the PATH. */
static int set_program(char ret[PATH_MAX], struct str value, const char *base_dir, struct err *err)
{
	char name[NAME_MAX + 1];
	char path[PATH_MAX] = "";

	if (memchr(value.at, '/', value.len))
		return set_path(ret, value, base_dir, err);
	snprintf(name, sizeof(name), "%.*s", STR_ARGS(value));
	if (value.len >= sizeof(name) || !host_find_program(name, path))
		return err_set(err, -ENOENT, ERR_INVALID_REQUEST,
			       "there is no program %s on the PATH; give its path",
			       log_value(value).text);
	memset(ret, 0, PATH_MAX);
	memcpy(ret, path, strlen(path));
	return 0;
}

static int set_group(struct config *config, struct str value, struct err *err)
{
	char name[sizeof(config->socket_group)] = {0};
	const struct group *group = NULL;

	if (value.len < sizeof(name)) {
		memcpy(name, value.at, value.len);
		group = getgrnam(name);
	}
	if (!group)
		return err_set(err, -ENOENT, ERR_INVALID_REQUEST, "this machine has no group %s",
			       log_value(value).text);
	memcpy(config->socket_group, name, sizeof(name));
	config->socket_gid = group->gr_gid;
	return 0;
}

static int set_name(char *ret, size_t size, struct str value, struct err *err)
{
	if (value.len >= size)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "is too long");
	memset(ret, 0, size);
	memcpy(ret, value.at, value.len);
	return 0;
}

static int set_address(struct host_port *ret, struct str value, struct err *err)
{
	struct host_port address = {0};
	int r = host_port_parse(value, &address);

	if (r == -ERANGE)
		return err_set(err, r, ERR_INVALID_REQUEST, "a port is at most 65535");
	if (r < 0)
		return err_set(err, r, ERR_INVALID_REQUEST,
			       "must be HOST:PORT, such as 127.0.0.1:8080 or [::1]:8080");
	*ret = address;
	return 0;
}

/* "auto" gives way to whatever was said before: `berth up` says so to one whose file may speak. */
static int set_preview(struct config *config, struct str value, struct err *err)
{
	bool is_none = str_eq(value, STR("none")), is_auto = str_eq(value, STR("auto"));
	struct host_port address;
	int r = 0;

	if (is_auto && config->preview_is_given)
		return 0;
	memset(&address, 0, sizeof(address));
	if (!is_none)
		r = set_address(&address, is_auto ? STR(CONFIG_PREVIEW_AUTO) : value, err);
	if (r < 0)
		return r;
	config->preview = address;
	config->preview_is_given = true;
	config->preview_is_auto = is_auto;
	return 0;
}

static int set_preview_url(struct preview_url *ret, struct str value, struct err *err)
{
	int r = preview_url_parse(value, ret);

	if (r == 0)
		return 0;
	return err_set(err, r, ERR_INVALID_REQUEST,
		       "must be SCHEME://DOMAIN[:PORT], such as https://preview.example.com: "
		       "http or https, and a name to which each preview's own is added in front");
}

static int set_sync(enum store_sync *ret, struct str value, struct err *err)
{
	bool is_full = str_eq(value, STR("full"));

	if (!is_full && !str_eq(value, STR("normal")))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "must be \"normal\" or \"full\"");
	*ret = is_full ? STORE_SYNC_FULL : STORE_SYNC_NORMAL;
	return 0;
}

static int set_keeper(bool *ret_is_awaited, struct str value, struct err *err)
{
	bool is_awaited = str_eq(value, STR("await"));

	if (!is_awaited && !str_eq(value, STR("start")))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "must be \"start\" or \"await\"");
	*ret_is_awaited = is_awaited;
	return 0;
}

static int set_duration(unsigned *ret_ms, struct str value, struct err *err)
{
	uint64_t ms;
	int r = duration_parse(value, &ms);

	if (r == -EINVAL)
		return err_set(err, r, ERR_INVALID_REQUEST,
			       "must be a duration, such as \"500ms\", \"10s\" or \"2m\"");
	if (r < 0 || ms > CONFIG_DRAIN_MS_MAX)
		return err_set(err, -ERANGE, ERR_INVALID_REQUEST, "is at most a day");
	*ret_ms = (unsigned)ms;
	return 0;
}

/* None at all would send away whoever has a slow line, or a busy machine. */
static int set_timeout(unsigned *ret_ms, struct str value, struct err *err)
{
	unsigned ms;
	int r = set_duration(&ms, value, err);

	if (r == 0 && ms < CONFIG_TIMEOUT_MS_MIN)
		r = err_set(err, -ERANGE, ERR_INVALID_REQUEST, "is at least a second");
	if (r == 0)
		*ret_ms = ms;
	return r;
}

static int set_count(unsigned *ret, struct str value, struct err *err)
{
	uint64_t count;

	if (size_parse(value, &count) < 0 || count < 1 || count > CONFIG_CONNECTIONS_MAX)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "must be a number between 1 and %d", CONFIG_CONNECTIONS_MAX);
	*ret = (unsigned)count;
	return 0;
}

static int set_limit(unsigned *ret, struct str value, struct err *err)
{
	uint64_t count;

	if (size_parse(value, &count) < 0 || count > CONFIG_SANDBOXES_MAX)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "must be a number up to %d, or 0 for no limit",
			       CONFIG_SANDBOXES_MAX);
	*ret = (unsigned)count;
	return 0;
}

static int set_size(uint64_t *ret, struct str value, struct err *err)
{
	uint64_t bytes;

	if (size_parse(value, &bytes) < 0)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "must be a size, such as \"512M\" or a number of bytes");
	*ret = bytes;
	return 0;
}

/* One more. */
static int add_bind(struct config *config, struct str value, const char *base_dir, struct err *err)
{
	const char *known[MOUNTS_ALLOWED_MAX];
	unsigned count = config_binds(config, known);
	const char *end =
		count ? known[count - 1] + strlen(known[count - 1]) + 1 : config->allow_bind;
	size_t used = (size_t)(end - config->allow_bind);
	bool is_read_only =
		value.len > 3 && str_eq((struct str){value.at + value.len - 3, 3}, STR(":ro"));
	struct mounts_allowed allowed;
	char path[PATH_MAX];
	int r, n;

	if (str_eq(value, STR(":ro")))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "must be " MOUNTS_ALLOWED_WANT);
	if (is_read_only)
		value.len -= 3;
	r = set_path(path, value, base_dir, err);
	if (r < 0)
		return r;
	if (mounts_allowed_parse(str_of(path), &allowed) < 0)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "must be " MOUNTS_ALLOWED_WANT);
	n = snprintf(config->allow_bind + used, CONFIG_ALLOW_BIND_MAX - used, "%s%s", path,
		     is_read_only ? ":ro" : "");
	/* There is an empty one behind the last. */
	if (count < MOUNTS_ALLOWED_MAX && used + (size_t)n + 2 <= CONFIG_ALLOW_BIND_MAX)
		return 0;
	memset(config->allow_bind + used, 0, CONFIG_ALLOW_BIND_MAX - used);
	return err_set(err, -E2BIG, ERR_INVALID_REQUEST,
		       "at most %d folders can be allowed, and %d bytes of paths",
		       MOUNTS_ALLOWED_MAX, CONFIG_ALLOW_BIND_MAX);
}

int config_set(struct config *config, enum config_setting setting, struct str value,
	       const char *base_dir, struct err *err)
{
	void *at = (char *)config + settings[setting].offset;

	if (value.len == 0)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "must not be empty");
	switch (settings[setting].kind) {
	case KIND_PATH:
		return set_path(at, value, base_dir, err);
	case KIND_PROGRAM:
		return set_program(at, value, base_dir, err);
	case KIND_GROUP:
		return set_group(config, value, err);
	case KIND_NAME:
		return set_name(at, settings[setting].size, value, err);
	case KIND_ADDRESS:
		return set_address(at, value, err);
	case KIND_PREVIEW:
		return set_preview(config, value, err);
	case KIND_PREVIEW_URL:
		return set_preview_url(at, value, err);
	case KIND_SYNC:
		return set_sync(at, value, err);
	case KIND_KEEPER:
		return set_keeper(at, value, err);
	case KIND_LEVEL:
		if (log_level_parse(value, at) == 0)
			return 0;
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "must be \"error\", \"warn\", \"info\" or \"debug\"");
	case KIND_DRAIN:
		return set_duration(at, value, err);
	case KIND_TIMEOUT:
		return set_timeout(at, value, err);
	case KIND_FLAG:
		*(bool *)at = str_eq(value, STR("true"));
		return 0;
	case KIND_LIMIT:
		return set_limit(at, value, err);
	case KIND_SIZE:
		return set_size(at, value, err);
	case KIND_BINDS:
		return add_bind(config, value, base_dir, err);
	case KIND_PRESET:
		if (trust_parse(value, at) == 0)
			return 0;
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "must be " TRUST_NAMES);
	case KIND_TRUST:
	case KIND_POOL:
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "must be an object");
	case KIND_COUNT:
		break;
	}
	return set_count(at, value, err);
}

/* What the file says, before it is made sense of. */
struct file_values {
	struct str text[CONFIG_SETTING_COUNT];
	uint64_t number[CONFIG_SETTING_COUNT]; /* of those that are one */
	bool flag[CONFIG_SETTING_COUNT];
	struct json_strings list[CONFIG_SETTING_COUNT];
	struct trust_words trust;
	struct pool_words pool;
	bool given[CONFIG_SETTING_COUNT];
};

static bool is_number(enum kind kind)
{
	return kind == KIND_COUNT || kind == KIND_LIMIT || kind == KIND_SIZE;
}

static enum json_type type_of(enum kind kind)
{
	if (kind == KIND_FLAG)
		return JSON_BOOL;
	if (kind == KIND_SIZE)
		return JSON_SIZE;
	if (kind == KIND_BINDS)
		return JSON_STRINGS;
	if (kind == KIND_TRUST || kind == KIND_POOL)
		return JSON_OBJECT;
	return is_number(kind) ? JSON_UINT : JSON_STRING;
}

static size_t offset_of(enum kind kind, size_t i)
{
	if (kind == KIND_FLAG)
		return offsetof(struct file_values, flag[0]) + i;
	if (kind == KIND_BINDS)
		return offsetof(struct file_values, list[0]) + i * sizeof(struct json_strings);
	if (kind == KIND_TRUST)
		return offsetof(struct file_values, trust);
	if (kind == KIND_POOL)
		return offsetof(struct file_values, pool);
	if (is_number(kind))
		return offsetof(struct file_values, number[0]) + i * sizeof(uint64_t);
	return offsetof(struct file_values, text[0]) + i * sizeof(struct str);
}

static int parse(struct arena *arena, struct str text, struct file_values *ret, struct err *err)
{
	struct json_field fields[CONFIG_SETTING_COUNT + 1] = {0};

	for (size_t i = 0; i < CONFIG_SETTING_COUNT; i++) {
		fields[i].name = settings[i].name;
		fields[i].type = type_of(settings[i].kind);
		fields[i].offset = offset_of(settings[i].kind, i);
		fields[i].fields = settings[i].kind == KIND_TRUST  ? trust_fields
				   : settings[i].kind == KIND_POOL ? pool_fields
								   : NULL;
		fields[i].given = offsetof(struct file_values, given[0]) + i;
	}
	return json_parse_file(arena, text, fields, ret, err);
}

static int set_list(struct config *config, enum config_setting setting, struct json_strings list,
		    const char *base_dir, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < list.len && r == 0; i++)
		r = config_set(config, setting, list.items[i], base_dir, err);
	return r;
}

static int apply_file(struct config *config, struct str text, struct err *err)
{
	cleanup(arena_close) struct arena arena;
	struct file_values values = {0};
	char base_dir[PATH_MAX], number[24];
	int r;

	arena_init(&arena, 4 * CONFIG_FILE_SIZE_MAX);
	trust_words_init(&values.trust, &config->trust);
	r = parse(&arena, text, &values, err);
	if (r < 0)
		return r;
	/* Relative paths in a file count from where it is, not from where berthd was started. */
	snprintf(base_dir, sizeof(base_dir), "%s", config->file);
	*strrchr(base_dir, '/') = '\0';
	for (enum config_setting i = 0; i < CONFIG_SETTING_COUNT; i++) {
		if (!values.given[i])
			continue;
		if (is_number(settings[i].kind)) {
			snprintf(number, sizeof(number), "%" PRIu64, values.number[i]);
			values.text[i] = str_of(number);
		}
		if (settings[i].kind == KIND_FLAG)
			values.text[i] = values.flag[i] ? STR("true") : STR("false");
		r = settings[i].kind == KIND_BINDS
			    ? set_list(config, i, values.list[i], base_dir, err)
		    : settings[i].kind == KIND_TRUST
			    ? trust_table_take(&config->trust, &values.trust, err)
		    : settings[i].kind == KIND_POOL
			    ? pool_settings_take(&config->pool, &values.pool, err)
			    : config_set(config, i, values.text[i], base_dir, err);
		if (r < 0)
			return err_wrap(err, r, "%s", settings[i].name);
	}
	return 0;
}

static int read_file(struct config *config, struct err *err)
{
	cleanup_free char *bytes = malloc(CONFIG_FILE_SIZE_MAX + 1);
	cleanup_fd int fd = -1;
	struct stat st;
	size_t len = 0;
	int r;

	if (!bytes)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	r = file_open(config->file, &fd, &st, err);
	if (r < 0)
		return r;
	if (st.st_mode & S_IWOTH)
		return err_set(err, -EPERM, ERR_INVALID_REQUEST,
			       "everybody on this machine can change it; run: chmod o-w %s",
			       config->file);
	r = file_read(fd, bytes, CONFIG_FILE_SIZE_MAX + 1, &len, err);
	if (r < 0)
		return r;
	return apply_file(config, (struct str){bytes, len}, err);
}

int config_read(struct config *config, const char *path, struct err *err)
{
	int r = path[0] ? set_path(config->file, str_of(path), NULL, err)
			: err_set(err, -EINVAL, ERR_INVALID_REQUEST, "its name is empty");

	if (r == 0)
		r = read_file(config, err);
	if (r < 0)
		return err_wrap(err, r, "the configuration file \"%s\"", path);
	return 0;
}

static int check_runtime(const struct config *config, struct err *err)
{
	struct stat st;

	if (!config->runtime[0])
		return 0;
	if (stat(config->runtime, &st) < 0)
		return err_set(err, -errno, ERR_INVALID_REQUEST,
			       "the runtime \"%s\" cannot be used: %s", config->runtime,
			       strerror(errno));
	if (!S_ISREG(st.st_mode) || access(config->runtime, X_OK) < 0)
		return err_set(err, -EACCES, ERR_INVALID_REQUEST,
			       "the runtime \"%s\" is not an executable file", config->runtime);
	return 0;
}

int config_finish(struct config *config, struct err *err)
{
	int r = paths_complete(&config->paths, err);

	if (r < 0)
		return r;
	if (config->listen.host[0] && !config->token_file[0])
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "listening on TCP needs tokens: add --token-file FILE");
	if (config->listen.host[0] && config->listen.port != 0 && !config->preview_is_auto &&
	    memcmp(&config->listen, &config->preview, sizeof(config->listen)) == 0)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "the API and the previews cannot share one address: change --listen "
			       "or --preview");
	return check_runtime(config, err);
}

unsigned config_apply(struct config *running, const struct config *next)
{
	unsigned stale = 0;

	for (unsigned i = 0; i < CONFIG_SETTING_COUNT; i++) {
		const struct setting *s = &settings[i];
		char *old = (char *)running + s->offset;
		const char *new = (const char *)next + s->offset;
		/* The listener that the tokens guard stays until a restart. */
		bool is_needed = i == CONFIG_TOKEN_FILE && !next->token_file[0];

		if (memcmp(old, new, s->size) == 0)
			continue;
		if (s->is_live && !is_needed)
			memcpy(old, new, s->size);
		else
			stale |= 1u << i;
	}
	return stale;
}
