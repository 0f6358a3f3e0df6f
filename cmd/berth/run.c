#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cmd/berth/command.h"
#include "cmd/berth/sandbox.h"
#include "cmd/berth/screen.h"
#include "cmd/berth/settings.h"
#include "proto/sandbox_id.h"

enum {
	RUN_NAME,
	RUN_RM,
	RUN_ENV,
	RUN_CWD,
	RUN_USER,
	RUN_TIMEOUT,
	RUN_STDIN,
	RUN_IMAGE,
	RUN_TRUST,
	RUN_MEMORY,
	RUN_MEMORY_THRESHOLD,
	RUN_CPUS,
	RUN_CPU_TIME,
	RUN_PIDS,
	RUN_DISK,
	RUN_INODES,
	RUN_IO_READ,
	RUN_IO_WRITE,
	RUN_IO_READ_OPS,
	RUN_IO_WRITE_OPS,
	RUN_EPHEMERAL,
	RUN_READ_ONLY,
	RUN_MOUNT,
	RUN_VOLUME,
	RUN_TMPFS,
	RUN_SLEEP_AFTER,
	RUN_SLEEP_MODE,
	RUN_KEEP_ALIVE,
	RUN_HOLD_OPEN,
	RUN_MAX_AWAKE,
	RUN_STOP_AFTER,
	RUN_DELETE_AFTER,
	RUN_STOP_GRACE,
};

/*
 * Of one that has no name and is to be removed afterwards: should we be killed first, nobody else
 * knows of it, and the daemon does it. Not before it has slept for a while, with nobody at it.
 */
#define LEFT_BEHIND "1m"

struct created {
	struct str id;
	bool restart_needed;
};

/* clang-format off */
static const struct json_field created_fields[] = {
	{ "id",             JSON_STRING, offsetof(struct created, id), true },
	{ "restart_needed", JSON_BOOL,   offsetof(struct created, restart_needed) },
	{ "*",              JSON_IGNORED },
	{ NULL },
};
/* clang-format on */

static int take_id(const struct answer *answer, struct sandbox_id *ret, struct err *err)
{
	struct str text = {buf_at(&answer->body), buf_len(&answer->body)};
	struct created created = {{NULL, 0}, false};
	struct arena arena;
	int r;

	arena_init(&arena, SANDBOX_ARENA_MAX);
	r = json_parse(&arena, text, created_fields, &created, err);
	if (r == 0 && sandbox_id_parse(created.id, ret) < 0)
		r = err_set(err, -EPROTO, ERR_INTERNAL, "the new sandbox has no proper ID");
	if (r == 0 && created.restart_needed)
		screen_error("%s runs with other settings: what was changed holds after `berth "
			     "stop %s`",
			     ret->text, ret->text);
	arena_close(&arena);
	return r < 0 ? err_wrap(err, r, "the answer cannot be understood (is it berthd's?)") : 0;
}

/* A name is made or kept, with these settings; without one a new sandbox is made. */
static int make_sandbox(const struct call *call, struct sandbox_id *ret, struct answer *answer,
			struct err *err)
{
	bool is_passing = call->values[RUN_RM] && !call->values[RUN_NAME];
	struct settings_flags settings = {
		.image = call->values[RUN_IMAGE],
		.trust = call->values[RUN_TRUST],
		.memory = call->values[RUN_MEMORY],
		.memory_threshold = call->values[RUN_MEMORY_THRESHOLD],
		.cpus = call->values[RUN_CPUS],
		.cpu_time = call->values[RUN_CPU_TIME],
		.pids = call->values[RUN_PIDS],
		.disk = call->values[RUN_DISK],
		.inodes = call->values[RUN_INODES],
		.io_read = call->values[RUN_IO_READ],
		.io_write = call->values[RUN_IO_WRITE],
		.io_read_ops = call->values[RUN_IO_READ_OPS],
		.io_write_ops = call->values[RUN_IO_WRITE_OPS],
		.ephemeral = call->values[RUN_EPHEMERAL],
		.read_only = call->values[RUN_READ_ONLY],
		.sleep_after = call->values[RUN_SLEEP_AFTER],
		.sleep_mode = call->values[RUN_SLEEP_MODE],
		.keep_alive = call->values[RUN_KEEP_ALIVE],
		.hold_open_sockets = call->values[RUN_HOLD_OPEN],
		.max_awake = call->values[RUN_MAX_AWAKE],
		.stop_after = call->values[RUN_STOP_AFTER],
		.delete_after = call->values[RUN_DELETE_AFTER],
		.stop_grace = call->values[RUN_STOP_GRACE],
		.mounts = {call, RUN_MOUNT, RUN_VOLUME, RUN_TMPFS},
	};
	const char *name = call->values[RUN_NAME];
	char path[SANDBOX_PATH_MAX] = "/v1/sandbox";
	struct client_request request = {
		.method = name ? "PUT" : "POST", .path = path, .timeout_ms = CLIENT_WAIT_MS};
	cleanup(buf_close) struct buf body;
	int r = 0;

	if (is_passing && !settings.sleep_after)
		settings.sleep_after = LEFT_BEHIND;
	if (is_passing && !settings.delete_after)
		settings.delete_after = LEFT_BEHIND;
	buf_init(&body, SANDBOX_ARENA_MAX);
	if (name)
		r = sandbox_path(name, "", path, err);
	if (r == 0)
		r = settings_body(&settings, NULL, false, &body, err);
	if (r < 0)
		return r;
	request.body = (struct str){buf_at(&body), buf_len(&body)};
	r = client_send(call->globals, &request, answer, err);
	return r < 0 ? r : take_id(answer, ret, err);
}

static void remove_sandbox(const struct globals *globals, const char *id)
{
	struct answer answer;
	struct err err;

	answer_init(&answer);
	if (sandbox_remove(globals, id, &answer, &err) < 0)
		screen_error("the sandbox %s could not be removed: %s", id, err.sentence);
	answer_close(&answer);
}

static int make_and_run(const struct call *call, struct command *command, struct sandbox_id *ret)
{
	struct answer answer;
	struct err err;
	int r;

	answer_init(&answer);
	r = make_sandbox(call, ret, &answer, &err);
	if (r < 0)
		client_failed(call->globals, &answer, r, &err);
	answer_close(&answer);
	if (r < 0)
		return EXIT_NOT_RUN;
	command->id = ret->text;
	return command_run(command);
}

/* A signal while the sandbox is made is heard when there is a command to end, and then what is to
 * be removed is known. The next one does what it always does. */
static int run_and_remove(const struct call *call, struct command *command)
{
	struct sandbox_id id = {""};
	sigset_t before;
	int code;

	command_hold_signals(&before);
	code = make_and_run(call, command, &id);
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (id.text[0])
		remove_sandbox(call->globals, id.text);
	return code;
}

static int run(const struct call *call)
{
	static const struct command_flags places = {RUN_ENV, RUN_CWD, RUN_USER, RUN_TIMEOUT,
						    RUN_STDIN};
	struct command command;
	struct sandbox_id id;
	int code = command_init(&command, call, &places);

	if (code == EXIT_OK)
		code = call->values[RUN_RM] ? run_and_remove(call, &command)
					    : make_and_run(call, &command, &id);
	command_close(&command);
	return code;
}

/* clang-format off */
static const struct flag flags[] = {
	[RUN_NAME]         = { "--name",         "ID",         "use this sandbox; without: a new one" },
	[RUN_RM]           = { "--rm",           NULL,         "remove the sandbox and its disk afterwards" },
	[RUN_ENV]          = { "--env",          "NAME=VALUE", "set a variable; NAME alone passes ours on", "-e" },
	[RUN_CWD]          = { "--cwd",          "DIR",        "where to run it (/workspace)", "-w" },
	[RUN_USER]         = { "--user",         "USER",       "as whom: a name, a uid, or uid:gid", "-u" },
	[RUN_TIMEOUT]      = { "--timeout",      "DURATION",   "end it after so long: 500ms, 30s, 10m" },
	[RUN_STDIN]        = { "--stdin",        NULL,         "pass our standard input on", "-i" },
	[RUN_IMAGE]        = { "--image",        "NAME",       "what the sandbox is made of (host)" },
	[RUN_TRUST]        = { "--trust",        "PRESET",     "how far its code is trusted: high, medium, low, untrusted" },
	[RUN_MEMORY]       = { "--memory",       "SIZE",       "the most memory: 512M, 2G" },
	[RUN_MEMORY_THRESHOLD] = { "--memory-threshold", "PART", "tell, by an event, when so much of it is held: 0.8" },
	[RUN_CPUS]         = { "--cpus",         "NUMBER",     "the most processors: 1.5" },
	[RUN_CPU_TIME]     = { "--cpu-time",     "DURATION",   "end it when it used so much processor time: 30s, 10m" },
	[RUN_PIDS]         = { "--pids",         "NUMBER",     "the most processes" },
	[RUN_DISK]         = { "--disk",         "SIZE",       "the most that its disk may hold: 500M, 10G" },
	[RUN_INODES]       = { "--inodes",       "NUMBER",     "the most files on a disk in memory" },
	[RUN_IO_READ]      = { "--io-read",      "SIZE",      "the most that it may read from a disk in a second: 10M" },
	[RUN_IO_WRITE]     = { "--io-write",     "SIZE",      "the most that it may write in a second" },
	[RUN_IO_READ_OPS]  = { "--io-read-ops",  "NUMBER",    "the most reads in a second" },
	[RUN_IO_WRITE_OPS] = { "--io-write-ops", "NUMBER",    "the most writes in a second" },
	[RUN_EPHEMERAL]    = { "--ephemeral",    NULL,         "its disk is in memory, and new at each start" },
	[RUN_READ_ONLY]    = { "--read-only",    NULL,         "nothing but /workspace and /tmp can be written" },
	[RUN_MOUNT]        = { "--mount",        "MOUNT",      "type=bind,source=DIR,target=DIR[,ro], or type=tmpfs,target=DIR,size=SIZE" },
	[RUN_VOLUME]       = { "--volume",       "SRC:DST[:ro]", "mount a folder of the daemon's host that it allows", "-v" },
	[RUN_TMPFS]        = { "--tmpfs",        "DST:SIZE",   "mount memory: /scratch:256M" },
	[RUN_SLEEP_AFTER]  = { "--sleep-after",  "DURATION",   "sleep when idle for so long (10m), or never" },
	[RUN_SLEEP_MODE]   = { "--sleep-mode",   "WAY",        "how to sleep: freeze, stop, or auto" },
	[RUN_KEEP_ALIVE]   = { "--keep-alive",   NULL,         "never count as idle" },
	[RUN_HOLD_OPEN]    = { "--hold-open-sockets", NULL, "stay awake for open connections to previews, silent ones too" },
	[RUN_MAX_AWAKE]    = { "--max-awake",    "DURATION",   "sleep after so long, whatever happens" },
	[RUN_STOP_AFTER]   = { "--stop-after",   "DURATION",   "stop it when it was frozen for so long" },
	[RUN_DELETE_AFTER] = { "--delete-after", "DURATION",   "remove it, with its disk, when it slept for so long" },
	[RUN_STOP_GRACE]   = { "--stop-grace",   "DURATION",   "let processes end by themselves for so long" },
	{ NULL },
};

static const struct example examples[] = {
	{ "berth run --rm -- python3 -c 'print(6 * 7)'",   "nothing is left behind" },
	{ "berth run --name web -- sh -c 'date > when'",   "`web` and its disk stay" },
	{ "echo 'a b' | berth run --rm -i wc -w",          "with standard input" },
	{ "berth run --rm --memory 256M --cpus 0.5 --timeout 10s -- make", "within limits" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_run = {
	.name = "run",
	.summary = "run a command in a new sandbox, or in a named one",
	.arguments = "[--] PROGRAM [ARG...]",
	.has_command = true,
	.gives_code = true,
	.description =
		"Makes a sandbox and runs a command in it. With --name the sandbox may be there\n"
		"already; its settings are changed to those that are given. Output comes as it is\n"
		"written, standard output and standard error apart; the exit code is the "
		"command's\n"
		"own, or 125 if it was Berth that failed, or the command line was wrong. Ctrl-C\n"
		"ends the command. What --rm was to remove goes within minutes also if this is\n"
		"killed before, unless it has a name or is kept awake: its --sleep-after and\n"
		"--delete-after are 1m.",
	.flags = flags,
	.examples = examples,
	.run = run,
};
