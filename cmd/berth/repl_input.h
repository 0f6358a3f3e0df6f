/*
 * When a piece of code that is typed line by line is over. Not a parser: brackets, texts, comments
 * and JavaScript's regular expressions are told apart; bash is told by repl_bash.h.
 */
#ifndef BERTH_CMD_REPL_INPUT_H
#define BERTH_CMD_REPL_INPUT_H

#include <stdbool.h>

#include "base/str.h"
#include "proto/kernel.h"

/*
 * Could it go on? All lines so far, each with its new line. A block of Python goes on until an
 * empty line, whatever opens something until that is closed, and a backslash at its end takes the
 * next line.
 */
bool repl_goes_on(enum kernel_language language, struct str text);

#endif
