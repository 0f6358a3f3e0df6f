/*
 * A TCP connection to a port inside a running sandbox: init connects (to 127.0.0.1, else to ::1)
 * and hands the socket out. Nobody else ever enters the sandbox's network.
 *
 * Init answers at once or is of no use: one that does not is found out by vigil.h as whenever it is
 * waited for, so nothing here has a time limit.
 */
#ifndef BERTH_DAEMON_PORT_CONNECT_H
#define BERTH_DAEMON_PORT_CONNECT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "daemon/agent.h"

struct sandbox;

#define PORT_CONNECTS_MAX  1024            /* asked for and not answered, of one sandbox */
#define PORT_LISTENING_MAX AGENT_PORTS_MAX /* ports that are told */

/* Ports that somebody listens on, in order and each once. */
struct port_listening {
	uint16_t ports[PORT_LISTENING_MAX];
	size_t len;
};

/*
 * Belongs to who asks, and to port_connect.c until `done` or port_connect_cancel(). Whoever asks
 * sets `done` first; a zeroed one may be cancelled.
 */
struct port_connect {
	struct list link;
	struct sandbox *sb; /* NULL: nothing is asked */
	uint32_t tag;
	bool is_list;
	/*
	 * Of port_connect(): `result` is a TCP socket, CLOEXEC and non-blocking, checked to be one,
	 * now the callee's; it may still be on its way (EINPROGRESS), which getsockopt(SO_ERROR)
	 * tells when it is writable. Its open file is init's, too, which may do anything to it:
	 * no call on it may trust that it does not wait (MSG_DONTWAIT), nor that it does not
	 * linger: see port_connect_close(). `listening` is NULL.
	 *
	 * Of port_list(): `result` is 0, and `listening` is lent.
	 *
	 * Or `result` is a negative errno: -ECONNREFUSED (nobody listens), others as connect(2),
	 * -EMFILE (berthd has no descriptor left), -ECONNRESET (init is gone), -EPROTO (init gave
	 * something else).
	 */
	void (*done)(struct port_connect *c, int result, const struct port_listening *listening);
};

/*
 * `done` follows once, never before this returns. -errno: it cannot even be asked. -EAGAIN: it does
 * not run, or too many ask; -EPROTONOSUPPORT: its init is of an older berthd and knows nothing of
 * ports, until it was stopped and started again; else as agent_send().
 */
int port_connect(struct sandbox *sb, struct port_connect *c, uint16_t port);
/* The question which ports somebody listens on, so that port_connect() reaches them. */
int port_list(struct sandbox *sb, struct port_connect *c);
/* One that was not answered is not any more; an answer that comes later is closed. */
void port_connect_cancel(struct port_connect *c);

/* Of a socket that `done` was given: never waits for its peer, whatever init has set. */
void port_connect_close(int fd);

/* For the sandbox: init has answered; nobody will answer any more. */
void port_connect_answered(struct sandbox *sb, const struct agent_event *event);
void port_connect_lose_all(struct sandbox *sb);

#endif
