/* Prints berth(1), from the tables that `berth --help` is printed from. */
#include <stdio.h>

#include "cmd/berth/help.h"
#include "cmd/manual/roff.h"
#include "cmd/places.h"

static void put_flags(const struct flag *flags)
{
	for (size_t i = 0; flags && flags[i].name; i++)
		roff_flag(flags[i].letter, flags[i].name, flags[i].value, flags[i].summary);
}

static void put_verb(const struct verb *verb)
{
	char usage[256];

	roff_subsection(verb->name);
	snprintf(usage, sizeof(usage), "berth %s%s%s%s", verb->name, verb->flags ? " [FLAGS]" : "",
		 *verb->arguments ? " " : "", verb->arguments);
	roff_command(usage);
	roff_paragraph();
	roff_text(verb->description);
	put_flags(verb->flags);
	if (verb->exit_codes) {
		roff_paragraph();
		roff_text("Exit codes:");
	}
	for (size_t i = 0; verb->exit_codes && verb->exit_codes[i].line; i++)
		roff_item(verb->exit_codes[i].line, verb->exit_codes[i].meaning);
	roff_paragraph();
	roff_text("Examples:");
	for (size_t i = 0; verb->examples[i].line; i++)
		roff_item(verb->examples[i].line, verb->examples[i].meaning);
}

int main(void)
{
	roff_begin("BERTH", "1", "run commands in sandboxes and keep them");
	roff_section("SYNOPSIS");
	roff_command("berth [FLAGS] VERB [FLAGS]");
	roff_section("DESCRIPTION");
	roff_text(help_about);
	roff_section("VERBS");
	for (size_t i = 0; verbs[i]; i++)
		roff_item(verbs[i]->name, verbs[i]->summary);
	roff_section("FLAGS FOR EVERY VERB");
	put_flags(global_flags);
	roff_section("THE VERBS ONE BY ONE");
	for (size_t i = 0; verbs[i]; i++)
		put_verb(verbs[i]);
	roff_table("EXAMPLES", help_examples);
	roff_table("ENVIRONMENT", help_environment);
	roff_table("FILES", places_table);
	roff_table("EXIT STATUS", help_exit_codes);
	roff_section("SEE ALSO");
	roff_command("berthd(8)");
	return roff_end();
}
