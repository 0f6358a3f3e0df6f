/* Viewing a terminal of a sandbox on our own: what `berth shell` and `berth attach` share. */
#ifndef BERTH_CMD_VIEW_H
#define BERTH_CMD_VIEW_H

#include <stdbool.h>

#include "cmd/berth/keyboard.h"
#include "cmd/berth/verb.h"

#define VIEW_DETACH_FLAG                                                                           \
	{                                                                                          \
		.name = "--detach-keys", .value = "KEYS", .may_be_empty = true,                    \
		.summary = "leave it running (" KEYBOARD_USUAL "); \"\": none"                     \
	}

struct view {
	const struct globals *globals;
	const char *id, *terminal;
	bool is_new; /* from its first byte; else its recent screen, and it is asked to paint anew
		      */
	struct keyboard keyboard;
};

/* Is there a terminal to view it on? EXIT_OK, or EXIT_NOT_RUN and why not. */
int view_init(struct view *view, const struct globals *globals, const char *keys);

/* The size of ours. */
void view_size(unsigned *ret_cols, unsigned *ret_rows);

/* The exit code: the program's, 0 if it was left, else EXIT_NOT_RUN or 128 and a signal. */
int view_run(struct view *view);

#endif
