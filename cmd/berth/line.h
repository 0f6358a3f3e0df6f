/*
 * A command line, taken apart before anything is done. The words stay the caller's and must outlive
 * it.
 */
#ifndef BERTH_CMD_LINE_H
#define BERTH_CMD_LINE_H

#include "cmd/berth/verb.h"

enum {
	GLOBAL_JSON,
	GLOBAL_SOCKET,
	GLOBAL_STATE_DIR,
	GLOBAL_RUN_DIR,
	GLOBAL_URL,
	GLOBAL_HELP,
	GLOBAL_VERSION,
	GLOBAL_COUNT,
};

struct line {
	const char *globals[GLOBAL_COUNT];
	const struct verb *verb;
	struct call call;
	bool flags_over;            /* a "--" was there */
	const struct flag *wanting; /* the last word was this flag, and its value is not there */
};

/* With room for `argc` words. -ENOMEM. */
int line_init(struct line *line, int argc);
void line_close(struct line *line);

/* EXIT_OK, or EXIT_USAGE with a sentence; what came before the mistake is there then. */
int line_parse(struct line *line, int argc, char **argv);

/* The flag of this name that the verb has, or that all have; NULL: none. */
const struct flag *line_flag(const struct line *line, const char *name, size_t len);

/* What holds for every verb, from the line and the environment. EXIT_OK or EXIT_USAGE. */
int line_globals(const struct line *line, struct globals *ret);

#endif
