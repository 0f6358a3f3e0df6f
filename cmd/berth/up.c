#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#include "base/cleanup.h"
#include "base/directory.h"
#include "base/paths.h"
#include "cmd/berth/client.h"
#include "cmd/berth/launch.h"
#include "cmd/berth/screen.h"
#include "proto/json.h"

enum {
	UP_STATE_DIR,
	UP_RUN_DIR,
	UP_CONFIG,
	UP_LISTEN,
	UP_TOKEN_FILE,
	UP_PREVIEW,
	UP_RUNTIME,
	UP_COUNT,
};

/* clang-format off */
static const struct flag flags[] = {
	[UP_STATE_DIR]  = { "--state-dir",  "DIR",       "what outlives a restart" },
	[UP_RUN_DIR]    = { "--run-dir",    "DIR",       "sockets, gone with a reboot" },
	[UP_CONFIG]     = { "--config",     "FILE",      "the daemon's configuration" },
	[UP_LISTEN]     = { "--listen",     "HOST:PORT", "serve the API on TCP too; needs --token-file" },
	[UP_TOKEN_FILE] = { "--token-file", "FILE",      "tokens for TCP, one per line" },
	[UP_PREVIEW]    = { "--preview",    "HOST:PORT", "serve previews of ports there" },
	[UP_RUNTIME]    = { "--runtime",    "PATH",      "the OCI runtime" },
	{ NULL },
};

static const struct example examples[] = {
	{ "berth up", "start the daemon, if it does not run yet" },
	{ "berth up --state-dir /tmp/b --run-dir /tmp/b/run", "a second one beside it" },
	{ "berth up --listen 127.0.0.1:7000 --token-file tokens", "on TCP as well" },
	{ NULL },
};
/* clang-format on */

/* The daemon starts in "/": what names a file is made absolute. A runtime may be a mere name. */
static bool is_path(size_t flag, const char *value)
{
	return flag == UP_STATE_DIR || flag == UP_RUN_DIR || flag == UP_CONFIG ||
	       flag == UP_TOKEN_FILE || (flag == UP_RUNTIME && strchr(value, '/'));
}

static int make_absolute(const char *path, char ret[PATH_MAX], struct err *err)
{
	cleanup_free char *cwd = NULL;
	int n;

	if (*path == '/') {
		n = snprintf(ret, PATH_MAX, "%s", path);
	} else {
		cwd = getcwd(NULL, 0);
		if (!cwd)
			return err_set(err, -errno, ERR_INTERNAL,
				       "cannot tell the current directory: %m");
		n = snprintf(ret, PATH_MAX, "%s/%s", cwd, path);
	}
	if (n < 0 || n >= PATH_MAX)
		return err_set(err, -ENAMETOOLONG, ERR_INVALID_REQUEST, "%s: the path is too long",
			       screen_text(str_of(path)).text);
	return 0;
}

/* The command line of berthd, with everything that its entries point to. */
struct command {
	char values[UP_COUNT][PATH_MAX];
	char socket[PATH_MAX];
	char *argv[2 * UP_COUNT + 4];
	size_t argc;
};

static void command_add(struct command *command, const char *flag, char *value)
{
	command->argv[command->argc++] = (char *)flag;
	if (value)
		command->argv[command->argc++] = value;
}

static int command_fill(struct command *command, const struct call *call, struct err *err)
{
	int r;

	command_add(command, "berthd", NULL);
	for (size_t i = 0; i < UP_COUNT; i++) {
		if (!call->values[i])
			continue;
		if (is_path(i, call->values[i])) {
			r = make_absolute(call->values[i], command->values[i], err);
			if (r < 0)
				return r;
		} else if (snprintf(command->values[i], PATH_MAX, "%s", call->values[i]) >=
			   PATH_MAX) {
			return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "%s is too long",
				       flags[i].name);
		}
		command_add(command, flags[i].name, command->values[i]);
	}
	/* Not otherwise: a configuration file may name the socket. */
	if (call->globals->socket) {
		r = make_absolute(call->globals->socket, command->socket, err);
		if (r < 0)
			return r;
		command_add(command, "--socket", command->socket);
	}
	return 0;
}

static int command_paths(const struct command *command, struct paths *ret, struct err *err)
{
	*ret = (struct paths){0};
	memcpy(ret->state_dir, command->values[UP_STATE_DIR], PATH_MAX);
	memcpy(ret->run_dir, command->values[UP_RUN_DIR], PATH_MAX);
	memcpy(ret->socket, command->socket, PATH_MAX);
	return paths_complete(ret, err);
}

/*
 * Makes <state>/berthd, where the log is, and locks it, so that of two `berth up` the second waits
 * and finds the daemon running.
 */
static int lock_dir(const struct paths *paths, char log[PATH_MAX], struct err *err)
{
	cleanup_fd int fd = -1;
	char dir[PATH_MAX];
	int r;

	if (snprintf(dir, sizeof(dir), "%s/berthd", paths->state_dir) >= PATH_MAX ||
	    snprintf(log, PATH_MAX, "%s/berthd/berthd.log", paths->state_dir) >= PATH_MAX)
		return err_set(err, -ENAMETOOLONG, ERR_INVALID_REQUEST,
			       "the state directory's path is too long");
	r = directory_make(dir, 0700, err);
	if (r < 0)
		return err_wrap(err, r, "the state directory");
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, -errno, ERR_FORBIDDEN, "cannot open %s: %m", dir);
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_set(err, -errno, ERR_INTERNAL, "cannot lock %s: %m", dir);
	return take_fd(&fd);
}

static int report(const struct globals *globals, const char *socket, const struct launched *started)
{
	pid_t pid = 0;
	struct err err;
	int r;

	if (!started) {
		r = client_connect(socket, &pid, &err);
		if (r < 0) {
			screen_error("%s", err.sentence);
			return EXIT_FAILED;
		}
	}
	if (globals->json)
		printf("{\"started\":%s,\"pid\":%d}\n", started ? "true" : "false",
		       (int)(started ? started->pid : pid));
	else if (started)
		printf("berthd (pid %d) is %s\n", (int)started->pid, started->line);
	else
		printf("berthd (pid %d) already runs on %s\n", (int)pid, socket);
	return EXIT_OK;
}

static int start(const struct call *call, struct command *command, const struct paths *paths,
		 struct err *err)
{
	struct launched launched;
	char log[PATH_MAX];
	cleanup_fd int lock = -1;
	pid_t peer;
	int r;

	/* Before anything is made on disk: whoever may ask a running daemon may lack the right. */
	r = client_connect(paths->socket, &peer, err);
	if (r == 0)
		return report(call->globals, paths->socket, NULL);
	if (!client_is_absent(r))
		return r;
	lock = lock_dir(paths, log, err);
	if (lock < 0)
		return lock;
	if (client_connect(paths->socket, &peer, err) == 0)
		return report(call->globals, paths->socket, NULL);
	r = launch(command->argv, log, &launched, err);
	if (r == 0)
		return report(call->globals, paths->socket, &launched);
	/* Somebody started one by hand while we tried: what was asked for is there. */
	if (client_connect(paths->socket, &peer, NULL) == 0)
		return report(call->globals, paths->socket, NULL);
	return r;
}

static int run(const struct call *call)
{
	cleanup_free struct command *command = NULL;
	cleanup_free struct paths *paths = NULL;
	struct err err;
	int r;

	if (call->globals->url)
		return usage_error("berth up starts a daemon on this machine: use --socket");
	command = calloc(1, sizeof(*command));
	paths = calloc(1, sizeof(*paths));
	if (!command || !paths)
		r = err_set(&err, -ENOMEM, ERR_INTERNAL, "out of memory");
	else
		r = command_fill(command, call, &err);
	if (r == 0)
		r = command_paths(command, paths, &err);
	if (r == 0)
		r = start(call, command, paths, &err);
	if (r >= 0)
		return r;
	screen_error("%s", err.sentence);
	return EXIT_FAILED;
}

const struct verb verb_up = {
	.name = "up",
	.summary = "start the daemon in the background",
	.arguments = "",
	.description =
		"Starts berthd, waits until it serves and says where. If one runs already, says\n"
		"so and succeeds. Its log goes to STATE/berthd/berthd.log.",
	.flags = flags,
	.examples = examples,
	.run = run,
};
