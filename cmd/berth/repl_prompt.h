/* Lines that somebody types, with editing and a history on a terminal, or that come by a pipe. */
#ifndef BERTH_CMD_REPL_PROMPT_H
#define BERTH_CMD_REPL_PROMPT_H

#include <stdbool.h>

#include "base/buf.h"

struct prompt;

/* `history` is a file; NULL: none is kept. NULL: out of memory. */
struct prompt *prompt_new(const char *history);
/* Keeps the history. */
void prompt_free(struct prompt *prompt);

bool prompt_is_terminal(const struct prompt *prompt);

/*
 * One line with its end, appended. 1; 0: there are no more; -EINTR: Ctrl-C; -EMSGSIZE: all is too
 * long.
 */
int prompt_read(struct prompt *prompt, const char *mark, struct buf *out);

#endif
