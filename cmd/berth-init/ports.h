/* Servers inside: who connects to them for berthd, and where there are any. Nothing here waits. */
#ifndef BERTH_INIT_PORTS_H
#define BERTH_INIT_PORTS_H

#include <stddef.h>
#include <stdint.h>

/*
 * A socket to 127.0.0.1, or to ::1 if nobody listens there; a negative errno. On the loopback both
 * ends have spoken by the time that connect() returns, so this is known at once; one whose server
 * has no room for it now is still on its way.
 */
int ports_connect(uint16_t port);

/*
 * On which ports somebody listens that such a socket reaches: how many, at most AGENT_PORTS_MAX, as
 * struct agent_listening has them. `room` is for reading: no more of each table is looked at.
 */
size_t ports_listening(int proc_fd, char *room, size_t size, char *ret_ports);

#endif
