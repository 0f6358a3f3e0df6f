#include "cmd/berth/debug.h"

#include "base/cleanup.h"
#include "cmd/berth/screen.h"
#include "proto/units.h"

enum { DEBUG_ENV, DEBUG_CWD, DEBUG_USER, DEBUG_TIMEOUT, DEBUG_STDIN, DEBUG_PROFILE, DEBUG_FOR };

/* Codes that node has no use for itself. */
#define SCRIPT_MISSING    100
#define SCRIPT_UNREADABLE 101
#define EXIT_UNREADABLE   126
#define EXIT_MISSING      127

#define LIMIT_MAX_MS (24ULL * 24 * 3600 * 1000) /* what is more, node's timers take for nothing */

/* Under the inspector node looks for the script only when a debugger has come. */
static const char find[] =
	"const fs = require('node:fs'), path = require('node:path');\n"
	"let script;\n"
	"try { script = require.resolve(path.resolve(process.argv[1])); } catch { "
	"process.exit(100); }\n"
	"try { fs.accessSync(script, fs.constants.R_OK); } catch { process.exit(101); }\n";

int debug_find_script(const struct command *command)
{
	const char *const argv[] = {"node", "--input-type=commonjs", "-e", find,
				    "--",   command->argv[0]};
	struct screen_text name = screen_text(str_of(command->argv[0]));
	struct globals globals = *command->globals;
	struct command look = *command;
	int code;

	globals.json = false;
	look.globals = &globals;
	look.argv = (char *const *)argv;
	look.argc = array_len(argv);
	look.has_stdin = false;
	look.timeout_ms = 0;
	code = command_run(&look);
	if (code == SCRIPT_MISSING) {
		screen_error("there is no script `%s` in the sandbox: its path begins in %s",
			     name.text,
			     command->cwd ? screen_text(str_of(command->cwd)).text : "/workspace");
		return EXIT_MISSING;
	}
	if (code == SCRIPT_UNREADABLE) {
		screen_error("the script `%s` may not be read by whom it should run as", name.text);
		return EXIT_UNREADABLE;
	}
	return code;
}

static int run(const struct call *call)
{
	static const struct command_flags places = {DEBUG_ENV, DEBUG_CWD, DEBUG_USER, DEBUG_TIMEOUT,
						    DEBUG_STDIN};
	const char *dir = call->values[DEBUG_PROFILE], *limit = call->values[DEBUG_FOR];
	struct command command;
	uint64_t limit_ms = 0;
	int code = EXIT_NOT_RUN;

	if (call->arg_count == 0 || !call->command_len) {
		usage_error("which script of which sandbox? berth debug ID SCRIPT [ARG...]");
		return EXIT_NOT_RUN;
	}
	if (limit && (!dir || duration_parse(str_of(limit), &limit_ms) < 0 || !limit_ms ||
		      limit_ms > LIMIT_MAX_MS)) {
		usage_error(dir ? "--for wants a duration such as 30s or 10m, of 24d at most"
				: "--for is how long to profile: it goes with --profile");
		return EXIT_NOT_RUN;
	}
	if (!dir && (call->values[DEBUG_TIMEOUT] || call->values[DEBUG_STDIN])) {
		usage_error("--timeout and --stdin go with --profile");
		return EXIT_NOT_RUN;
	}
	if (command_init(&command, call, &places) == EXIT_OK) {
		command.id = call->args[0];
		code = dir ? debug_profile(&command, dir, limit_ms) : debug_inspect(&command);
	}
	command_close(&command);
	return code;
}

/* clang-format off */
static const struct flag flags[] = {
	[DEBUG_ENV]     = { "--env",     "NAME=VALUE", "set a variable; NAME alone passes ours on", "-e" },
	[DEBUG_CWD]     = { "--cwd",     "DIR",        "where to run it (/workspace)", "-w" },
	[DEBUG_USER]    = { "--user",    "USER",       "as whom: a name, a uid, or uid:gid", "-u" },
	[DEBUG_TIMEOUT] = { "--timeout", "DURATION",   "with --profile: kill it after so long, which leaves none" },
	[DEBUG_STDIN]   = { "--stdin",   NULL,         "with --profile: pass our standard input on", "-i" },
	[DEBUG_PROFILE] = { "--profile", "FOLDER",     "run it, and leave a CPU profile and a heap snapshot here" },
	[DEBUG_FOR]     = { "--for",     "DURATION",   "with --profile: have it exit after so long; what does not hear that is killed" },
	{ NULL },
};

static const struct example examples[] = {
	{ "berth debug web server.js 8080",            "stops at its first line, and prints a URL for DevTools" },
	{ "berth debug web --profile out work.js",     "out/*.cpuprofile and out/*.heapsnapshot, at its end" },
	{ "berth debug web --profile out --for 10s server.js", "of what does not end by itself" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_debug = {
	.name = "debug",
	.summary = "run a Node.js script of a sandbox under a debugger or a profiler",
	.arguments = "ID SCRIPT [ARG...]",
	.arg_max = 1,
	.has_command = true,
	.gives_code = true,
	.description =
		"Runs a script that is in a sandbox, by the sandbox's own node, stopped before "
		"its\n"
		"first line, and prints a URL that Chrome's or Chromium's DevTools open, and one "
		"for\n"
		"other debuggers. Meanwhile node's inspector is a port of this machine, on "
		"127.0.0.1\n"
		"only, also if the daemon is elsewhere. Only who has the URL can connect, for it "
		"ends\n"
		"in a random UUID that the port does not tell: it is the right to run anything in "
		"that\n"
		"sandbox. Output comes as it is written; the exit code is the script's own, 127 "
		"if\n"
		"there is no such script, or 125 if it was Berth that failed. Ctrl-C ends the "
		"script,\n"
		"and the URL ends with it. With --json a line of JSON tells the URLs.\n"
		"\n"
		"With --profile nobody has to look on: the script runs, and when it exits a CPU\n"
		"profile and a heap snapshot of that moment are fetched, which DevTools open, "
		"too,\n"
		"and it is said where they are, or which is missing. A script that a signal kills\n"
		"leaves no snapshot, and a profile only if it sent that signal itself. See `berth "
		"cp`\n"
		"for the script's way in.",
	.flags = flags,
	.examples = examples,
	.run = run,
};
