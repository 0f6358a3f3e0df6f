#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth/code.h"
#include "cmd/berth/repl_input.h"
#include "cmd/berth/repl_prompt.h"
#include "cmd/berth/sandbox.h"
#include "cmd/berth/screen.h"
#include "cmd/berth/session.h"

#define SAVED_MAX (64 * 1024 * 1024)

enum { REPL_LANG, REPL_CONTEXT, REPL_SAVE };

struct repl {
	struct code_call call;
	enum kernel_language language;
	struct code_context named;      /* --context; its ID is NULL: the language's own */
	char context[CODE_CONTEXT_MAX]; /* "": not known yet */
	struct prompt *prompt;
	struct buf piece; /* what is typed */
	struct buf sent;  /* all that was run */
	bool is_over;
	int code; /* the last that was not 0 */
};

/* --- pieces --- */

static bool is_blank(struct str code)
{
	for (size_t i = 0; i < code.len; i++) {
		if (!memchr(" \t\n", code.at[i], 3))
			return false;
	}
	return true;
}

static void send_piece(struct repl *repl, struct str code)
{
	int exit_code;

	if (is_blank(code))
		return;
	repl->call.code = code;
	exit_code = code_call(&repl->call);
	if (exit_code == EXIT_INTERRUPTED)
		fprintf(stderr, "\ninterrupted\n");
	if (exit_code != EXIT_OK)
		repl->code = exit_code;
	/* What is not kept for .save was too much to be typed. */
	(void)buf_append_str(&repl->sent, code);
	if (code.at[code.len - 1] != '\n')
		(void)buf_append(&repl->sent, "\n", 1);
}

/* --- commands --- */

static void do_help(struct repl *repl, const char *word);

static void do_exit(struct repl *repl, const char *word)
{
	repl->is_over = true;
}

/* Which context it is, is told by a call. */
static void do_reset(struct repl *repl, const char *word)
{
	struct code_call *call = &repl->call;

	if (!repl->named.id && !*repl->context) {
		call->code = STR("");
		if (code_call(call) != EXIT_OK)
			return;
	}
	if (!*repl->context ||
	    code_context_remove(call->globals, call->id, repl->context) != EXIT_OK)
		return;
	if (!repl->named.id)
		repl->context[0] = '\0';
	else if (code_context_new(call->globals, call->id, &repl->named, repl->context) != EXIT_OK)
		return;
	printf(repl->named.id ? "all that was defined is gone, with variables that it was made "
				"with\n"
			      : "all that was defined is gone\n");
}

static void do_save(struct repl *repl, const char *file)
{
	cleanup_fd int fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	const char *at = buf_at(&repl->sent);
	size_t left = buf_len(&repl->sent);

	while (fd >= 0 && left) {
		ssize_t n = write(fd, at, left);

		if (n < 0 && errno != EINTR)
			break;
		at += n > 0 ? n : 0;
		left -= n > 0 ? (size_t)n : 0;
	}
	if (fd < 0 || left)
		screen_error("cannot save to %s: %m", screen_text(str_of(file)).text);
	else
		printf("saved %s\n", screen_text(str_of(file)).text);
}

static void do_load(struct repl *repl, const char *file)
{
	cleanup_fd int fd = open(file, O_RDONLY | O_CLOEXEC);
	cleanup(buf_close) struct buf text;
	char *room = NULL;
	ssize_t n = fd < 0 ? -1 : 1;

	buf_init(&text, CODE_MAX);
	while (n > 0 && (room = buf_room(&text, 64 * 1024))) {
		n = read(fd, room, 64 * 1024);
		buf_added(&text, n > 0 ? (size_t)n : 0);
	}
	if (n < 0)
		screen_error("cannot read %s: %m", screen_text(str_of(file)).text);
	else if (n > 0)
		screen_error("%s is too long", screen_text(str_of(file)).text);
	else if (buf_len(&text))
		send_piece(repl, (struct str){buf_at(&text), buf_len(&text)});
}

static const struct command {
	const char *name, *value, *meaning;
	void (*act)(struct repl *repl, const char *word);
} commands[] = {
	{".help", NULL, "this", do_help},
	{".exit", NULL, "leave; so does Ctrl-D", do_exit},
	{".reset", NULL, "begin anew: all that was defined goes", do_reset},
	{".save", "FILE", "write what was run to a new file here", do_save},
	{".load", "FILE", "run a file of this machine", do_load},
};

static void do_help(struct repl *repl, const char *word)
{
	for (size_t i = 0; i < array_len(commands); i++)
		printf("%-6s %-5s %s\n", commands[i].name,
		       commands[i].value ? commands[i].value : "", commands[i].meaning);
	printf("%s",
	       repl->language == KERNEL_PYTHON
		       ? "A block goes on until an empty line, a bracket until it is closed.\n"
		       : "What is open, a bracket for example, goes on until it is closed.\n");
}

/* Is it one? A line that begins with a dot and a letter is no code of these languages. */
static bool do_command(struct repl *repl)
{
	char line[PATH_MAX + 16], *word, *value;
	size_t len = buf_len(&repl->piece);

	if (len < 2 || len >= sizeof(line) || buf_at(&repl->piece)[0] != '.' ||
	    buf_at(&repl->piece)[1] < 'a' || buf_at(&repl->piece)[1] > 'z')
		return false;
	memcpy(line, buf_at(&repl->piece), len);
	line[len] = '\0';
	line[strcspn(line, "\n")] = '\0';
	value = line;
	word = strsep(&value, " \t");
	value = value ? value + strspn(value, " \t") : value;
	for (size_t i = 0; i < array_len(commands); i++) {
		if (strcmp(word, commands[i].name) != 0)
			continue;
		if (commands[i].value && (!value || !*value))
			screen_error("%s wants a file: %s FILE", word, word);
		else
			commands[i].act(repl, value);
		return true;
	}
	screen_error("there is no `%s`; .help lists what there is", screen_text(str_of(word)).text);
	return true;
}

/* --- the loop --- */

static struct str typed(const struct repl *repl)
{
	return (struct str){buf_at(&repl->piece), buf_len(&repl->piece)};
}

static void take_line(struct repl *repl, bool is_first)
{
	if (is_first && do_command(repl)) {
		buf_consume(&repl->piece, buf_len(&repl->piece));
	} else if (!repl_goes_on(repl->language, typed(repl))) {
		send_piece(repl, typed(repl));
		buf_consume(&repl->piece, buf_len(&repl->piece));
	}
}

static void loop(struct repl *repl)
{
	bool is_terminal = prompt_is_terminal(repl->prompt);

	if (is_terminal)
		printf("%s in `%s`; .help tells what can be done\n",
		       kernel_language_name(repl->language), repl->call.id);
	while (!repl->is_over) {
		bool is_first = buf_len(&repl->piece) == 0;
		int r = prompt_read(repl->prompt, is_first ? ">>> " : "... ", &repl->piece);

		if (r > 0) {
			take_line(repl, is_first);
			continue;
		}
		if (r == -EMSGSIZE)
			screen_error("that is too long, and dropped");
		/* The end of what comes by a pipe ends its last piece, too. */
		if (r == 0 && buf_len(&repl->piece) && !is_terminal)
			send_piece(repl, typed(repl));
		if (is_terminal)
			printf("\n");
		buf_consume(&repl->piece, buf_len(&repl->piece));
		repl->is_over = r == 0;
	}
}

/* Made with the directories above it, which are nobody else's to read. NULL: there is no home. */
static char *history_file(enum kernel_language language)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	char *file = NULL;
	int n;

	if (state && *state == '/')
		n = asprintf(&file, "%s/berth/history-%s", state, kernel_language_name(language));
	else if (home && *home == '/')
		n = asprintf(&file, "%s/.local/state/berth/history-%s", home,
			     kernel_language_name(language));
	else
		return NULL;
	if (n < 0)
		return NULL;
	for (char *slash = strchr(file + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		(void)mkdir(file, 0700); /* if it cannot be, nothing is kept */
		*slash = '/';
	}
	return file;
}

/* Whoever names a context means its language. */
static int find_named(const struct call *call, struct repl *repl, struct arena *arena)
{
	const char *context = call->values[REPL_CONTEXT];
	int r = code_context_find(call->globals, call->args[0], context, arena, &repl->named);

	if (r != EXIT_OK)
		return r;
	if (call->values[REPL_LANG] &&
	    strcmp(repl->named.language, kernel_language_name(repl->language)) != 0) {
		screen_error("the context `%s` is of %s: leave out --lang", repl->named.id,
			     repl->named.language);
		return EXIT_NOT_RUN;
	}
	repl->language = (enum kernel_language)kernel_language_find(str_of(repl->named.language));
	snprintf(repl->context, sizeof(repl->context), "%s", repl->named.id);
	/* One of that name comes with the next code that names none, and cannot be made. */
	if (repl->named.is_default) {
		repl->named.id = NULL;
		return EXIT_OK;
	}
	repl->call.context = repl->named.id;
	repl->call.ret_context = NULL; /* it is known */
	return EXIT_OK;
}

static int talk(struct repl *repl)
{
	cleanup_free char *history = history_file(repl->language);

	repl->call.language = kernel_language_name(repl->language);
	repl->prompt = prompt_new(history);
	if (!repl->prompt)
		return EXIT_NOT_RUN;
	buf_init(&repl->piece, CODE_MAX);
	buf_init(&repl->sent, SAVED_MAX);
	loop(repl);
	buf_close(&repl->piece);
	buf_close(&repl->sent);
	/* On a terminal every failure was seen. */
	if (prompt_is_terminal(repl->prompt))
		repl->code = EXIT_OK;
	prompt_free(repl->prompt);
	return repl->code;
}

static int run(const struct call *call)
{
	const char *lang = call->values[REPL_LANG], *context = call->values[REPL_CONTEXT];
	int language = lang ? kernel_language_find(str_of(lang)) : KERNEL_PYTHON;
	struct repl repl = {
		.call = {.globals = call->globals, .save = call->values[REPL_SAVE]},
		.language = (enum kernel_language)language,
	};
	struct arena arena;
	struct err err;
	int code = EXIT_OK;

	if (call->arg_count == 0 || language < 0 || call->globals->json) {
		usage_error(call->arg_count == 0 ? "in which sandbox? berth repl ID"
			    : language < 0 ? "--lang wants python, javascript, typescript or bash"
					   : "a conversation is no JSON: see `berth code --json`");
		return EXIT_NOT_RUN;
	}
	if (context && (session_check(context, &err) < 0 || strlen(context) >= CODE_CONTEXT_MAX)) {
		usage_error("`%s` is no context's ID", screen_text(str_of(context)).text);
		return EXIT_NOT_RUN;
	}
	repl.call.id = call->args[0];
	repl.call.ret_context = repl.context;
	arena_init(&arena, SANDBOX_ARENA_MAX);
	if (context)
		code = find_named(call, &repl, &arena);
	if (code == EXIT_OK)
		code = talk(&repl);
	arena_close(&arena);
	return code;
}

/* clang-format off */
static const struct flag flags[] = {
	[REPL_LANG]    = { "--lang",    "LANGUAGE", "python (without it), javascript, typescript, bash; a context has its own", "-l" },
	[REPL_CONTEXT] = { "--context", "CONTEXT",  "in this context (the language's own)", "-c" },
	[REPL_SAVE]    = { "--save",    "DIR",      "what can be a file goes there, and pictures are not shown" },
	{ NULL },
};

static const struct example examples[] = {
	{ "berth repl box",              "Python, with what `berth code box` has defined" },
	{ "berth repl -l js box",        "JavaScript" },
	{ "berth repl box < lines.py",   "as if somebody typed it, without a prompt" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_repl = {
	.name = "repl",
	.summary = "type code into a live interpreter of a sandbox",
	.arguments = "ID",
	.arg_max = 1,
	.gives_code = true,
	.description =
		"Reads pieces of code line by line, runs each in a context of the sandbox as\n"
		"`berth code` does, and shows what comes of it. A piece goes on while a bracket, "
		"a\n"
		"text or a comment is open and behind a backslash at a line's end; in Python a\n"
		"block goes on until an empty line, in bash a command as in bash: until its if,\n"
		"for, while, case, {, heredoc and function are whole, and behind | && ||. Ctrl-C\n"
		"drops what is typed, or interrupts what runs; Ctrl-D or .exit leaves. `.help` "
		"lists\n"
		"what else there is. What was typed is kept in "
		"$XDG_STATE_HOME/berth/history-LANGUAGE\n"
		"(without the variable: ~/.local/state/berth).\n"
		"\n"
		"Without a terminal there is no prompt, and the exit code is that of the last "
		"piece\n"
		"that failed.",
	.flags = flags,
	.examples = examples,
	.exit_codes = code_exit_codes,
	.run = run,
};
