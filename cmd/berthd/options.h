/* The command line of berthd. It only parses: nothing is printed and nothing is exited here. */
#ifndef BERTH_CMD_BERTHD_OPTIONS_H
#define BERTH_CMD_BERTHD_OPTIONS_H

#include <stdio.h>

#include "base/err.h"
#include "daemon/config.h"

enum options_action { OPTIONS_RUN, OPTIONS_HELP, OPTIONS_VERSION };

/*
 * The settings from the flags and, if --config names one, from the file below them; complete and
 * checked when the action is OPTIONS_RUN. ERR_INVALID_REQUEST is a mistake in the flags themselves.
 */
int options_parse(int argc, char **argv, struct config *ret, enum options_action *action,
		  struct err *err);

void options_print_help(FILE *out);

struct option_row {
	const char *name;  /* without its dashes */
	int id;            /* the enum config_setting that it sets, or above all of them */
	const char *value; /* what the help calls it; NULL for a flag without one */
	const char *help;
	const char *letter; /* "-h": the same in short; NULL: none */
};

/* The table of flags, row by row; NULL behind the last. */
const struct option_row *options_row(size_t i);

/*
 * For SIGHUP: reads the file again and the flags over it, and brings `running` up to date. On
 * failure it is left as it was. `ret_stale` is config_apply()'s answer. Relative paths need the
 * current directory of the first parse.
 */
int options_reload(int argc, char **argv, struct config *running, unsigned *ret_stale,
		   struct err *err);

#endif
