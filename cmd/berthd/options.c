#include "cmd/berthd/options.h"

#include <errno.h>
#include <getopt.h>
#include <string.h>

#include "base/cleanup.h"
#include "cmd/berthd/help.h"
#include "cmd/places.h"

/* Flags that are not a setting come after the settings. */
enum {
	OPTION_CONFIG = CONFIG_SETTING_COUNT,
	OPTION_NO_CONFINE,
	OPTION_HELP,
	OPTION_VERSION,
	OPTION_COUNT
};

#define NAME_WIDTH 22
#define OPTION_VAL 256 /* what getopt_long() returns for the first row; above any character */

/* clang-format off */
static const struct option_row rows[] = {
	{"socket",       CONFIG_SOCKET,       "PATH",      "Unix socket of the API; <run-dir>/berthd/api.sock without it."},
	{"user",         CONFIG_USER,         "USER",      "Run as this user when started by root (default: berth)."},
	{"socket-group", CONFIG_SOCKET_GROUP, "GROUP",     "Let the members of this group use the socket, not just its owner."},
	{"state-dir",    CONFIG_STATE_DIR,    "DIR",       "Where everything is kept that outlives a restart."},
	{"run-dir",      CONFIG_RUN_DIR,      "DIR",       "Where sockets live; it may be empty after a reboot."},
	{"config",       OPTION_CONFIG,       "FILE",      "Read settings from this JSON file; flags go over it."},
	{"runtime",      CONFIG_RUNTIME,      "PATH",      "The OCI runtime, by path or by name; crun, else runc, without it."},
	{"keeper",       CONFIG_KEEPER,       "HOW",       "start: start berth-keeper if none runs; await: another service does."},
	{"listen",       CONFIG_LISTEN,       "HOST:PORT", "Serve the API on TCP too; needs --token-file."},
	{"token-file",   CONFIG_TOKEN_FILE,   "FILE",      "The tokens that TCP clients must show, one per line."},
	{"preview",      CONFIG_PREVIEW,      "HOST:PORT", "Serve the previews of sandboxes' ports here; auto: 127.0.0.1:8620, or a free port; none."},
	{"preview-url",  CONFIG_PREVIEW_URL,  "URL",       "Where others reach them: SCHEME://DOMAIN[:PORT]."},
	{"access-log",   CONFIG_ACCESS_LOG,   "FILE",      "Write a line for each request through a preview to this file."},
	{"max-sandboxes", CONFIG_MAX_SANDBOXES, "N",       "How many sandboxes may exist; 0, as without it: any number."},
	{"max-running",  CONFIG_MAX_RUNNING,  "N",         "How many may have a container; the least recently used frozen one gives way."},
	{"memory-floor", CONFIG_MEMORY_FLOOR, "SIZE",      "Start nothing with less memory available; 0: never mind (default: 5%, 512M at most)."},
	{"max-runs",     CONFIG_MAX_RUNS,     "N",         "At most N runs at once, others wait (default: twice the processors)."},
	{"allow-bind",   CONFIG_ALLOW_BIND,   "DIR[:ro]",  "Let sandboxes mount this folder and those in it, or (:ro) read them; may be repeated."},
	{"log-level",    CONFIG_LOG_LEVEL,    "LEVEL",     "How much to log: error, warn, info or debug."},
	{"no-confine",   OPTION_NO_CONFINE,   NULL,        "Do without Landlock and the filter of system calls; for debugging."},
	{"help",         OPTION_HELP,         NULL,        "Show this text.", "-h"},
	{"version",      OPTION_VERSION,      NULL,        "Show the version."},
};
/* clang-format on */

struct flags {
	const char *values[OPTION_COUNT]; /* point into argv */
	const char *binds[MOUNTS_ALLOWED_MAX + 1];
	size_t bind_count;
	enum options_action action;
};

const struct option_row *options_row(size_t i)
{
	return i < array_len(rows) ? &rows[i] : NULL;
}

static void print_pair(FILE *out, const char *left, const char *right)
{
	int width = fprintf(out, "  %-*s", NAME_WIDTH, left);

	/* A left side that is too wide for the column gets a line of its own. */
	if (width > 2 + NAME_WIDTH)
		fprintf(out, "\n  %-*s", NAME_WIDTH, "");
	fprintf(out, "  %s\n", right);
}

static void print_table(FILE *out, const char *title, const struct example *list)
{
	fprintf(out, "\n%s:\n", title);
	for (size_t i = 0; list[i].line; i++)
		print_pair(out, list[i].line, list[i].meaning);
}

void options_print_help(FILE *out)
{
	fprintf(out, "Usage: berthd [FLAGS]\n\n%s\n\nFlags:\n", help_about);
	for (size_t i = 0; i < array_len(rows); i++) {
		char flag[64];

		snprintf(flag, sizeof(flag), "%s%s--%s%s%s", rows[i].letter ? rows[i].letter : "",
			 rows[i].letter ? ", " : "", rows[i].name, rows[i].value ? " " : "",
			 rows[i].value ? rows[i].value : "");
		print_pair(out, flag, rows[i].help);
	}
	fprintf(out, "\nIn the file of --config only; the flags are fields there too:\n");
	for (size_t i = 0; help_settings[i].setting != CONFIG_SETTING_COUNT; i++)
		print_pair(out, config_setting_name(help_settings[i].setting),
			   help_settings[i].meaning);
	print_table(out, "Examples", help_examples);
	print_table(out, "Signals", help_signals);
	print_table(out, "Environment", help_environment);
	print_table(out, "Files", places_table);
	print_table(out, "Exit codes", help_exit_codes);
}

static int refuse(int answer, char **argv, struct err *err)
{
	if (answer == ':')
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "the flag \"--%s\" needs a value; see berthd --help",
			       rows[optopt - OPTION_VAL].name);
	if (optopt >= OPTION_VAL)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "the flag \"--%s\" takes no value; see berthd --help",
			       rows[optopt - OPTION_VAL].name);
	if (optopt)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "there is no flag \"-%c\"; see berthd --help", optopt);
	return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
		       "there is no flag \"%s\"; see berthd --help", argv[optind - 1]);
}

/* Only records what is there; the last of a repeated flag counts, but for --allow-bind. */
static int collect(int argc, char **argv, struct flags *ret, struct err *err)
{
	struct option options[array_len(rows) + 1] = {0};
	int answer;

	for (size_t i = 0; i < array_len(rows); i++)
		options[i] = (struct option){
			.name = rows[i].name,
			.has_arg = rows[i].value ? required_argument : no_argument,
			.val = OPTION_VAL + (int)i,
		};
	*ret = (struct flags){.action = OPTIONS_RUN};
	optind = 0; /* glibc's way to begin anew */
	opterr = 0;
	while ((answer = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		int id;

		if (answer == '?' || answer == ':')
			return refuse(answer, argv, err);
		id = answer == 'h' ? OPTION_HELP : rows[answer - OPTION_VAL].id;
		if (id == OPTION_HELP || id == OPTION_VERSION) {
			ret->action = id == OPTION_HELP ? OPTIONS_HELP : OPTIONS_VERSION;
			return 0;
		}
		ret->values[id] = optarg ? optarg : "";
		/* One too many is kept, to be refused. */
		if (id == CONFIG_ALLOW_BIND && ret->bind_count < array_len(ret->binds))
			ret->binds[ret->bind_count++] = optarg;
	}
	if (optind < argc)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "berthd takes only flags, not \"%s\"; see berthd --help",
			       argv[optind]);
	return 0;
}

/* To those of the file, if there are any. */
static int add_binds(const struct flags *flags, struct config *ret, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < flags->bind_count && r == 0; i++)
		r = config_set(ret, CONFIG_ALLOW_BIND, str_of(flags->binds[i]), NULL, err);
	return r;
}

static int apply(const struct flags *flags, struct config *ret, struct err *err)
{
	int r = 0;

	config_init(ret);
	ret->is_unconfined = flags->values[OPTION_NO_CONFINE] != NULL;
	if (flags->values[OPTION_CONFIG])
		r = config_read(ret, flags->values[OPTION_CONFIG], err);
	for (size_t i = 0; i < array_len(rows) && r == 0; i++) {
		const char *value = flags->values[rows[i].id];

		if (!value || rows[i].id >= CONFIG_SETTING_COUNT)
			continue;
		r = rows[i].id == CONFIG_ALLOW_BIND
			    ? add_binds(flags, ret, err)
			    : config_set(ret, (enum config_setting)rows[i].id, str_of(value), NULL,
					 err);
		if (r < 0)
			err_wrap(err, r, "--%s", rows[i].name);
	}
	return r < 0 ? r : config_finish(ret, err);
}

int options_parse(int argc, char **argv, struct config *ret, enum options_action *action,
		  struct err *err)
{
	struct flags flags;
	int r = collect(argc, argv, &flags, err);

	if (r < 0)
		return r;
	*action = flags.action;
	return flags.action == OPTIONS_RUN ? apply(&flags, ret, err) : 0;
}

int options_reload(int argc, char **argv, struct config *running, unsigned *ret_stale,
		   struct err *err)
{
	enum options_action action;
	struct config next;
	int r = options_parse(argc, argv, &next, &action, err);

	if (r < 0)
		return r;
	*ret_stale = config_apply(running, &next);
	return 0;
}
