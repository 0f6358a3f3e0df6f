/*
 * A connection from berthd to a port inside a sandbox, and the few that are kept for the next
 * request. What comes over it is written inside and may be anything. Its open file is init's, too,
 * so no call here trusts the file's flags: each says by itself that it does not wait.
 *
 *	open ──> asking ──socket──> connecting ──> open <──> kept
 *	           └─────── established already ────^          │
 *	any of them ── upstream_close(), or kept and not as it should be ──> closed
 */
#ifndef BERTH_DAEMON_UPSTREAM_H
#define BERTH_DAEMON_UPSTREAM_H

#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

#include "base/err.h"
#include "base/str.h"
#include "daemon/sandbox.h"

struct port;
struct upstream;

#define UPSTREAM_IDLE_MAX   64    /* kept for one port */
#define UPSTREAM_IDLE_MS    30000 /* and for how long */
#define UPSTREAM_CONNECT_MS 10000
#define UPSTREAM_WRITE_HIGH (64 * 1024)
#define UPSTREAM_WRITE_LOW  (16 * 1024)
#define UPSTREAM_WRITE_MAX  (1024 * 1024) /* who writes on for so long is cut off */

struct upstream_ops {
	/* Connected, or 0 > error: -ECONNREFUSED (nobody listens), -ETIMEDOUT, -ECONNRESET (init is
	 * gone) or others of port_connect.h. Then nothing more is called, and it is to be closed.
	 */
	void (*connected)(void *arg, int error);
	/* Bytes are lent for the call. */
	void (*data)(void *arg, const char *bytes, size_t len);
	/* The other end sends no more (0), or the connection broke. The last of data. If it broke,
	 * what is written is dropped. */
	void (*end)(void *arg, int status);
	/* After UPSTREAM_WRITE_HIGH: what is unsent is below UPSTREAM_WRITE_LOW again. May be NULL.
	 */
	void (*room)(void *arg);
	/* All that was unsent is out, or dropped. May be NULL. */
	void (*sent)(void *arg);
};

/*
 * One to this number's server: a kept one of `port` if there is one (upstream_is_open() then, and
 * `connected` is not called), else a new one, to which may be written at once, up to
 * UPSTREAM_WRITE_HIGH. `port` may be NULL: nothing is kept then. The sandbox must run. NULL:
 * `errno` says whether memory is short or init cannot be asked, as port_connect() has it.
 *
 * No op is called from within a call of these, and any of these may be called from within an op.
 */
struct upstream *upstream_open(struct sandbox *sb, struct port *port, uint16_t number,
			       const struct upstream_ops *ops, void *arg);
/* The same, but never a kept one: for what must not be sent to a server that may just have closed
 * it. It can be kept afterwards. */
struct upstream *upstream_open_new(struct sandbox *sb, struct port *port, uint16_t number,
				   const struct upstream_ops *ops, void *arg);
/* It is connected, and not broken. */
bool upstream_is_open(const struct upstream *u);
/* Ends it, and drops what is unsent; nothing is called any more. */
void upstream_close(struct upstream *u);
/* Its message is over on both sides: kept for the next, or closed. Nothing is called any more. */
void upstream_keep(struct upstream *u);

/* Returns how much is unsent; at UPSTREAM_WRITE_HIGH the caller waits for `room`. */
size_t upstream_write(struct upstream *u, const uv_buf_t *parts, unsigned count);
/* No more will be written: the other end sees end of file, once all is out. */
void upstream_shutdown(struct upstream *u);
void upstream_pause(struct upstream *u);
void upstream_resume(struct upstream *u);

/* For the port that goes: kept connections are closed, and those in use will not be kept. */
void upstream_drop_idle(struct port *port);
/* For the sandbox that has stopped: kept ones are closed; of others what has come is read, and then
 * they end. */
void upstream_lose_all(struct sandbox *sb);

#endif
