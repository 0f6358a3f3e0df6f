/* Help is printed from the tables of verb.h; nothing about a verb is written down twice. */
#ifndef BERTH_CMD_HELP_H
#define BERTH_CMD_HELP_H

#include "cmd/berth/verb.h"

void help_print(void);
void help_print_verb(const struct verb *verb);

#endif
