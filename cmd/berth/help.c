#include "cmd/berth/help.h"

#include <stdio.h>
#include <string.h>

#include "cmd/berth/screen.h"
#include "cmd/places.h"

#define NAME_WIDTH 22

const char help_about[] =
	"Berth keeps sandboxes: one container for each ID, started on first use, put to\n"
	"sleep when idle. `berth` talks to the daemon, berthd.";

/* clang-format off */
const struct example help_examples[] = {
	{ "berth run --rm -- python3 -c 'print(6 * 7)'", "one command in a sandbox of its own" },
	{ "berth exec web -- ls -l", "in the sandbox `web`, which is made if need be" },
	{ "berth cp -r ./src web:", "files into it, and out with `berth cp -r web:src .`" },
	{ "berth doctor", "what this machine can and cannot do, and how to mend it" },
	{ "berth up",     "start the daemon in the background" },
	{ "berth info",   "what the running daemon offers" },
	{ "berth --json info | jq .runtime", "the same for programs" },
	{ "berth down",   "stop it" },
	{ NULL },
};

const struct example help_exit_codes[] = {
	{ "0", "done" },
	{ "1", "it failed; a sentence on stderr says why" },
	{ "2", "the command line was wrong" },
	{ "3", "no daemon answers" },
	{ "125", "of run, exec, debug, wait, shell, attach: for 1, 2 and 3; others are the command's own" },
	{ "125 ...", "of code, repl, runs wait: as `berth help code` lists them" },
	{ NULL },
};

const struct example help_environment[] = {
	{ "BERTH_SOCKET", "as --socket" },
	{ "BERTH_URL",    "as --url" },
	{ "BERTH_TOKEN",  "the token that is sent to --url" },
	{ "NO_COLOR",     "if not empty: no colours" },
	{ NULL },
};
/* clang-format on */

static void print_pair(const char *left, const char *right)
{
	/* A left side that is too wide for the column gets a line of its own. */
	if (strlen(left) >= NAME_WIDTH)
		printf("  %s\n  %-*s %s\n", left, NAME_WIDTH, "", right);
	else
		printf("  %-*s %s\n", NAME_WIDTH, left, right);
}

static void print_flags(const struct flag *flags)
{
	for (size_t i = 0; flags[i].name; i++) {
		char left[64];

		snprintf(left, sizeof(left), "%s%s%s%s%s", flags[i].letter ? flags[i].letter : "",
			 flags[i].letter ? ", " : "", flags[i].name, flags[i].value ? " " : "",
			 flags[i].value ? flags[i].value : "");
		print_pair(left, flags[i].summary);
	}
}

static void print_examples(const char *title, const struct example *list)
{
	printf("\n%s:\n", title);
	for (size_t i = 0; list[i].line; i++)
		print_pair(list[i].line, list[i].meaning);
}

void help_print(void)
{
	printf("Usage: berth [FLAGS] VERB [FLAGS]\n\n%s\n\nVerbs:\n", help_about);
	for (size_t i = 0; verbs[i]; i++)
		print_pair(verbs[i]->name, verbs[i]->summary);
	printf("\nFlags for every verb:\n");
	print_flags(global_flags);
	print_examples("Examples", help_examples);
	print_examples("Environment", help_environment);
	print_examples("Files", places_table);
	print_examples("Exit codes", help_exit_codes);
}

void help_print_verb(const struct verb *verb)
{
	printf("Usage: berth %s%s%s%s\n\n%s\n", verb->name, verb->flags ? " [FLAGS]" : "",
	       *verb->arguments ? " " : "", verb->arguments, verb->description);
	if (verb->flags) {
		printf("\nFlags:\n");
		print_flags(verb->flags);
	}
	printf("\nFlags for every verb:\n");
	print_flags(global_flags);
	if (verb->exit_codes)
		print_examples("Exit codes", verb->exit_codes);
	print_examples("Examples", verb->examples);
}

static int run(const struct call *call)
{
	const struct verb *verb;
	const char *nearest;

	if (call->arg_count == 0) {
		help_print();
		return EXIT_OK;
	}
	verb = verb_find(call->args[0]);
	if (verb) {
		help_print_verb(verb);
		return EXIT_OK;
	}
	nearest = nearest_verb(call->args[0]);
	if (nearest)
		return usage_error("there is no verb `%s`; did you mean `%s`?",
				   screen_text(str_of(call->args[0])).text, nearest);
	return usage_error("there is no verb `%s`; `berth help` lists them",
			   screen_text(str_of(call->args[0])).text);
}

/* clang-format off */
static const struct example verb_examples[] = {
	{ "berth help",    "all verbs" },
	{ "berth help up", "the flags of one, as `berth up --help`" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_help = {
	.name = "help",
	.summary = "explain berth or one of its verbs",
	.arguments = "[VERB]",
	.arg_max = 1,
	.description = "Prints what berth can do, or all about one verb.",
	.examples = verb_examples,
	.run = run,
};
