/*
 * The fifo by which those inside say that they are busy: whoever writes to it, whatever it is. What
 * comes is dropped; that something came is told, once a second at most.
 */
#ifndef BERTH_INIT_HEARTBEAT_H
#define BERTH_INIT_HEARTBEAT_H

#include <stdbool.h>
#include <stdint.h>

struct heartbeat {
	int fd;      /* -1: there is none, and all else works */
	bool is_due; /* something came, and was not told yet */
	uint64_t next_ms;
};

/* Makes the fifo, before anything of the sandbox runs. */
void heartbeat_init(struct heartbeat *heartbeat);

/* Takes some of what is there. False: nothing will ever come again. */
bool heartbeat_read(struct heartbeat *heartbeat);

/* Until it may be told; 0: now, -1: there is nothing to tell. */
int heartbeat_wait_ms(const struct heartbeat *heartbeat);
void heartbeat_told(struct heartbeat *heartbeat);

#endif
