/* How far bytes have come: a line on stderr that is drawn anew, only if that is a terminal. */
#ifndef BERTH_CMD_PROGRESS_H
#define BERTH_CMD_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct progress {
	bool is_wanted; /* there is a terminal */
	bool is_drawn;
	const char *name;
	uint64_t done, total; /* total 0: not known */
	uint64_t started_ms, drawn_ms;
};

/* Shows nothing until progress_start(). */
void progress_init(struct progress *p);
void progress_start(struct progress *p, const char *name, uint64_t total);
void progress_add(struct progress *p, size_t bytes);

/* Takes the line away. */
void progress_end(struct progress *p);

#endif
