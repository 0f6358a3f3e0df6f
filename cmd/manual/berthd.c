/*
 * Prints berthd(8), or with the name of a file the completion of berthd for bash, of which that
 * file is the end. Both come from the tables that `berthd --help` is printed from.
 */
#include <assert.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cmd/berthd/help.h"
#include "cmd/berthd/options.h"
#include "cmd/manual/roff.h"
#include "cmd/places.h"
#include "cmd/value.h"

static void put_flags(void)
{
	const struct option_row *row;

	for (size_t i = 0; (row = options_row(i)); i++) {
		char name[64];

		snprintf(name, sizeof(name), "--%s", row->name);
		roff_flag(row->letter, name, row->value, row->help);
	}
}

/* Every field that the file may have: those of flags, and those that stand only there. */
static void put_settings(void)
{
	const struct option_row *row;
	size_t count = 0;

	for (size_t i = 0; (row = options_row(i)); i++) {
		char as[64];

		if (row->id >= CONFIG_SETTING_COUNT)
			continue;
		snprintf(as, sizeof(as), "as `--%s`", row->name);
		roff_item(config_setting_name((enum config_setting)row->id), as);
		count++;
	}
	for (size_t i = 0; help_settings[i].setting != CONFIG_SETTING_COUNT; i++) {
		roff_item(config_setting_name(help_settings[i].setting), help_settings[i].meaning);
		count++;
	}
	/* A setting with neither a flag nor a line in help.c would be nowhere explained. */
	assert(count == CONFIG_SETTING_COUNT);
}

static int print_page(void)
{
	roff_begin("BERTHD", "8", "the daemon that keeps sandboxes");
	roff_section("SYNOPSIS");
	roff_command("berthd [FLAGS]");
	roff_section("DESCRIPTION");
	roff_text(help_about);
	roff_section("FLAGS");
	put_flags();
	roff_section("CONFIGURATION FILE");
	roff_text(
		"One JSON object. A flag outranks its field; a field that is not known, or of the "
		"wrong kind, is an error.");
	put_settings();
	roff_table("EXAMPLES", help_examples);
	roff_table("SIGNALS", help_signals);
	roff_table("ENVIRONMENT", help_environment);
	roff_table("FILES", places_table);
	roff_table("EXIT STATUS", help_exit_codes);
	roff_section("SEE ALSO");
	roff_command("berth(1)");
	return roff_end();
}

/* What bash is to offer; the words are those of completion.sh. */
static const char *kind_word(enum value_kind kind)
{
	switch (kind) {
	case VALUE_FILE:
		return "files";
	case VALUE_DIR:
		return "dirs";
	case VALUE_USER:
		return "users";
	case VALUE_GROUP:
		return "groups";
	case VALUE_LEVEL:
		return "levels";
	default:
		return "any";
	}
}

static void print_tables(void)
{
	const struct option_row *row;

	printf("# Completion of `berthd` for bash, made from its table of "
	       "flags.\n\n_berthd_flags='");
	for (size_t i = 0; (row = options_row(i)); i++)
		printf("%s--%s%s%s", i ? " " : "", row->name, row->letter ? " " : "",
		       row->letter ? row->letter : "");
	printf("'\n_berthd_levels='");
	for (size_t i = 0; log_level_name(i); i++)
		printf("%s%s", i ? " " : "", log_level_name(i));
	printf("'\n\n# Sets `kind`: what is wanted behind this flag; empty: nothing.\n"
	       "_berthd_kind() {\n\tcase $1 in\n");
	for (size_t i = 0; (row = options_row(i)); i++)
		if (row->value)
			printf("\t--%s) kind=%s ;;\n", row->name,
			       kind_word(value_kind_of(str_of(row->value))));
	printf("\t*) kind= ;;\n\tesac\n}\n\n");
}

static int print_completion(const char *end_path)
{
	cleanup_file FILE *end = fopen(end_path, "re");
	int c;

	if (!end) {
		perror(end_path);
		return 1;
	}
	print_tables();
	while ((c = getc(end)) != EOF)
		putchar(c);
	return roff_end();
}

int main(int argc, char **argv)
{
	return argc > 1 ? print_completion(argv[1]) : print_page();
}
