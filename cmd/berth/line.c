#include "cmd/berth/line.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/berth/screen.h"

#define ANSWER_TIMEOUT_MS 5000

/* clang-format off */
const struct flag global_flags[] = {
	[GLOBAL_JSON]      = { "--json",      NULL,   "print JSON" },
	[GLOBAL_SOCKET]    = { "--socket",    "PATH", "the daemon's Unix socket (RUN/berthd/api.sock)" },
	[GLOBAL_STATE_DIR] = { "--state-dir", "DIR",  "what the daemon keeps, if not the default" },
	[GLOBAL_RUN_DIR]   = { "--run-dir",   "DIR",  "its sockets, gone with a reboot" },
	[GLOBAL_URL]       = { "--url",       "URL",  "a daemon on the network, http://HOST:PORT" },
	[GLOBAL_HELP]      = { "--help",      NULL,   "explain berth, or the verb", "-h" },
	[GLOBAL_VERSION]   = { "--version",   NULL,   "print berth's version" },
	{ NULL },
};
/* clang-format on */

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

const struct flag *line_flag(const struct line *line, const char *name, size_t len)
{
	const struct flag *own = line->verb ? line->verb->flags : NULL;
	int i = flag_index(own, name, len);

	if (i >= 0)
		return &own[i];
	i = flag_index(global_flags, name, len);
	return i >= 0 ? &global_flags[i] : NULL;
}

/* Takes argv[*at], and the value behind it if it wants one. EXIT_OK or EXIT_USAGE. */
static int parse_flag(struct line *line, char **argv, int *at)
{
	const char *name = argv[*at], *equals = strchr(name, '='), **slot;
	size_t len = equals ? (size_t)(equals - name) : strlen(name);
	const struct flag *flags = line->verb ? line->verb->flags : NULL;
	int i = flag_index(flags, name, len);

	if (i >= 0) {
		slot = &line->call.values[i];
	} else {
		flags = global_flags;
		i = flag_index(flags, name, len);
		if (i < 0)
			return unknown_flag(name, len, line->verb);
		slot = &line->globals[i];
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
	else if (!equals)
		line->wanting = &flags[i];
	if (!*slot || (!**slot && !flags[i].may_be_empty))
		return usage_error("`%s` wants a value: %s %s", flags[i].name, flags[i].name,
				   flags[i].value);
	if (flags != global_flags)
		line->call.given[line->call.given_count++] = (struct given){(size_t)i, *slot};
	return EXIT_OK;
}

static int parse_word(struct line *line, const char *word)
{
	struct screen_text shown = screen_text(str_of(word));

	if (!line->verb) {
		const char *nearest = nearest_verb(word);

		line->verb = verb_find(word);
		if (line->verb)
			return EXIT_OK;
		if (nearest)
			return usage_error("there is no verb `%s`; did you mean `%s`?", shown.text,
					   nearest);
		return usage_error("there is no verb `%s`; `berth help` lists them", shown.text);
	}
	if (line->call.arg_count == line->verb->arg_max)
		return usage_error("berth %s does not know what to do with `%s`", line->verb->name,
				   shown.text);
	line->call.args[line->call.arg_count++] = word;
	return EXIT_OK;
}

/* Does the command of a verb that has one begin here? */
static bool is_command(const struct line *line, const char *word)
{
	if (!line->verb || !line->verb->has_command || line->call.arg_count < line->verb->arg_max)
		return false;
	return line->flags_over || word[0] != '-' || !word[1];
}

int line_init(struct line *line, int argc)
{
	*line = (struct line){0};
	line->call.given = calloc((size_t)argc + 1, sizeof(*line->call.given));
	line->call.args = calloc((size_t)argc + 1, sizeof(*line->call.args));
	if (line->call.given && line->call.args)
		return 0;
	line_close(line);
	return -ENOMEM;
}

void line_close(struct line *line)
{
	free(line->call.given);
	free(line->call.args);
	line->call.given = NULL;
	line->call.args = NULL;
}

int line_parse(struct line *line, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		int code;

		if (!line->flags_over && strcmp(argv[i], "--") == 0) {
			line->flags_over = true;
			continue;
		}
		if (is_command(line, argv[i])) {
			line->call.command = argv + i;
			line->call.command_len = (size_t)(argc - i);
			return EXIT_OK;
		}
		if (!line->flags_over && argv[i][0] == '-' && argv[i][1])
			code = parse_flag(line, argv, &i);
		else
			code = parse_word(line, argv[i]);
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
int line_globals(const struct line *line, struct globals *ret)
{
	const char *socket = line->globals[GLOBAL_SOCKET], *url = line->globals[GLOBAL_URL];

	*ret = (struct globals){
		.json = line->globals[GLOBAL_JSON],
		.state_dir = line->globals[GLOBAL_STATE_DIR],
		.run_dir = line->globals[GLOBAL_RUN_DIR],
		.token = environment("BERTH_TOKEN"),
		.timeout_ms = ANSWER_TIMEOUT_MS,
	};
	if (socket && url)
		return usage_error("--socket and --url exclude each other");
	if (!socket && !url && !ret->state_dir && !ret->run_dir) {
		socket = environment("BERTH_SOCKET");
		url = environment("BERTH_URL");
		if (socket && url)
			return usage_error("BERTH_SOCKET and BERTH_URL are both set: unset one, or "
					   "use --socket or --url");
	}
	ret->socket = socket;
	ret->url = url;
	return EXIT_OK;
}
