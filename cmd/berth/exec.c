#include "cmd/berth/command.h"

enum {
	EXEC_ENV,
	EXEC_CWD,
	EXEC_USER,
	EXEC_TIMEOUT,
	EXEC_STDIN,
	EXEC_SESSION,
	EXEC_DETACH,
	EXEC_NAME,
	EXEC_AUTOSTART
};

/* What is for a background process, and what is not. */
static int take_flags(struct command *command, const struct call *call)
{
	command->session = call->values[EXEC_SESSION];
	command->is_detached = call->values[EXEC_DETACH];
	command->process = call->values[EXEC_NAME];
	command->is_autostart = call->values[EXEC_AUTOSTART];
	if (!command->is_detached && (command->process || command->is_autostart))
		usage_error("--name and --autostart are for background processes: give --detach");
	else if (command->is_detached && command->has_stdin)
		usage_error("a background process has no standard input of ours: without --stdin");
	else if (command->is_detached && command->session)
		usage_error("a background process runs in no session: without --session");
	else
		return EXIT_OK;
	return EXIT_NOT_RUN;
}

static int run(const struct call *call)
{
	static const struct command_flags places = {EXEC_ENV, EXEC_CWD, EXEC_USER, EXEC_TIMEOUT,
						    EXEC_STDIN};
	struct command command;
	int code;

	if (call->arg_count == 0) {
		usage_error("in which sandbox? berth exec ID -- PROGRAM ...");
		return EXIT_NOT_RUN;
	}
	code = command_init(&command, call, &places);
	command.id = call->args[0];
	if (code == EXIT_OK)
		code = take_flags(&command, call);
	if (code == EXIT_OK)
		code = command_run(&command);
	command_close(&command);
	return code;
}

/* clang-format off */
static const struct flag flags[] = {
	[EXEC_ENV]     = { "--env",     "NAME=VALUE", "set a variable; NAME alone passes ours on", "-e" },
	[EXEC_CWD]     = { "--cwd",     "DIR",        "where to run it (/workspace)", "-w" },
	[EXEC_USER]    = { "--user",    "USER",       "as whom: a name, a uid, or uid:gid", "-u" },
	[EXEC_TIMEOUT] = { "--timeout", "DURATION",   "end it after so long: 500ms, 30s, 10m" },
	[EXEC_STDIN]   = { "--stdin",   NULL,         "pass our standard input on", "-i" },
	[EXEC_SESSION] = { "--session", "SESSION",    "in this session's shell, which is made if need be", "-s" },
	[EXEC_DETACH]  = { "--detach",  NULL,         "start a background process, and print its ID", "-d" },
	[EXEC_NAME]    = { "--name",    "NAME",       "with --detach: its ID" },
	[EXEC_AUTOSTART] = { "--autostart", NULL,     "with --detach: start it whenever the sandbox starts" },
	{ NULL },
};

static const struct example examples[] = {
	{ "berth exec web -- ls -l",                 "in the sandbox `web`" },
	{ "berth exec web sh -c 'echo $HOME'",       "a shell has to be asked for" },
	{ "berth exec -i web tee in.txt < in.txt",   "with standard input" },
	{ "berth exec -e A=1 -w /tmp --timeout 30s web env", "with a variable, a place, a limit" },
	{ "berth exec -s dev web -- cd /tmp",        "a session: what follows in `dev` runs there" },
	{ "berth exec -d --name api web ./server",   "in the background: see ps, logs, wait, kill" },
	{ "berth exec --json web -- date",           "all at once: stdout, stderr, exit_code, reason" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_exec = {
	.name = "exec",
	.summary = "run a command in a sandbox",
	.arguments = "ID [--] PROGRAM [ARG...]",
	.arg_max = 1,
	.has_command = true,
	.gives_code = true,
	.description =
		"Runs a command in a sandbox, which is made or started if need be. Output comes "
		"as\n"
		"it is written, standard output and standard error apart; the exit code is the\n"
		"command's own, or 125 if it was Berth that failed, or the command line was\n"
		"wrong. Ctrl-C ends the command. With --detach the code is 0 once it has been\n"
		"started, and 125 if it could not be.",
	.flags = flags,
	.examples = examples,
	.run = run,
};
