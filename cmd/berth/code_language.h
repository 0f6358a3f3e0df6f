/* In which language a piece of code is written, as far as it tells. */
#ifndef BERTH_CMD_CODE_LANGUAGE_H
#define BERTH_CMD_CODE_LANGUAGE_H

#include "base/str.h"

/* By the ending of the file's name, else by the #! line. NULL: it tells none that we know. */
const char *code_language_told(const char *file, struct str code);

/*
 * By the ending of the file's name, else by the #! line, else Python; `file` is NULL for standard
 * input. NULL: it names what we do not know, and that was said.
 */
const char *code_language(const char *file, struct str code);

#endif
