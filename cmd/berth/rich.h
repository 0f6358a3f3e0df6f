/*
 * What a piece of code has to show: text, and pictures, which a terminal that can shows inline, and
 * which are files else. All of it is the word of code that nobody trusts.
 */
#ifndef BERTH_CMD_RICH_H
#define BERTH_CMD_RICH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "proto/json.h"

/* In as many forms as it has; "": none. */
struct rich {
	struct str text, html, markdown, svg, latex;
	struct str png, jpeg;   /* base64 */
	struct str json, chart; /* JSON text */
};

extern const struct json_field rich_fields[];

/* Where a picture can be shown. */
enum rich_terminal { RICH_NONE, RICH_KITTY, RICH_ITERM };

/* What this terminal can do, by its names in the environment; none if stdout is no terminal. */
enum rich_terminal rich_terminal(void);

struct rich_place {
	enum rich_terminal terminal;
	const char *save; /* a directory for all that can be a file; NULL: only what cannot be
			   * shown, into the current one */
	int interrupt_fd;
	/* What is in the current one so far, of which there is an end; 0 at first. */
	unsigned files;
	size_t bytes;
	bool is_full;
};

/* 0; -EINTR, -EPIPE; or another failure of ours, and a sentence was said. */
int rich_show(struct rich_place *place, const struct rich *rich);

#endif
