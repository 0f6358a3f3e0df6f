/*
 * Text of any length that comes from a sandbox. Whoever wrote it may want to steer the terminal: on
 * one, control characters but new lines and tabs become \xNN; into files and pipes it goes as it
 * is.
 */
#ifndef BERTH_CMD_PLAIN_H
#define BERTH_CMD_PLAIN_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"

/* Appends it as a terminal may be given it. */
int plain_append(struct buf *out, struct str text);

/* Writes it, and a new line behind it if it has none, as `fd` may have it; as command_pass_on(). */
int plain_print(int interrupt_fd, int fd, struct str text);

#endif
