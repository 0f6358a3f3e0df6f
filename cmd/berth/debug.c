#include "cmd/berth/debug.h"

#include "cmd/berth/screen.h"
#include "proto/units.h"

enum { DEBUG_ENV, DEBUG_CWD, DEBUG_USER, DEBUG_TIMEOUT, DEBUG_STDIN, DEBUG_PROFILE, DEBUG_FOR };

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
	if (limit && (!dir || duration_parse(str_of(limit), &limit_ms) < 0 || !limit_ms)) {
		usage_error(dir ? "--for wants a duration such as 30s or 10m"
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
	[DEBUG_TIMEOUT] = { "--timeout", "DURATION",   "with --profile: kill it after so long, which leaves no profile" },
	[DEBUG_STDIN]   = { "--stdin",   NULL,         "with --profile: pass our standard input on", "-i" },
	[DEBUG_PROFILE] = { "--profile", "FOLDER",     "run it, and leave a CPU profile and a heap snapshot here" },
	[DEBUG_FOR]     = { "--for",     "DURATION",   "with --profile: have it exit after so long" },
	{ NULL },
};

static const struct example examples[] = {
	{ "berth debug web server.js 8080",            "stops at its first line, and prints where DevTools find it" },
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
		"other debuggers. Node's inspector is reached through a preview whose name holds "
		"a\n"
		"random token: whoever knows the URL can run anything in that sandbox. Output "
		"comes\n"
		"as it is written; the exit code is the script's own, or 125 if it was Berth that\n"
		"failed. Ctrl-C ends the script, and the URL ends with it. With --json a line of\n"
		"JSON tells the URLs.\n"
		"\n"
		"With --profile nobody has to look on: the script runs, and when it exits a CPU\n"
		"profile and a heap snapshot of that moment are fetched, which DevTools open, "
		"too.\n"
		"A script that a signal ends leaves none. See `berth cp` for the script's way in.",
	.flags = flags,
	.examples = examples,
	.run = run,
};
