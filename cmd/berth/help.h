/* Help is printed from the tables of verb.h and of this, and so is the manual page; nothing about a
 * verb is written down twice. */
#ifndef BERTH_CMD_HELP_H
#define BERTH_CMD_HELP_H

#include "cmd/berth/verb.h"

/* Tables end with a line of NULL. */
extern const char help_about[];
extern const struct example help_examples[];
extern const struct example help_environment[];
extern const struct example help_exit_codes[];

void help_print(void);
void help_print_verb(const struct verb *verb);

#endif
