/* Lines of a process's output: to be looked through for a pattern, and the last of them. */
#ifndef BERTH_DAEMON_PROCESS_LINES_H
#define BERTH_DAEMON_PROCESS_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "daemon/journal.h"
#include "proto/json.h"
#include "proto/pattern.h"

#define LINE_MAX_BYTES 8192 /* of a line that are looked at */

/* One stream's line under way. */
struct line_search {
	struct pattern_search *search;
	char bytes[LINE_MAX_BYTES];
	size_t len;
	bool is_found;
};

/* -ENOMEM. */
int line_search_open(struct line_search *l, const struct pattern *pattern);
void line_search_close(struct line_search *l);
/*
 * Takes bytes from the front of `bytes`, up to the end of a line in which the pattern is. True: it
 * is in the line, which line_search_write() tells; also when the line is not complete.
 */
bool line_search_feed(struct line_search *l, struct str *bytes);
/* There will be no more: is it in what is there? */
bool line_search_end(struct line_search *l);
/* `text` and `match`, into an object. */
void line_search_write(const struct line_search *l, struct json_writer *w);

/* An array of the last lines, of both streams. */
void process_lines_write_last(struct journal *journal, struct json_writer *w);

#endif
