#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "cmd/berth/client.h"
#include "cmd/berth/sandbox.h"
#include "cmd/berth/screen.h"
#include "cmd/berth/settings.h"
#include "proto/sandbox_id.h"

enum {
	CREATE_IMAGE,
	CREATE_TRUST,
	CREATE_MEMORY,
	CREATE_MEMORY_THRESHOLD,
	CREATE_CPUS,
	CREATE_CPU_TIME,
	CREATE_PIDS,
	CREATE_DISK,
	CREATE_INODES,
	CREATE_IO_READ,
	CREATE_IO_WRITE,
	CREATE_IO_READ_OPS,
	CREATE_IO_WRITE_OPS,
	CREATE_EPHEMERAL,
	CREATE_READ_ONLY,
	CREATE_MOUNT,
	CREATE_VOLUME,
	CREATE_TMPFS,
	CREATE_START,
	CREATE_SLEEP_AFTER,
	CREATE_SLEEP_MODE,
	CREATE_KEEP_ALIVE,
	CREATE_HOLD_OPEN,
	CREATE_MAX_AWAKE,
	CREATE_STOP_AFTER,
	CREATE_DELETE_AFTER,
	CREATE_STOP_GRACE,
};

static int show(const struct globals *globals, const struct answer *answer, struct err *err)
{
	struct sandbox_info info;
	struct arena arena;
	int r;

	arena_init(&arena, SANDBOX_ARENA_MAX);
	r = sandbox_parse(&arena, answer, &info, err);
	if (r == 0 && globals->json)
		printf("%.*s\n", (int)buf_len(&answer->body), buf_at(&answer->body));
	else if (r == 0)
		printf("%s\n", screen_text(info.id).text);
	arena_close(&arena);
	return r;
}

static bool is_of_run(const char *name)
{
	struct sandbox_id id;

	return sandbox_id_parse(str_of(name), &id) == 0 && sandbox_id_is_of_run(&id);
}

static int run(const struct call *call)
{
	const struct settings_flags settings = {
		.image = call->values[CREATE_IMAGE],
		.trust = call->values[CREATE_TRUST],
		.memory = call->values[CREATE_MEMORY],
		.memory_threshold = call->values[CREATE_MEMORY_THRESHOLD],
		.cpus = call->values[CREATE_CPUS],
		.cpu_time = call->values[CREATE_CPU_TIME],
		.pids = call->values[CREATE_PIDS],
		.disk = call->values[CREATE_DISK],
		.inodes = call->values[CREATE_INODES],
		.io_read = call->values[CREATE_IO_READ],
		.io_write = call->values[CREATE_IO_WRITE],
		.io_read_ops = call->values[CREATE_IO_READ_OPS],
		.io_write_ops = call->values[CREATE_IO_WRITE_OPS],
		.ephemeral = call->values[CREATE_EPHEMERAL],
		.read_only = call->values[CREATE_READ_ONLY],
		.sleep_after = call->values[CREATE_SLEEP_AFTER],
		.sleep_mode = call->values[CREATE_SLEEP_MODE],
		.keep_alive = call->values[CREATE_KEEP_ALIVE],
		.hold_open_sockets = call->values[CREATE_HOLD_OPEN],
		.max_awake = call->values[CREATE_MAX_AWAKE],
		.stop_after = call->values[CREATE_STOP_AFTER],
		.delete_after = call->values[CREATE_DELETE_AFTER],
		.stop_grace = call->values[CREATE_STOP_GRACE],
		.mounts = {call, CREATE_MOUNT, CREATE_VOLUME, CREATE_TMPFS},
	};
	struct client_request request = {
		.method = "POST", .path = "/v1/sandbox", .timeout_ms = CLIENT_WAIT_MS};
	const char *id = call->arg_count ? call->args[0] : NULL;
	char path[SANDBOX_PATH_MAX];
	cleanup(buf_close) struct buf body;
	struct answer answer;
	struct err err;
	int code = EXIT_OK, r;

	buf_init(&body, SANDBOX_ARENA_MAX);
	answer_init(&answer);
	r = id ? sandbox_path(id, "", path, &err) : 0;
	if (r == 0)
		r = settings_body(&settings, id, call->values[CREATE_START], &body, &err);
	if (r == 0) {
		request.body = (struct str){buf_at(&body), buf_len(&body)};
		r = client_send(call->globals, &request, &answer, &err);
	}
	if (r == 0)
		r = show(call->globals, &answer, &err);
	/* What the API says about it speaks of the API. An ID that only runs have is another thing.
	 */
	if (r == -EREMOTEIO && answer.status == 409 && id && !is_of_run(id))
		err_set(&err, r, ERR_CONFLICT,
			"there is a sandbox `%s` already: `berth inspect` shows it, `berth rm` "
			"removes it",
			screen_text(str_of(id)).text);
	if (r < 0)
		code = client_failed(call->globals, &answer, r, &err);
	answer_close(&answer);
	return code;
}

/* clang-format off */
static const struct flag flags[] = {
	[CREATE_IMAGE]        = { "--image",        "NAME",     "what the sandbox is made of (host)" },
	[CREATE_TRUST]        = { "--trust",        "PRESET",   "how far its code is trusted: high, medium, low, untrusted" },
	[CREATE_MEMORY]       = { "--memory",       "SIZE",     "the most memory: 512M, 2G" },
	[CREATE_MEMORY_THRESHOLD] = { "--memory-threshold", "PART", "tell, by an event, when so much of it is held: 0.8" },
	[CREATE_CPUS]         = { "--cpus",         "NUMBER",   "the most processors: 1.5" },
	[CREATE_CPU_TIME]     = { "--cpu-time",     "DURATION", "end it when it used so much processor time: 30s, 10m" },
	[CREATE_PIDS]         = { "--pids",         "NUMBER",   "the most processes" },
	[CREATE_DISK]         = { "--disk",         "SIZE",     "the most that its disk may hold: 500M, 10G" },
	[CREATE_INODES]       = { "--inodes",       "NUMBER",   "the most files on a disk in memory" },
	[CREATE_IO_READ]      = { "--io-read",      "SIZE",     "the most that it may read from a disk in a second: 10M" },
	[CREATE_IO_WRITE]     = { "--io-write",     "SIZE",     "the most that it may write in a second" },
	[CREATE_IO_READ_OPS]  = { "--io-read-ops",  "NUMBER",   "the most reads in a second" },
	[CREATE_IO_WRITE_OPS] = { "--io-write-ops", "NUMBER",   "the most writes in a second" },
	[CREATE_EPHEMERAL]    = { "--ephemeral",    NULL,       "its disk is in memory, and new at each start" },
	[CREATE_READ_ONLY]    = { "--read-only",    NULL,       "nothing but /workspace and /tmp can be written" },
	[CREATE_MOUNT]        = { "--mount",        "MOUNT",    "type=bind,source=DIR,target=DIR[,ro], or type=tmpfs,target=DIR,size=SIZE" },
	[CREATE_VOLUME]       = { "--volume",       "SRC:DST[:ro]", "mount a folder of the daemon's host that it allows", "-v" },
	[CREATE_TMPFS]        = { "--tmpfs",        "DST:SIZE", "mount memory: /scratch:256M" },
	[CREATE_START]        = { "--start",        NULL,       "start it at once, not on first use" },
	[CREATE_SLEEP_AFTER]  = { "--sleep-after",  "DURATION", "sleep when idle for so long (10m), or never" },
	[CREATE_SLEEP_MODE]   = { "--sleep-mode",   "WAY",      "how to sleep: freeze, stop, or auto" },
	[CREATE_KEEP_ALIVE]   = { "--keep-alive",   NULL,       "never count as idle" },
	[CREATE_HOLD_OPEN]    = { "--hold-open-sockets", NULL, "stay awake for open connections to previews, silent ones too" },
	[CREATE_MAX_AWAKE]    = { "--max-awake",    "DURATION", "sleep after so long, whatever happens" },
	[CREATE_STOP_AFTER]   = { "--stop-after",   "DURATION", "stop it when it was frozen for so long" },
	[CREATE_DELETE_AFTER] = { "--delete-after", "DURATION", "remove it, with its disk, when it slept for so long" },
	[CREATE_STOP_GRACE]   = { "--stop-grace",   "DURATION", "let processes end by themselves for so long" },
	{ NULL },
};

static const struct example examples[] = {
	{ "berth create",                             "prints the ID of a new sandbox" },
	{ "berth create web --memory 1G --cpus 2",    "with a name and limits" },
	{ "berth create job --trust untrusted",       "for code of strangers" },
	{ "berth create --start",                     "and starts it" },
	{ "berth create dev -v ~/src:/workspace/src:ro", "with a folder of this machine, if the daemon allows it" },
	{ "berth create job --sleep-after 1m --delete-after 1d", "for a while only" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_create = {
	.name = "create",
	.summary = "make a sandbox",
	.arguments = "[NEW-ID]",
	.arg_max = 1,
	.description =
		"Makes a sandbox and prints its ID. It starts when it is first used. Sandboxes\n"
		"with default settings need no create: `berth exec` makes them.",
	.flags = flags,
	.examples = examples,
	.run = run,
};
