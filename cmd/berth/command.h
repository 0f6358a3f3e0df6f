/*
 * A command in a sandbox: asked for, its output passed on as it comes, its exit code handed on.
 * Ctrl-C closes the connection, which ends the command; a second one ends us at once.
 */
#ifndef BERTH_CMD_COMMAND_H
#define BERTH_CMD_COMMAND_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "cmd/berth/verb.h"

struct command {
	const struct globals *globals;
	const char *id;
	char *const *argv;
	size_t argc;
	const char **env; /* "NAME=VALUE" each */
	size_t env_len;
	const char *cwd, *user; /* NULL: not given */
	const char *session;    /* whose shell runs it; NULL: none */
	uint64_t timeout_ms;    /* 0: none */
	bool has_stdin;         /* ours */
	bool is_detached;       /* a background process: it is started, and its ID printed */
	const char *process;    /* its ID; NULL: the daemon makes one up */
	bool is_autostart;
};

/*
 * Takes what is to be run, and the flags: where they stand in the verb's table. The command's `env`
 * is to be freed. EXIT_OK, or EXIT_NOT_RUN when something is wrong with them.
 */
struct command_flags {
	size_t env, cwd, user, timeout, has_stdin;
};
int command_init(struct command *command, const struct call *call,
		 const struct command_flags *flags);
void command_close(struct command *command);

/*
 * Signals that ask us to end wait until somebody hears them, as command_run() does. Returns which,
 * and what was held before.
 */
sigset_t command_hold_signals(sigset_t *ret_before);

/*
 * Writes all of it, in pieces that a pipe takes whole when it is said to be writable, so that a
 * reader who sleeps cannot keep us from hearing Ctrl-C: -EINTR then.
 */
int command_pass_on(int interrupt_fd, int fd, const char *at, size_t len);

/*
 * The exit code, as a shell says it, of signals that came by a signalfd. The one that was heard is
 * taken; the next does what it always does.
 */
int command_interrupted(int fd);

/*
 * What --env gives: NAME=VALUE, or NAME alone for the value that we have. EXIT_OK, or what is wrong
 * was said.
 */
int command_env(const char *given, struct str *ret_name, struct str *ret_value);

/* Says on stderr why something ended, if it was not by itself. */
void command_explain(struct str reason, struct str message);

/* The command's exit code, EXIT_NOT_RUN, EXIT_PIPE, or 128 and the signal that ended it. */
int command_run(const struct command *command);

#endif
