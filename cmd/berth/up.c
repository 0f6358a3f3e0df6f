#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/directory.h"
#include "base/log.h"
#include "base/paths.h"
#include "cmd/berth/client.h"
#include "cmd/berth/launch.h"
#include "cmd/berth/running.h"
#include "cmd/berth/screen.h"
#include "proto/mounts_allowed.h"

#define PREVIEW_AUTO "auto"

enum {
	UP_CONFIG,
	UP_LISTEN,
	UP_TOKEN_FILE,
	UP_PREVIEW,
	UP_PREVIEW_URL,
	UP_RUNTIME,
	UP_SOCKET_GROUP,
	UP_LOG_LEVEL,
	UP_USER,
	UP_ALLOW_BIND,
	UP_COUNT,
};

/* clang-format off */
static const struct flag flags[] = {
	[UP_CONFIG]       = { "--config",       "FILE",      "the daemon's configuration" },
	[UP_LISTEN]       = { "--listen",       "HOST:PORT", "serve the API on TCP too; needs --token-file" },
	[UP_TOKEN_FILE]   = { "--token-file",   "FILE",      "tokens for TCP, one per line" },
	[UP_PREVIEW]      = { "--preview",      "HOST:PORT", "serve previews of ports there (127.0.0.1:8620), or none" },
	[UP_PREVIEW_URL]  = { "--preview-url",  "URL",       "where others reach them: https://preview.example.com" },
	[UP_RUNTIME]      = { "--runtime",      "PATH",      "the OCI runtime" },
	[UP_SOCKET_GROUP] = { "--socket-group", "GROUP",     "let its members use the socket too" },
	[UP_LOG_LEVEL]    = { "--log-level",    "LEVEL",     "error, warn, info or debug" },
	[UP_USER]         = { "--user",         "USER",      "whom the daemon becomes, if root starts it (berth)" },
	[UP_ALLOW_BIND]   = { "--allow-bind",   "DIR[:ro]",  "let sandboxes mount this folder and those in it; may be repeated" },
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
	return flag == UP_CONFIG || flag == UP_TOKEN_FILE ||
	       (flag == UP_RUNTIME && strchr(value, '/'));
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
	/* Lines that tell of it would be broken. */
	if (path_has_controls(ret))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "%s: the path holds a control character, such as a new line",
			       screen_text(str_of(ret)).text);
	return 0;
}

/* The command line of berthd, with everything that its entries point to. */
struct command {
	struct globals globals; /* with absolute paths */
	struct paths paths;
	char values[UP_COUNT][PATH_MAX];
	char state_dir[PATH_MAX], run_dir[PATH_MAX], socket[PATH_MAX];
	char binds[MOUNTS_ALLOWED_MAX][PATH_MAX];
	char *allow_bind[MOUNTS_ALLOWED_MAX + 1]; /* of them; NULL at the end */
	char *argv[2 * UP_COUNT + 8 + 2 * MOUNTS_ALLOWED_MAX];
	size_t argc;
};

static void command_add(struct command *command, const char *flag, char *value)
{
	command->argv[command->argc++] = (char *)flag;
	if (value)
		command->argv[command->argc++] = value;
}

/* Only what was given is passed on: a configuration file may name the rest. */
static int command_add_path(struct command *command, const char *flag, const char **given,
			    char ret[PATH_MAX], struct err *err)
{
	int r;

	if (!*given)
		return 0;
	r = make_absolute(*given, ret, err);
	if (r < 0)
		return r;
	command_add(command, flag, ret);
	*given = ret;
	return 0;
}

static int command_fill_globals(struct command *c, const struct globals *globals, struct err *err)
{
	int r;

	c->globals = *globals;
	r = command_add_path(c, "--state-dir", &c->globals.state_dir, c->state_dir, err);
	if (r == 0)
		r = command_add_path(c, "--run-dir", &c->globals.run_dir, c->run_dir, err);
	if (r == 0)
		r = command_add_path(c, "--socket", &c->globals.socket, c->socket, err);
	return r;
}

/* Each of them, as the daemon will tell it. */
static int command_fill_binds(struct command *command, const struct call *call, struct err *err)
{
	size_t count = 0;

	for (size_t i = 0; i < call->given_count; i++) {
		const char *text = call->given[i].value;
		struct mounts_allowed allowed;
		struct stat st;
		char absolute[PATH_MAX];
		int r;

		if (call->given[i].flag != UP_ALLOW_BIND)
			continue;
		if (count == MOUNTS_ALLOWED_MAX)
			return err_set(err, -EDESTADDRREQ, ERR_INVALID_REQUEST,
				       "--allow-bind can be given %d times at most",
				       MOUNTS_ALLOWED_MAX);
		r = make_absolute(text, absolute, err);
		if (r < 0)
			return r;
		/* Nothing but ":ro" is a variable that was empty, and not this folder. */
		if (strcmp(text, ":ro") == 0 ||
		    mounts_allowed_parse(str_of(absolute), &allowed) < 0)
			return err_set(err, -EDESTADDRREQ, ERR_INVALID_REQUEST,
				       "--allow-bind wants " MOUNTS_ALLOWED_WANT ", not \"%s\"",
				       screen_text(str_of(text)).text);
		absolute[allowed.path.len] = '\0';
		if (mounts_allowed_suffix(allowed.path).len && lstat(absolute, &st) < 0)
			return err_set(err, -EDESTADDRREQ, ERR_INVALID_REQUEST,
				       "--allow-bind %.200s: that is no folder of this machine, "
				       "and nothing but \":ro\", for reading alone, can follow a "
				       "folder's name",
				       screen_text(str_of(text)).text);
		snprintf(command->binds[count], PATH_MAX, "%s%s", absolute,
			 allowed.is_read_only ? ":ro" : "");
		command->allow_bind[count] = command->binds[count];
		command_add(command, flags[UP_ALLOW_BIND].name, command->binds[count++]);
	}
	return 0;
}

static int command_fill(struct command *command, const struct call *call, struct err *err)
{
	int r;

	command_add(command, "berthd", NULL);
	for (size_t i = 0; i < UP_COUNT; i++) {
		if (!call->values[i] || i == UP_ALLOW_BIND)
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
	/* Where nothing is said. A configuration file may have said it: then this gives way. */
	if (!call->values[UP_PREVIEW])
		command_add(command, flags[UP_PREVIEW].name, (char *)PREVIEW_AUTO);
	r = command_fill_binds(command, call, err);
	if (r == 0)
		r = command_fill_globals(command, call->globals, err);
	return r < 0 ? r : client_paths(&command->globals, &command->paths, err);
}

/*
 * Root's berthd has given <state>/berthd to its own user; the directory above stays root's. 1: it
 * was not there.
 */
static int make_dir(const char *state_dir, const char *dir, struct err *err)
{
	bool is_root = geteuid() == 0, is_made;
	int r = directory_make(state_dir, is_root ? 0711 : 0700, err);

	if (r < 0)
		return r;
	is_made = mkdir(dir, 0700) == 0;
	/* Another `berth up` that failed may remove what is above it just now. */
	if (!is_made && errno != EEXIST && errno != ENOENT)
		return err_set(err, -errno, ERR_FORBIDDEN, "cannot make %s: %m", dir);
	r = is_root ? 0 : directory_make(dir, 0700, err);
	return r < 0 ? r : is_made;
}

/* <state>/berthd, and what is to be removed again if nothing comes of it. */
struct home {
	char dir[PATH_MAX], log[PATH_MAX];
	size_t kept_len; /* of `dir`: that part of it was there before us */
	bool is_ours;    /* it was us who made it */
};

static void note_kept(struct home *home)
{
	struct stat st;
	char part[PATH_MAX];

	snprintf(part, sizeof(part), "%s", home->dir);
	while (part[0] && lstat(part, &st) < 0)
		*strrchr(part, '/') = '\0';
	home->kept_len = strlen(part);
}

/* Whoever waited behind us for the lock of what is gone begins anew: see lock_home(). */
static void remove_home(const struct home *home, bool is_log_told)
{
	struct stat st;
	char part[PATH_MAX];

	if (home->is_ours && (is_log_told || (lstat(home->log, &st) == 0 && st.st_size == 0)))
		unlink(home->log);
	snprintf(part, sizeof(part), "%s", home->dir);
	/* What is above it may be ours all the same, and stays if another is in it. */
	if (!home->is_ours && strlen(part) > home->kept_len)
		*strrchr(part, '/') = '\0';
	while (strlen(part) > home->kept_len && rmdir(part) == 0)
		*strrchr(part, '/') = '\0';
}

/* 1: it was removed by another `berth up` that failed. */
static int lock_once(const struct paths *paths, struct home *home, int *ret, struct err *err)
{
	cleanup_fd int fd = -1;
	struct stat st, named;
	int r;

	home->is_ours = false;
	note_kept(home);
	r = make_dir(paths->state_dir, home->dir, err);
	if (r < 0)
		return err_wrap(err, r, "the state directory");
	home->is_ours = r == 1;
	fd = open(home->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 1
				       : err_set(err, -errno, ERR_FORBIDDEN, "cannot open %s: %m",
						 home->dir);
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_set(err, -errno, ERR_INTERNAL, "cannot lock %s: %m", home->dir);
	if (fstat(fd, &st) < 0 || stat(home->dir, &named) < 0 || st.st_dev != named.st_dev ||
	    st.st_ino != named.st_ino)
		return 1;
	*ret = take_fd(&fd);
	return 0;
}

/*
 * Makes <state>/berthd, where the log is, and locks it, so that of two `berth up` the second waits
 * and finds the daemon running.
 */
static int lock_home(const struct paths *paths, struct home *home, struct err *err)
{
	int fd = -1, r;

	if (snprintf(home->dir, PATH_MAX, "%s/berthd", paths->state_dir) >= PATH_MAX ||
	    snprintf(home->log, PATH_MAX, "%s/berthd/berthd.log", paths->state_dir) >= PATH_MAX)
		return err_set(err, -ENAMETOOLONG, ERR_INVALID_REQUEST,
			       "the state directory's path is too long");
	do
		r = lock_once(paths, home, &fd, err);
	while (r == 1);
	if (r < 0)
		remove_home(home, false);
	return r < 0 ? r : fd;
}

/* " name=value" of the line that berthd has printed. */
static struct str word_of(const char *line, const char *name)
{
	const char *at = strstr(line, name);
	struct str rest = str_of(at ? at + strlen(name) : "");

	return str_cut(&rest, ' ');
}

static int report_started(const struct globals *globals, const struct launched *started)
{
	struct str taken = word_of(started->line, " taken=");
	struct str preview = word_of(started->line, " preview=");

	if (globals->json)
		printf("{\"started\":true,\"pid\":%d,\"outdated\":false}\n", (int)started->pid);
	else
		printf("berthd (pid %d) is %s\n", (int)started->pid, started->line);
	if (taken.len)
		screen_error("%.*s is taken by another program: previews are on %.*s instead",
			     STR_ARGS(taken), STR_ARGS(preview));
	return EXIT_OK;
}

static int report_running(const struct command *command, pid_t pid)
{
	bool is_outdated = running_is_outdated(pid);
	char down[CLIENT_COMMAND_MAX], up[CLIENT_COMMAND_MAX];

	if (command->globals.json)
		printf("{\"started\":false,\"pid\":%d,\"outdated\":%s}\n", (int)pid,
		       is_outdated ? "true" : "false");
	else
		printf("berthd (pid %d) already runs on %s\n", (int)pid, command->paths.socket);
	if (!command->globals.json && is_outdated)
		printf("it still runs the old program: `%s` and `%s`\n",
		       client_command(&command->globals, "down", down),
		       client_command(&command->globals, "up", up));
	return EXIT_OK;
}

/* Is there one, and is it what was asked for? Absent: see client_is_absent(). */
static int find_running(const struct command *command, const struct call *call, pid_t *ret,
			struct err *err)
{
	const char *config = call->values[UP_CONFIG], *preview = call->values[UP_PREVIEW];
	const struct wanted wanted = {
		.config = config ? command->values[UP_CONFIG] : NULL,
		.token_file = call->values[UP_TOKEN_FILE] ? command->values[UP_TOKEN_FILE] : NULL,
		.socket_group = call->values[UP_SOCKET_GROUP],
		.log_level = call->values[UP_LOG_LEVEL],
		.user = call->values[UP_USER],
		.state_dir = command->globals.state_dir,
		.run_dir = command->globals.run_dir,
		.listen = call->values[UP_LISTEN],
		.preview = preview && strcmp(preview, PREVIEW_AUTO) == 0 ? NULL : preview,
		.preview_url = call->values[UP_PREVIEW_URL],
		.runtime = call->values[UP_RUNTIME] ? command->values[UP_RUNTIME] : NULL,
		.allow_bind = command->allow_bind,
	};
	struct answer answer;
	struct arena arena;
	struct info info;
	int r;

	answer_init(&answer);
	arena_init(&arena, INFO_ARENA_MAX);
	r = client_get(&command->globals, "/v1/info", &answer, err);
	if (r == 0)
		r = info_parse(&arena, &answer, &info, err);
	if (r == 0 && config && access(config, R_OK) < 0)
		r = err_set(err, -EINVAL, ERR_INVALID_REQUEST, "cannot read %s: %m",
			    screen_text(str_of(config)).text);
	if (r == 0) {
		*ret = (pid_t)info.pid;
		r = running_compare(&info, &wanted, err);
	}
	arena_close(&arena);
	answer_close(&answer);
	return r;
}

/* The daemon would find out by itself, but in the log of the one that is in its way. */
static int refuse_holder(const struct command *command, struct err *err)
{
	const char *dir = command->paths.state_dir;
	struct holder holder;

	if (!holder_find(dir, &holder))
		return 0;
	if (!holder.socket[0] || strcmp(holder.socket, command->paths.socket) == 0)
		return err_set(err, -EBUSY, ERR_CONFLICT,
			       "berthd (pid %d) uses %s but does not answer: it is starting or "
			       "stopping, or end it with `kill %d`",
			       (int)holder.pid, dir, (int)holder.pid);
	return err_set(err, -EBUSY, ERR_CONFLICT,
		       "another berthd (pid %d) uses %s and serves on %s: stop it with `berth "
		       "--socket %s down`",
		       (int)holder.pid, dir, holder.socket, holder.socket);
}

static int start(const struct call *call, struct command *command, struct err *err)
{
	struct launched launched;
	struct err why_not;
	struct home home;
	cleanup_fd int lock = -1;
	pid_t pid;
	int r;

	/* Before anything is made on disk: whoever may ask a running daemon may lack the right. */
	r = find_running(command, call, &pid, err);
	if (r == 0)
		return report_running(command, pid);
	if (!client_is_absent(r))
		return r;
	lock = lock_home(&command->paths, &home, err);
	if (lock < 0)
		return lock;
	r = find_running(command, call, &pid, err);
	if (r == 0)
		return report_running(command, pid);
	if (client_is_absent(r))
		r = refuse_holder(command, err);
	if (r < 0) {
		remove_home(&home, false);
		return r;
	}
	r = launch(command->argv, home.log, &launched, err);
	if (r == 0)
		return report_started(&command->globals, &launched);
	/* Somebody started one by hand while we tried: what was asked for is there. */
	if (r != -EINTR && find_running(command, call, &pid, &why_not) == 0)
		return report_running(command, pid);
	/* What was wrong with its flags it has said; of anything else the log may know more. */
	remove_home(&home, r == -EDESTADDRREQ);
	return r;
}

static int run(const struct call *call)
{
	cleanup_free struct command *command = calloc(1, sizeof(*command));
	const char *level = call->values[UP_LOG_LEVEL];
	enum log_level known;
	struct err err;
	int r;

	if (call->globals->url)
		return usage_error("berth up starts a daemon on this machine: use --socket");
	if (level && log_level_parse(str_of(level), &known) < 0)
		return usage_error("--log-level wants error, warn, info or debug");
	if (!command)
		r = err_set(&err, -ENOMEM, ERR_INTERNAL, "out of memory");
	else
		r = command_fill(command, call, &err);
	if (r == 0)
		r = start(call, command, &err);
	if (r >= 0)
		return r;
	screen_error("%s", err.sentence);
	if (r == -EDESTADDRREQ)
		return EXIT_USAGE;
	return r == -EINTR ? EXIT_INTERRUPTED : EXIT_FAILED;
}

const struct verb verb_up = {
	.name = "up",
	.summary = "start the daemon in the background",
	.arguments = "",
	.description =
		"Starts berthd, waits until it serves and says where. If one runs already, says\n"
		"so and succeeds, unless it differs from what the flags ask for. Its log goes to\n"
		"STATE/berthd/berthd.log. Previews are served on 127.0.0.1:8620 unless a flag or\n"
		"the configuration says otherwise, or on a free port if that one is taken.",
	.flags = flags,
	.examples = examples,
	.run = run,
};
