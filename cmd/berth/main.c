#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cmd/berth/help.h"
#include "cmd/berth/screen.h"
#include "cmd/berth/verb.h"

const struct verb *const verbs[] = {
	&verb_run,   &verb_exec,   &verb_create,  &verb_ls,    &verb_inspect,
	&verb_start, &verb_stop,   &verb_rm,      &verb_files, &verb_cat,
	&verb_put,   &verb_cp,     &verb_tar,     &verb_up,    &verb_down,
	&verb_info,  &verb_doctor, &verb_version, &verb_help,  NULL,
};

#define ANSWER_TIMEOUT_MS 5000

enum {
	GLOBAL_JSON,
	GLOBAL_SOCKET,
	GLOBAL_STATE_DIR,
	GLOBAL_RUN_DIR,
	GLOBAL_URL,
	GLOBAL_HELP,
	GLOBAL_VERSION,
	GLOBAL_COUNT,
};

/* clang-format off */
const struct flag global_flags[] = {
	[GLOBAL_JSON]      = { "--json",      NULL,   "print JSON" },
	[GLOBAL_SOCKET]    = { "--socket",    "PATH", "the daemon's Unix socket (RUN/berthd/api.sock)" },
	[GLOBAL_STATE_DIR] = { "--state-dir", "DIR",  "what the daemon keeps, if not the default" },
	[GLOBAL_RUN_DIR]   = { "--run-dir",   "DIR",  "its sockets, gone with a reboot" },
	[GLOBAL_URL]       = { "--url",       "URL",  "a daemon on the network, http://HOST:PORT" },
	[GLOBAL_HELP]      = { "--help",      NULL,   "explain berth, or the verb" },
	[GLOBAL_VERSION]   = { "--version",   NULL,   "print berth's version" },
	{ NULL },
};
/* clang-format on */

/* A command line, taken apart before anything is done. */
struct parsed {
	const char *globals[GLOBAL_COUNT];
	const struct verb *verb;
	struct call call;
};

const struct verb *verb_find(const char *name)
{
	for (size_t i = 0; verbs[i]; i++)
		if (strcmp(verbs[i]->name, name) == 0)
			return verbs[i];
	return NULL;
}

int usage_error(const char *format, ...)
{
	char sentence[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	screen_error("%s", sentence);
	return EXIT_USAGE;
}

static int unknown_flag(const char *flag, size_t len, const struct verb *verb)
{
	struct screen_text shown = screen_text((struct str){flag, len});
	const char *nearest = nearest_flag(shown.text, verb ? verb->flags : NULL);
	const char *who = verb ? verb->name : "berth", *of = verb ? "berth " : "";

	if (nearest)
		return usage_error("%s%s has no flag `%s`; did you mean `%s`?", of, who, shown.text,
				   nearest);
	return usage_error("%s%s has no flag `%s`; `%s%s --help` lists them", of, who, shown.text,
			   of, who);
}

/* The place of a flag in the table, or -1. */
static int flag_index(const struct flag *flags, const char *name, size_t len)
{
	struct str wanted = {name, len};

	for (int i = 0; flags && flags[i].name; i++)
		if (str_eq(str_of(flags[i].name), wanted) ||
		    (flags[i].letter && str_eq(str_of(flags[i].letter), wanted)))
			return i;
	return -1;
}

/* Takes argv[*at], and the value behind it if it wants one. EXIT_OK or EXIT_USAGE. */
static int parse_flag(struct parsed *p, char **argv, int *at)
{
	const char *name = argv[*at], *equals = strchr(name, '='), **slot;
	size_t len = equals ? (size_t)(equals - name) : strlen(name);
	const struct flag *flags = p->verb ? p->verb->flags : NULL;
	int i = flag_index(flags, name, len);

	if (strcmp(name, "-h") == 0) {
		p->globals[GLOBAL_HELP] = "";
		return EXIT_OK;
	}
	if (i >= 0) {
		slot = &p->call.values[i];
	} else {
		flags = global_flags;
		i = flag_index(flags, name, len);
		if (i < 0)
			return unknown_flag(name, len, p->verb);
		slot = &p->globals[i];
	}
	if (!flags[i].value && equals)
		return usage_error("`%s` takes no value", flags[i].name);
	if (!flags[i].value) {
		*slot = "";
		return EXIT_OK;
	}
	*slot = equals ? equals + 1 : argv[*at + 1];
	if (!equals && *slot)
		++*at;
	if (!*slot || !**slot)
		return usage_error("`%s` wants a value: %s %s", flags[i].name, flags[i].name,
				   flags[i].value);
	if (flags != global_flags)
		p->call.given[p->call.given_count++] = (struct given){(size_t)i, *slot};
	return EXIT_OK;
}

static int parse_word(struct parsed *p, const char *word)
{
	struct screen_text shown = screen_text(str_of(word));

	if (!p->verb) {
		const char *nearest = nearest_verb(word);

		p->verb = verb_find(word);
		if (p->verb)
			return EXIT_OK;
		if (nearest)
			return usage_error("there is no verb `%s`; did you mean `%s`?", shown.text,
					   nearest);
		return usage_error("there is no verb `%s`; `berth help` lists them", shown.text);
	}
	if (p->call.arg_count == p->verb->arg_max)
		return usage_error("berth %s does not know what to do with `%s`", p->verb->name,
				   shown.text);
	p->call.args[p->call.arg_count++] = word;
	return EXIT_OK;
}

/* Does the command of a verb that has one begin here? */
static bool is_command(const struct parsed *p, const char *word, bool flags_over)
{
	if (!p->verb || !p->verb->has_command || p->call.arg_count < p->verb->arg_max)
		return false;
	return flags_over || word[0] != '-' || !word[1];
}

static int parse(struct parsed *p, int argc, char **argv)
{
	bool flags_over = false;

	for (int i = 1; i < argc; i++) {
		int code;

		if (!flags_over && strcmp(argv[i], "--") == 0) {
			flags_over = true;
			continue;
		}
		if (is_command(p, argv[i], flags_over)) {
			p->call.command = argv + i;
			p->call.command_len = (size_t)(argc - i);
			return EXIT_OK;
		}
		if (!flags_over && argv[i][0] == '-' && argv[i][1])
			code = parse_flag(p, argv, &i);
		else
			code = parse_word(p, argv[i]);
		if (code != EXIT_OK)
			return code;
	}
	return EXIT_OK;
}

/* An empty variable counts as none. */
static const char *environment(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

/* A flag that says where the daemon is outranks everything that the environment says about it. */
static int globals_init(struct globals *globals, const struct parsed *p)
{
	const char *socket = p->globals[GLOBAL_SOCKET], *url = p->globals[GLOBAL_URL];

	*globals = (struct globals){
		.json = p->globals[GLOBAL_JSON],
		.state_dir = p->globals[GLOBAL_STATE_DIR],
		.run_dir = p->globals[GLOBAL_RUN_DIR],
		.token = environment("BERTH_TOKEN"),
		.timeout_ms = ANSWER_TIMEOUT_MS,
	};
	if (socket && url)
		return usage_error("--socket and --url exclude each other");
	if (!socket && !url && !globals->state_dir && !globals->run_dir) {
		socket = environment("BERTH_SOCKET");
		url = environment("BERTH_URL");
		if (socket && url)
			return usage_error("BERTH_SOCKET and BERTH_URL are both set: unset one, or "
					   "use --socket or --url");
	}
	globals->socket = socket;
	globals->url = url;
	return EXIT_OK;
}

static int act(struct parsed *p)
{
	struct globals globals;
	int code;

	if (p->globals[GLOBAL_HELP]) {
		if (p->verb)
			help_print_verb(p->verb);
		else
			help_print();
		return EXIT_OK;
	}
	if (p->globals[GLOBAL_VERSION]) {
		printf("berth %s\n", BERTH_VERSION);
		return EXIT_OK;
	}
	if (!p->verb)
		return usage_error("what should be done? `berth help` lists the verbs");
	code = globals_init(&globals, p);
	if (code != EXIT_OK)
		return code;
	p->call.globals = &globals;
	return p->verb->run(&p->call);
}

/*
 * With 0, 1 or 2 closed, the next file we open would become our output. Not for writing: what is
 * written to a closed output must fail.
 */
static void open_standard_fds(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	cleanup_free struct given *given = NULL;
	cleanup_free const char **args = NULL;
	struct parsed p = {0};
	int code;

	open_standard_fds();
	/* Whoever started us may ignore it, and then no child could be waited for. */
	signal(SIGCHLD, SIG_DFL);
	p.call.given = given = calloc((size_t)argc + 1, sizeof(*given));
	p.call.args = args = calloc((size_t)argc + 1, sizeof(*args));
	if (!given || !args)
		return usage_error("out of memory");
	code = parse(&p, argc, argv);
	if (code == EXIT_OK)
		code = act(&p);
	else if (p.verb && p.verb->has_command)
		code = EXIT_NOT_RUN; /* 2 could be the command's own */
	/* An answer that could not be written (full disk, closed pipe) is no answer. */
	if ((fflush(stdout) != 0 || ferror(stdout)) && code == EXIT_OK) {
		screen_error("cannot write the answer: %m");
		code = EXIT_FAILED;
	}
	return code;
}
