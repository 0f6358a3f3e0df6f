#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <uv.h>

#include "base/host.h"
#include "daemon/berthd.h"
#include "daemon/capacity.h"
#include "daemon/exchange.h"
#include "daemon/keeper.h"
#include "daemon/registry.h"
#include "daemon/routes.h"
#include "daemon/server.h"
#include "daemon/store.h"
#include "proto/http.h"
#include "proto/json.h"
#include "proto/time_text.h"
#include "proto/trust_table.h"

void handle_health(struct exchange *x)
{
	exchange_reply(x, 200, "application/json", STR("{\"ok\":true}"));
}

/* Linux has paths that are not UTF-8, JSON has no such text: their odd bytes are shown as "?". */
static void put_path_text(struct json_writer *w, struct arena *arena, const char *path)
{
	struct str s = str_of(path);

	if (!utf8_is_valid(s)) {
		char *shown = arena_strndup(arena, s.at, s.len);

		for (size_t i = 0; shown && i < s.len; i++)
			if ((unsigned char)shown[i] >= 0x80)
				shown[i] = '?';
		s = shown ? str_of(shown) : STR("");
	}
	json_str(w, s);
}

static void put_path(struct json_writer *w, struct arena *arena, const char *key, const char *path)
{
	json_key(w, key);
	put_path_text(w, arena, path);
}

static void put_address(struct json_writer *w, const char *key, const struct host_port *address)
{
	char text[HOST_PORT_TEXT_SIZE];

	json_key(w, key);
	host_port_format(address, text);
	text[0] ? json_text(w, text) : json_null(w);
}

static void put_bool(struct json_writer *w, const char *key, bool value)
{
	json_key(w, key);
	json_bool(w, value);
}

static void put_int(struct json_writer *w, const char *key, uint64_t value)
{
	json_key(w, key);
	json_int(w, (int64_t)value);
}

static void put_text(struct json_writer *w, const char *key, const char *value)
{
	json_key(w, key);
	json_text(w, value);
}

static void put_daemon(struct json_writer *w, const struct berthd *d)
{
	char started_at[TIME_TEXT_SIZE];
	int r;

	/* The kernel counts nanoseconds in 64 bits: its clock ends long before the year 9999. */
	r = time_text_format(d->started_at_ms, started_at);
	assert(r == 0);

	put_text(w, "version", BERTH_VERSION);
	put_int(w, "pid", (uint64_t)getpid());
	put_text(w, "instance", store_instance(d->store));
	put_text(w, "started_at", started_at);
	put_int(w, "uptime_ms", (uv_hrtime() - d->started_ns) / 1000000);
}

static void put_runtime(struct json_writer *w, struct arena *arena, const struct host_facts *host)
{
	json_key(w, "runtime");
	if (!host->runtime[0]) {
		json_null(w);
		return;
	}
	json_object(w);
	put_path(w, arena, "name", host->runtime_name);
	put_path(w, arena, "path", host->runtime);
	json_object_end(w);
}

/* What the keeper can do for sandboxes, which may be more or less than this process could. */
static void put_cgroups(struct json_writer *w, const struct berthd *d)
{
	uint32_t abilities = keeper_abilities(registry_keeper(d->registry));

	json_key(w, "cgroups");
	json_object(w);
	put_text(w, "version", host_cgroups_name(d->host.cgroups));
	put_bool(w, "memory", abilities & KEEPER_CAN_LIMIT_MEMORY);
	put_bool(w, "cpu", abilities & KEEPER_CAN_LIMIT_CPU);
	put_bool(w, "pids", abilities & KEEPER_CAN_LIMIT_PIDS);
	put_bool(w, "freezer", abilities & KEEPER_CAN_FREEZE);
	json_object_end(w);
}

static void put_keeper(struct json_writer *w, const struct berthd *d)
{
	json_key(w, "keeper");
	json_object(w);
	put_bool(w, "answers", keeper_is_ready(registry_keeper(d->registry)));
	put_bool(w, "awaited", d->config.keeper_is_awaited);
	json_object_end(w);
}

static void put_confined(struct json_writer *w, const struct confinement *c)
{
	json_key(w, "confined");
	json_object(w);
	put_int(w, "landlock", c->landlock_abi);
	put_bool(w, "seccomp", c->has_seccomp);
	json_object_end(w);
}

static void put_host(struct json_writer *w, struct arena *arena, const struct berthd *d)
{
	const struct host_facts *host = &d->host;

	put_text(w, "mode", host->is_root ? "root" : "rootless");
	put_text(w, "kernel", host->kernel);
	put_text(w, "machine", host->machine);
	put_int(w, "cpus", host->cpus);
	put_int(w, "memory_bytes", host->memory_bytes);
	put_runtime(w, arena, host);
	put_keeper(w, d);
	put_confined(w, &d->confinement);
	put_cgroups(w, d);
	put_bool(w, "user_namespaces", host->user_namespaces);
	put_bool(w, "overlay", host->overlay);
	put_bool(w, "seccomp", host->seccomp);
	put_int(w, "subuids", host->subuid_count);
}

/* What differs between root and others, and between kinds of cgroups; README.md has the table. */
static void put_abilities(struct json_writer *w, const struct berthd *d)
{
	uint32_t can = keeper_abilities(registry_keeper(d->registry));
	uint32_t moment = KEEPER_CAN_FREEZE | KEEPER_HAS_GROUPS;

	json_key(w, "abilities");
	json_object(w);
	put_bool(w, "memory_limit", can & KEEPER_CAN_LIMIT_MEMORY);
	put_bool(w, "swap_limit", can & KEEPER_CAN_LIMIT_SWAP);
	put_bool(w, "cpu_time_limit", can & KEEPER_COUNTS_CPU);
	put_bool(w, "cpu_limit", can & KEEPER_CAN_LIMIT_CPU);
	put_bool(w, "cpu_choice", can & KEEPER_CAN_CHOOSE_CPUS);
	put_bool(w, "pids_limit", can & KEEPER_CAN_LIMIT_PIDS);
	put_bool(w, "freeze", can & KEEPER_CAN_FREEZE);
	put_bool(w, "exec_groups", can & KEEPER_HAS_GROUPS);
	put_bool(w, "moment", (can & moment) == moment);
	/* By the counter of the cgroup that limits memory. */
	put_bool(w, "oom_told", can & KEEPER_CAN_LIMIT_MEMORY);
	put_bool(w, "own_ids", can & KEEPER_HAS_RANGES);
	put_bool(w, "own_binds", can & KEEPER_CAN_OWN_BINDS);
	put_bool(w, "disk_limit", can & KEEPER_CAN_LIMIT_DISK);
	put_bool(w, "io_read_limit", can & KEEPER_CAN_LIMIT_READS);
	put_bool(w, "io_write_limit", can & KEEPER_CAN_LIMIT_WRITES);
	json_object_end(w);
}

static void put_default(struct json_writer *w, const char *key, uint64_t value)
{
	json_key(w, key);
	if (value)
		json_int(w, (int64_t)value);
	else
		json_null(w);
}

/* Of a sandbox whose own are null. */
static void put_defaults(struct json_writer *w, struct keeper_defaults defaults)
{
	json_key(w, "default_limits");
	json_object(w);
	put_default(w, "memory", defaults.memory_bytes);
	put_default(w, "pids", defaults.pids);
	put_default(w, "files", defaults.files);
	json_object_end(w);
}

static void put_limits(struct json_writer *w, const struct berthd *d)
{
	json_key(w, "network_modes");
	json_array(w);
	json_text(w, "none");
	json_array_end(w);

	json_key(w, "limits");
	json_object(w);
	put_int(w, "head_bytes", HTTP_HEAD_MAX);
	put_int(w, "headers", HTTP_HEADERS_MAX);
	put_int(w, "body_bytes", routes_body_max());
	put_int(w, "connections", d->limits.connections);
	json_object_end(w);
	put_defaults(w, keeper_defaults(registry_keeper(d->registry)));
	trust_table_write(&d->config.trust, w);
}

static void put_places(struct json_writer *w, struct arena *arena, const struct berthd *d)
{
	char url[PREVIEW_URL_SIZE];

	put_path(w, arena, "socket", d->socket);
	put_address(w, "listen", &d->listen_bound);
	put_address(w, "preview", &d->preview_bound);
	json_key(w, "preview_url");
	preview_url_format(&d->preview_url, "", url);
	if (d->preview_bound.host[0])
		json_text(w, url);
	else
		json_null(w);
	put_path(w, arena, "state_dir", d->config.paths.state_dir);
	put_path(w, arena, "run_dir", d->config.paths.run_dir);
}

/* Null if it was not. */
static void put_given(struct json_writer *w, struct arena *arena, const char *key,
		      const char *value)
{
	if (*value) {
		put_path(w, arena, key, value);
		return;
	}
	json_key(w, key);
	json_null(w);
}

static void put_binds(struct json_writer *w, struct arena *arena, const struct config *config)
{
	const char *binds[MOUNTS_ALLOWED_MAX];
	unsigned count = config_binds(config, binds);

	json_key(w, "allow_bind");
	json_array(w);
	for (unsigned i = 0; i < count; i++)
		put_path_text(w, arena, binds[i]);
	json_array_end(w);
}

/* What else it was told to be, so that whoever starts one finds out whether this is the same. */
static void put_settings(struct json_writer *w, struct arena *arena, const struct berthd *d)
{
	const struct config *config = &d->config;

	put_int(w, "uid", geteuid());
	put_given(w, arena, "config", config->file);
	put_given(w, arena, "token_file", config->token_file);
	put_given(w, arena, "socket_group", config->socket_group);
	put_text(w, "log_level", log_level_name(config->log_level));
	put_binds(w, arena, config);
}

void handle_info(struct exchange *x)
{
	const struct berthd *d = server_arg(exchange_server(x));
	struct json_writer w;

	if (json_writer_init(&w, false) < 0) {
		struct err err;

		err_set(&err, -ENOMEM, ERR_INTERNAL, "out of memory");
		exchange_reply_err(x, &err);
		return;
	}
	json_object(&w);
	put_daemon(&w, d);
	put_host(&w, exchange_arena(x), d);
	put_abilities(&w, d);
	put_limits(&w, d);
	put_places(&w, exchange_arena(x), d);
	put_settings(&w, exchange_arena(x), d);
	json_key(&w, "capacity");
	capacity_write(registry_capacity(d->registry), &w);
	put_int(&w, "connections", server_connections(d->api) + server_connections(d->preview));
	json_object_end(&w);
	exchange_reply_json(x, 200, &w);
	json_writer_close(&w);
}
