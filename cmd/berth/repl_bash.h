/* Whether what was typed is a whole command of bash, as bash itself would have it. */
#ifndef BERTH_CMD_REPL_BASH_H
#define BERTH_CMD_REPL_BASH_H

#include <stdbool.h>

#include "base/str.h"

/* True: more has to follow. What is wrong is over: bash itself says best what is wrong with it. */
bool repl_bash_goes_on(struct str text);

#endif
