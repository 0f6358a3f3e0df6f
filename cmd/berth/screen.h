/*
 * What a person sees: aligned rows and a little colour, only on a terminal and not with NO_COLOR.
 * Text that comes from outside goes through screen_text(), so that it cannot steer the terminal.
 */
#ifndef BERTH_CMD_SCREEN_H
#define BERTH_CMD_SCREEN_H

#include <stdbool.h>
#include <stdio.h>

#include "base/str.h"

enum tint { TINT_NONE, TINT_GOOD, TINT_WARN, TINT_BAD, TINT_DIM };

/* "\033[32m" and the like, or "" where colours are not wanted. */
const char *screen_tint(FILE *file, enum tint tint);

struct screen_text {
	char text[512];
};

/* Control characters become '?'; cut with "..." if it is long. */
struct screen_text screen_text(struct str s);

/* "  name      value" */
__attribute__((format(printf, 2, 3))) void screen_row(const char *name, const char *format, ...);

/* "15.6 GiB" */
struct screen_text screen_bytes(unsigned long long bytes);

/* "3 d 4 h", "12 min 5 s" */
struct screen_text screen_duration(unsigned long long ms);

/* "berth: <sentence>" on stderr. */
__attribute__((format(printf, 1, 2))) void screen_error(const char *format, ...);

#endif
