#include <inttypes.h>
#include <stdio.h>

#include "cmd/berth/awake.h"
#include "cmd/berth/sandbox.h"
#include "cmd/berth/screen.h"
#include "proto/units.h"

static void print_str(const char *name, struct str value)
{
	if (value.len)
		screen_row(name, "%s", screen_text(value).text);
}

static void print_size(const char *name, uint64_t bytes)
{
	if (bytes)
		screen_row(name, "%s", screen_bytes(bytes).text);
}

static void print_number(const char *name, uint64_t number)
{
	if (number)
		screen_row(name, "%" PRIu64, number);
}

static void print_ports(const struct sandbox_info *info)
{
	const struct sandbox_port *ports = info->ports.items;

	for (size_t i = 0; i < info->ports.len; i++) {
		struct str place = ports[i].url.len ? ports[i].url : ports[i].hostname;

		screen_row(i ? "" : "ports", "%" PRIu64 " %s", ports[i].port,
			   screen_text(place).text);
	}
}

static void print_mounts(const struct sandbox_info *info)
{
	const struct sandbox_mount *mounts = info->mounts.items;

	for (size_t i = 0; i < info->mounts.len; i++)
		screen_row(i ? "" : "mounts", "%s: %s%s", screen_text(mounts[i].target).text,
			   mounts[i].source.len ? screen_text(mounts[i].source).text
						: screen_bytes(mounts[i].size).text,
			   mounts[i].source.len     ? mounts[i].is_read_only ? ", read-only" : ""
			   : mounts[i].is_read_only ? " of memory, read-only"
						    : " of memory");
}

static void print_state(const struct sandbox_info *info)
{
	print_str("id", info->id);
	print_str("state", info->state);
	screen_row("generation", "%" PRIu64, info->generation);
	print_str("image", info->image);
	print_str("trust", info->trust);
	print_str("created", info->created_at);
	print_str("started", info->started_at);
	print_str("last active", info->last_active_at);
	print_str("network", info->network.mode);
	if (info->is_read_only)
		screen_row("read only", "yes");
	if (info->is_ephemeral)
		screen_row("disk", "in memory, and new at each start");
	print_ports(info);
	print_mounts(info);
	for (size_t i = 0; i < info->labels.len; i++)
		screen_row(i ? "" : "labels", "%s=%s", screen_text(info->labels.items[i].key).text,
			   screen_text(info->labels.items[i].value).text);
}

/* What never happens is not told. */
static void print_time(const char *name, struct str time)
{
	if (!str_eq(time, STR("never")))
		print_str(name, time);
}

static void print_sleep(const struct sandbox_info *info)
{
	print_str("sleep after", info->sleep_after);
	print_str("sleep mode", info->sleep_mode);
	if (info->keep_alive)
		screen_row("keep alive", "yes: it is never idle");
	if (info->hold_open_sockets)
		screen_row("open sockets", "hold it awake, also silent ones");
	print_time("max awake", info->max_awake);
	print_time("stop after", info->stop_after);
	print_time("delete after", info->delete_after);
	print_str("stop grace", info->stop_grace);
	awake_print(info, awake_now_ms());
}

static void print_io(const char *name, uint64_t bytes, uint64_t ops)
{
	if (bytes)
		screen_row(name, "%s in a second", screen_bytes(bytes).text);
	if (ops)
		screen_row(name, "%" PRIu64 " operations in a second", ops);
}

/* Limits that were not set are the daemon's affair. */
static void print_limits(const struct sandbox_info *info)
{
	char time[DURATION_TEXT_SIZE];

	if (info->restart_needed)
		screen_row("restart needed", "yes: what was changed holds from its next start on");
	print_size("memory limit", info->limits.memory);
	if (info->limits.memory_threshold > 0)
		screen_row("memory threshold", "%g of it: an event tells when so much is held",
			   info->limits.memory_threshold);
	print_size("swap limit", info->limits.swap);
	print_size("disk limit", info->limits.disk);
	if (info->limits.inodes)
		screen_row("inodes limit", "%" PRIu64, info->limits.inodes);
	print_io("reads limit", info->limits.io_read, info->limits.io_read_ops);
	print_io("writes limit", info->limits.io_write, info->limits.io_write_ops);
	if (info->limits.cpus > 0)
		screen_row("cpu limit", "%g", info->limits.cpus);
	if (info->limits.cpu_time_ms) {
		duration_format(info->limits.cpu_time_ms, time);
		screen_row("cpu time limit", "%s from a start to the next", time);
	}
	print_number("process limit", info->limits.pids);
	print_number("open file limit", info->limits.files);
	print_size("file size limit", info->limits.file_size);
	print_size("output limit", info->limits.output_bytes);
}

/* What this host does not count is not told. */
static void print_usage(const struct sandbox_info *info)
{
	if (!info->usage_given)
		return;
	if (info->usage.cpu_given)
		screen_row("cpu time", "%" PRIu64 " ms", info->usage.cpu_ms);
	if (info->usage.memory_given && info->usage.peak_given)
		screen_row("memory", "%s, at most %s", screen_bytes(info->usage.memory_bytes).text,
			   screen_bytes(info->usage.memory_peak_bytes).text);
	else if (info->usage.memory_given)
		screen_row("memory", "%s", screen_bytes(info->usage.memory_bytes).text);
	if (info->usage.pids_given)
		screen_row("processes", "%" PRIu64, info->usage.pids);
	if (info->usage.disk_given)
		screen_row("disk", "%s in %" PRIu64 " files, counted at %s",
			   screen_bytes(info->usage.disk_bytes).text, info->usage.files,
			   screen_text(info->usage.disk_at).text);
	if (info->usage.rx_bytes || info->usage.tx_bytes)
		screen_row("traffic", "%s to its ports, %s from them",
			   screen_bytes(info->usage.rx_bytes).text,
			   screen_bytes(info->usage.tx_bytes).text);
}

static void print_oom(const struct sandbox_info *info)
{
	if (info->last_oom.kills)
		screen_row("out of memory",
			   "%" PRIu64 " killed by the kernel in generation %" PRIu64
			   ", the last noticed at %s",
			   info->last_oom.kills, info->last_oom.generation,
			   screen_text(info->last_oom.at).text);
}

static int show(const struct globals *globals, const struct answer *answer, struct err *err)
{
	struct sandbox_info info;
	struct arena arena;
	int r;

	arena_init(&arena, SANDBOX_ARENA_MAX);
	r = sandbox_parse(&arena, answer, &info, err);
	if (r == 0 && globals->json) {
		printf("%.*s\n", (int)buf_len(&answer->body), buf_at(&answer->body));
	} else if (r == 0) {
		print_state(&info);
		print_sleep(&info);
		print_limits(&info);
		print_usage(&info);
		print_oom(&info);
		if (info.last_failure.message.len)
			screen_row("last failure", "%s (%s) at %s",
				   screen_text(info.last_failure.message).text,
				   screen_text(info.last_failure.code).text,
				   screen_text(info.last_failure.at).text);
	}
	arena_close(&arena);
	return r;
}

static int run(const struct call *call)
{
	char path[SANDBOX_PATH_MAX];
	struct answer answer;
	int code = EXIT_OK, r;
	struct err err;

	if (call->arg_count == 0)
		return usage_error("which sandbox? `berth ls` lists them");
	answer_init(&answer);
	r = sandbox_path(call->args[0], "", path, &err);
	if (r == 0)
		r = client_get(call->globals, path, &answer, &err);
	if (r == 0)
		r = show(call->globals, &answer, &err);
	if (r < 0)
		code = client_failed(call->globals, &answer, r, &err);
	answer_close(&answer);
	return code;
}

/* clang-format off */
static const struct example examples[] = {
	{ "berth inspect web",                   "as a table" },
	{ "berth inspect web --json | jq .state", "as the daemon sends it" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_inspect = {
	.name = "inspect",
	.summary = "show all about one sandbox",
	.arguments = "ID",
	.arg_max = 1,
	.description =
		"Shows a sandbox's state, settings and last failure, what keeps it awake, when it\n"
		"goes to sleep, and how it last slept and woke. Looking does not wake it, and "
		"does\n"
		"not keep it awake.",
	.examples = examples,
	.run = run,
};
