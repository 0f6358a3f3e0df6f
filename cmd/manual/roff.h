/*
 * A manual page on standard output, in the macros of man(7). Text comes as it stands in the tables
 * of help: words between backquotes are set bold, an empty line begins a paragraph.
 */
#ifndef BERTH_CMD_MANUAL_ROFF_H
#define BERTH_CMD_MANUAL_ROFF_H

#include "cmd/example.h"

/* "BERTH", "1", and what stands behind the name. */
void roff_begin(const char *name, const char *section, const char *summary);
void roff_section(const char *title);
void roff_subsection(const char *title);

/* One line in bold, for commands and flags as they are typed. */
void roff_command(const char *line);
void roff_text(const char *text);

/* Between texts; a section begins with one by itself. */
void roff_paragraph(void);

/* A bold tag, and what it means beside it. */
void roff_item(const char *tag, const char *meaning);

/* "-e, --env NAME=VALUE"; letter and value may be NULL. */
void roff_flag(const char *letter, const char *name, const char *value, const char *meaning);
void roff_table(const char *title, const struct example *rows);

/* 0, or 1 with a sentence if the page could not be written; for main() to return. */
int roff_end(void);

#endif
