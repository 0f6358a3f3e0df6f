/*
 * Viewers of a terminal: WebSockets that follow its journal and type into it. A terminal is a
 * process of its sandbox (daemon/process.h), so it outlives them all. Binary messages are what it
 * prints and what is typed; text is JSON.
 *
 *	from us   {"type":"ready","id":…,"cursor":"123"}      first; what comes counts on from there
 *	          {"type":"truncated","bytes":…,"cursor":…}   these are not kept any more
 *	          {"type":"exit","code":…,"reason":…}         all was sent; then it is closed
 *	          {"type":"error","message":…}                to the bridge: why it is closed
 *	to us     {"type":"resize","cols":…,"rows":…}
 *
 * The terminal waits for a viewer who is TERMINAL_BEHIND_MAX bytes behind, and so does what runs in
 * it; but one that does not take what it was sent, for as long as the setting viewer_timeout says,
 * is closed.
 */
#ifndef BERTH_DAEMON_TERMINAL_H
#define BERTH_DAEMON_TERMINAL_H

#include "daemon/exchange.h"
#include "daemon/process.h"

#define TERMINAL_BEHIND_MAX  (256 * 1024)
#define TERMINAL_REPLAY      (64 * 1024) /* for who names no cursor */
#define TERMINAL_VIEWERS_MAX 32
#define TERMINAL_MESSAGE_MAX (64 * 1024)

struct terminal_view {
	bool has_cursor;
	uint64_t cursor;
	uint32_t cols, rows; /* 0: as it is */
	bool is_bridge;      /* its clients take a text that they do not know for output */
	bool is_owner;       /* the terminal ends with this viewer */
};

/* Answers the exchange, with an upgrade or an error. */
void terminal_view(struct exchange *x, struct process *p, const struct terminal_view *view);

/* 0, or that it takes nothing now. */
int terminal_type(struct process *p, struct str bytes, struct err *err);

#endif
