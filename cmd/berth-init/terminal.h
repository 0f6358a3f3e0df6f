/*
 * The pty of one exec, as its supervisor holds it: what comes by the exec's stdin pipe goes to the
 * program, what the program prints goes to its stdout pipe. Nothing here waits, and nothing is
 * dropped: what one side cannot take stays with the other, and at last with whoever writes.
 */
#ifndef BERTH_INIT_TERMINAL_H
#define BERTH_INIT_TERMINAL_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

#include "cmd/berth-init/launch.h"

#define TERMINAL_POLLS 3

struct terminal_flow {
	size_t at, len; /* of what is still to be written */
	char bytes[16 * 1024];
};

struct terminal {
	int master;
	int slave; /* held too: without any the master would be hung up, and never be still */
	int input, output; /* the pipes; -1: nothing more comes, or nobody reads */
	size_t last;       /* bytes that may still be moved after the program's end */
	struct terminal_flow in, out;
};

/* Takes the pipes of `launch`, and puts the slave in their place. 0 or a negative errno. */
int terminal_open(struct terminal *terminal, struct launch *launch);
void terminal_close(struct terminal *terminal);

/* What it waits for. */
void terminal_poll(const struct terminal *terminal, struct pollfd ready[TERMINAL_POLLS]);
/* Moves what can be moved now. */
void terminal_pump(struct terminal *terminal);
/*
 * The same, after the program's end. True: all that it printed has been handed on. Survivors may
 * print for ever, so this comes after as much as a pty can hold, too.
 */
bool terminal_pump_last(struct terminal *terminal);

/* As when the line is lost; but its master stays, so that last words are heard. */
void terminal_hang_up(const struct terminal *terminal, pid_t leader);

void terminal_resize(struct terminal *terminal, uint32_t cols, uint32_t rows);

#endif
