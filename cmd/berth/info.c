#include "cmd/berth/info.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "cmd/berth/screen.h"

/* clang-format off */
#define AT(member) offsetof(struct info, member)

static const struct json_field runtime_fields[] = {
	{ "name", JSON_STRING, AT(runtime.name) - AT(runtime) },
	{ "path", JSON_STRING, AT(runtime.path) - AT(runtime) },
	{ "*",    JSON_IGNORED },
	{ NULL },
};

static const struct json_field cgroups_fields[] = {
	{ "version", JSON_STRING, AT(cgroups.version) - AT(cgroups) },
	{ "memory",  JSON_BOOL,   AT(cgroups.memory)  - AT(cgroups) },
	{ "cpu",     JSON_BOOL,   AT(cgroups.cpu)     - AT(cgroups) },
	{ "pids",    JSON_BOOL,   AT(cgroups.pids)    - AT(cgroups) },
	{ "freezer", JSON_BOOL,   AT(cgroups.freezer) - AT(cgroups) },
	{ "*",       JSON_IGNORED },
	{ NULL },
};

static const struct json_field limits_fields[] = {
	{ "head_bytes",  JSON_UINT, AT(limits.head_bytes)  - AT(limits) },
	{ "headers",     JSON_UINT, AT(limits.headers)     - AT(limits) },
	{ "body_bytes",  JSON_UINT, AT(limits.body_bytes)  - AT(limits) },
	{ "connections", JSON_UINT, AT(limits.connections) - AT(limits) },
	{ "*",           JSON_IGNORED },
	{ NULL },
};

static const struct json_field keeper_fields[] = {
	{ "answers", JSON_BOOL, AT(keeper.answers) - AT(keeper) },
	{ "awaited", JSON_BOOL, AT(keeper.awaited) - AT(keeper) },
	{ "*",       JSON_IGNORED },
	{ NULL },
};

static const struct json_field confined_fields[] = {
	{ "landlock", JSON_UINT, AT(confined.landlock) - AT(confined) },
	{ "seccomp",  JSON_BOOL, AT(confined.seccomp)  - AT(confined) },
	{ "*",        JSON_IGNORED },
	{ NULL },
};

static const struct json_field capacity_fields[] = {
	{ "max_sandboxes",          JSON_UINT, AT(capacity.max_sandboxes)    - AT(capacity) },
	{ "max_running",            JSON_UINT, AT(capacity.max_running)      - AT(capacity) },
	{ "memory_floor_bytes",     JSON_UINT, AT(capacity.memory_floor)     - AT(capacity) },
	{ "sandboxes",              JSON_UINT, AT(capacity.sandboxes)        - AT(capacity) },
	{ "running",                JSON_UINT, AT(capacity.running)          - AT(capacity) },
	{ "frozen",                 JSON_UINT, AT(capacity.frozen)           - AT(capacity) },
	{ "memory_available_bytes", JSON_UINT, AT(capacity.memory_available) - AT(capacity) },
	{ "*",                      JSON_IGNORED },
	{ NULL },
};

static const struct json_field default_fields[] = {
	{ "memory", JSON_UINT, 0 },
	{ "*",      JSON_IGNORED },
	{ NULL },
};

const struct json_field ability_fields[] = {
	{ "memory_limit", JSON_BOOL, offsetof(struct abilities, memory_limit) },
	{ "swap_limit",   JSON_BOOL, offsetof(struct abilities, swap_limit) },
	{ "cpu_time_limit", JSON_BOOL, offsetof(struct abilities, cpu_time_limit) },
	{ "cpu_limit",    JSON_BOOL, offsetof(struct abilities, cpu_limit) },
	{ "cpu_choice",   JSON_BOOL, offsetof(struct abilities, cpu_choice) },
	{ "pids_limit",   JSON_BOOL, offsetof(struct abilities, pids_limit) },
	{ "freeze",       JSON_BOOL, offsetof(struct abilities, freeze) },
	{ "exec_groups",  JSON_BOOL, offsetof(struct abilities, exec_groups) },
	{ "moment",       JSON_BOOL, offsetof(struct abilities, moment) },
	{ "oom_told",     JSON_BOOL, offsetof(struct abilities, oom_told) },
	{ "own_ids",      JSON_BOOL, offsetof(struct abilities, own_ids) },
	{ "own_binds",    JSON_BOOL, offsetof(struct abilities, own_binds) },
	{ "disk_limit",   JSON_BOOL, offsetof(struct abilities, disk_limit) },
	{ "io_read_limit", JSON_BOOL, offsetof(struct abilities, io_read_limit) },
	{ "io_write_limit", JSON_BOOL, offsetof(struct abilities, io_write_limit) },
	{ "*", JSON_IGNORED },
	{ NULL },
};

static const struct json_field info_fields[] = {
	{ "version",         JSON_STRING,  AT(version) },
	{ "pid",             JSON_UINT,    AT(pid) },
	{ "instance",        JSON_STRING,  AT(instance) },
	{ "started_at",      JSON_STRING,  AT(started_at) },
	{ "uptime_ms",       JSON_UINT,    AT(uptime_ms) },
	{ "mode",            JSON_STRING,  AT(mode) },
	{ "kernel",          JSON_STRING,  AT(kernel) },
	{ "machine",         JSON_STRING,  AT(machine) },
	{ "cpus",            JSON_UINT,    AT(cpus) },
	{ "memory_bytes",    JSON_UINT,    AT(memory_bytes) },
	{ "runtime",         JSON_OBJECT,  AT(runtime), .fields = runtime_fields },
	{ "cgroups",         JSON_OBJECT,  AT(cgroups), .fields = cgroups_fields },
	{ "keeper",          JSON_OBJECT,  AT(keeper), false, AT(keeper_given), keeper_fields },
	{ "confined",        JSON_OBJECT,  AT(confined), false, AT(confined_given), confined_fields },
	{ "user_namespaces", JSON_BOOL,    AT(user_namespaces) },
	{ "overlay",         JSON_BOOL,    AT(overlay) },
	{ "seccomp",         JSON_BOOL,    AT(seccomp) },
	{ "subuids",         JSON_UINT,    AT(subuids) },
	{ "network_modes",   JSON_STRINGS, AT(network_modes) },
	{ "limits",          JSON_OBJECT,  AT(limits), .fields = limits_fields },
	{ "default_limits",  JSON_OBJECT,  AT(default_memory), .fields = default_fields },
	{ "capacity",        JSON_OBJECT,  AT(capacity), false, AT(capacity_given), capacity_fields },
	{ "abilities",       JSON_OBJECT,  AT(abilities), false, AT(abilities_given), ability_fields },
	{ "socket",          JSON_STRING,  AT(socket) },
	{ "listen",          JSON_STRING,  AT(listen) },
	{ "preview",         JSON_STRING,  AT(preview) },
	{ "preview_url",     JSON_STRING,  AT(preview_url) },
	{ "state_dir",       JSON_STRING,  AT(state_dir) },
	{ "run_dir",         JSON_STRING,  AT(run_dir) },
	{ "connections",     JSON_UINT,    AT(connections) },
	{ "uid",             JSON_UINT,    AT(uid), false, AT(uid_given) },
	{ "config",          JSON_STRING,  AT(config) },
	{ "token_file",      JSON_STRING,  AT(token_file) },
	{ "socket_group",    JSON_STRING,  AT(socket_group) },
	{ "log_level",       JSON_STRING,  AT(log_level) },
	{ "allow_bind",      JSON_STRINGS, AT(allow_bind) },
	{ "*",               JSON_IGNORED },
	{ NULL },
};
/* clang-format on */

int info_parse(struct arena *arena, const struct answer *answer, struct info *ret, struct err *err)
{
	struct str text = {buf_at(&answer->body), buf_len(&answer->body)};
	int r;

	*ret = (struct info){0};
	r = json_parse(arena, text, info_fields, ret, err);
	return r < 0 ? err_wrap(err, r, "the answer cannot be understood (is it berthd's?)") : 0;
}

static void print_str(const char *name, struct str value)
{
	if (value.len)
		screen_row(name, "%s", screen_text(value).text);
}

static void print_have(const char *name, bool have)
{
	screen_row(name, "%s", have ? "yes" : "no");
}

struct info_text info_confined(const struct info *info)
{
	struct info_text ret = {"no"};

	if (info->confined.landlock)
		snprintf(ret.text, sizeof(ret.text), "landlock ABI %" PRIu64 "%s",
			 info->confined.landlock, info->confined.seccomp ? ", seccomp" : "");
	else if (info->confined.seccomp)
		snprintf(ret.text, sizeof(ret.text), "seccomp only");
	return ret;
}

static void print_daemon(const struct info *info)
{
	print_str("version", info->version);
	if (info->pid)
		screen_row("pid", "%" PRIu64, info->pid);
	print_str("mode", info->mode);
	print_str("started", info->started_at);
	screen_row("up for", "%s", screen_duration(info->uptime_ms).text);
	print_str("socket", info->socket);
	print_str("listens on", info->listen);
	print_str("previews on", info->preview);
	print_str("previews at", info->preview_url);
	print_str("state", info->state_dir);
	print_str("run", info->run_dir);
	print_str("configuration", info->config);
	print_str("tokens", info->token_file);
	print_str("socket's group", info->socket_group);
	print_str("log level", info->log_level);
	for (size_t i = 0; i < info->allow_bind.len; i++)
		print_str(i ? "" : "may be mounted", info->allow_bind.items[i]);
	if (info->confined_given)
		screen_row("confined", "%s", info_confined(info).text);
	screen_row("connections", "%" PRIu64 " of %" PRIu64, info->connections,
		   info->limits.connections);
}

static void print_machine(const struct info *info)
{
	screen_row("kernel", "%s %s", screen_text(info->kernel).text,
		   screen_text(info->machine).text);
	screen_row("cpus", "%" PRIu64, info->cpus);
	screen_row("memory", "%s", screen_bytes(info->memory_bytes).text);
	if (info->runtime.path.len)
		screen_row("runtime", "%s (%s)", screen_text(info->runtime.name).text,
			   screen_text(info->runtime.path).text);
	else
		screen_row("runtime", "none: see `berth doctor`");
	if (info->keeper_given)
		screen_row("keeper", "%s",
			   info->keeper.answers ? "answers" : "none: see `berth doctor`");
	screen_row("cgroups", "%s%s%s%s%s", screen_text(info->cgroups.version).text,
		   info->cgroups.memory ? " memory" : "", info->cgroups.cpu ? " cpu" : "",
		   info->cgroups.pids ? " pids" : "", info->cgroups.freezer ? " freezer" : "");
	print_have("user namespaces", info->user_namespaces);
	print_have("overlay", info->overlay);
	print_have("seccomp", info->seccomp);
	if (info->subuids)
		screen_row("subordinate ids", "%" PRIu64, info->subuids);
}

static void print_of(const char *name, uint64_t count, uint64_t limit, const char *more)
{
	if (limit)
		screen_row(name, "%" PRIu64 " of %" PRIu64 "%s", count, limit, more);
	else
		screen_row(name, "%" PRIu64 ", without a limit%s", count, more);
}

static void print_capacity(const struct info *info)
{
	char frozen[48];

	if (!info->capacity_given)
		return;
	print_of("sandboxes", info->capacity.sandboxes, info->capacity.max_sandboxes, "");
	snprintf(frozen, sizeof(frozen), "; %" PRIu64 " frozen", info->capacity.frozen);
	print_of("with a container", info->capacity.running, info->capacity.max_running, frozen);
	if (info->capacity.memory_floor)
		screen_row("memory floor", "%s; %s are available",
			   screen_bytes(info->capacity.memory_floor).text,
			   screen_bytes(info->capacity.memory_available).text);
}

static void print_limits(const struct info *info)
{
	print_capacity(info);
	screen_row("request head", "%s, %" PRIu64 " headers",
		   screen_bytes(info->limits.head_bytes).text, info->limits.headers);
	if (info->limits.body_bytes)
		screen_row("request body", "%s of JSON; files and archives may be of any size",
			   screen_bytes(info->limits.body_bytes).text);
	for (size_t i = 0; i < info->network_modes.len; i++)
		screen_row(i ? "" : "network modes", "%s",
			   screen_text(info->network_modes.items[i]).text);
}

static int show(const struct globals *globals, const struct answer *answer)
{
	struct arena arena;
	struct info info;
	struct err err;
	int r;

	arena_init(&arena, INFO_ARENA_MAX);
	r = info_parse(&arena, answer, &info, &err);
	if (r < 0) {
		screen_error("%s", err.sentence);
	} else if (globals->json) {
		printf("%.*s\n", (int)buf_len(&answer->body), buf_at(&answer->body));
	} else {
		printf("daemon\n");
		print_daemon(&info);
		printf("\nmachine\n");
		print_machine(&info);
		printf("\nlimits\n");
		print_limits(&info);
	}
	arena_close(&arena);
	return r < 0 ? EXIT_FAILED : EXIT_OK;
}

static int run(const struct call *call)
{
	struct answer answer;
	struct err err;
	int code, r;

	answer_init(&answer);
	r = client_get(call->globals, "/v1/info", &answer, &err);
	if (r < 0)
		code = client_failed(call->globals, &answer, r, &err);
	else
		code = show(call->globals, &answer);
	answer_close(&answer);
	return code;
}

/* clang-format off */
static const struct example examples[] = {
	{ "berth info",                     "as a table" },
	{ "berth info --json",              "as the daemon sends it" },
	{ "berth --url http://127.0.0.1:7000 info", "of a daemon that listens on TCP (BERTH_TOKEN)" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_info = {
	.name = "info",
	.summary = "show the daemon and what its machine offers",
	.arguments = "",
	.description =
		"Asks the daemon for its version, directories, listeners and limits, and for\n"
		"what it found on its machine. With --json: GET /v1/info as it is.",
	.examples = examples,
	.run = run,
};
