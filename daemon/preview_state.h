/*
 * One visit: a request to an exposed port, from its head to the end of its answer. Private to
 * preview*.c. It lies in its exchange's arena, and ends before the exchange is answered.
 *
 *	WAKING ── runs ──> CONNECTING ── connected ──> ASKED ── head ──> ANSWERING ──> over
 *	   ^                  │   ^                      │ 1xx ─┘   └─ 101 ──> TUNNEL ──> over
 *	   └── its init died ─┤   │ again                ├── a kept connection had just been closed,
 *	                      v   │                      │   or brings no answer: CONNECTING, once
 *	                    STARTING                     └── nonsense: a page ──> over
 *
 * STARTING: the sandbox has come up, and its autostart processes do not listen yet; or so many
 * ask for a connection that this one comes later.
 */
#ifndef BERTH_DAEMON_PREVIEW_STATE_H
#define BERTH_DAEMON_PREVIEW_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "daemon/activity.h"
#include "daemon/berthd.h"
#include "daemon/exchange.h"
#include "daemon/port.h"
#include "daemon/port_connect.h"
#include "daemon/sandbox.h"
#include "daemon/upstream.h"
#include "proto/http_response.h"

#define PREVIEW_LIMIT_MS 30000 /* for a sandbox to come up and listen */
#define PREVIEW_PAGE_MS  1000  /* after which a browser is shown that it does */
#define PREVIEW_RETRY_MS 50    /* between two tries of a server that is coming up */
#define PREVIEW_STALE_MS 1000  /* in which a kept connection that is not fit is found out */
#define PREVIEW_INTERIM  32    /* answers of 1xx before the one that counts */

enum visit_state {
	VISIT_WAKING,
	VISIT_CONNECTING,
	VISIT_STARTING,
	VISIT_ASKED,
	VISIT_ANSWERING,
	VISIT_TUNNEL,
	VISIT_OVER,
};

struct patience; /* of preview.c: its timer, while it waits */

struct visit {
	struct list link; /* of its port */
	struct exchange *x;
	struct berthd *berthd;
	struct port *port;
	struct sandbox *sb;
	enum visit_state state;
	struct sandbox_wait wait;
	struct hold hold;
	struct patience *patience;
	struct port_connect listing;
	uint64_t begun_ns;

	struct upstream *upstream;
	uint64_t asked_ms;                   /* by the loop's clock */
	bool is_kept;                        /* it served others before */
	bool is_retried;                     /* so this one is new */
	bool is_upgrade;                     /* the client asks for another protocol */
	bool is_sent;                        /* the whole request is */
	bool is_server_full, is_client_full; /* who does not take what the other sends */
	unsigned interim;
	size_t interim_bytes;
	struct http_parser parser; /* of the answer */
	struct http_response *response;
	struct stream *answer;
	struct buf trailers;
	int status; /* that the client got; 0: none */
	uint64_t bytes_in, bytes_out;
};

/* preview.c */
/* Whether it holds its sandbox awake may have changed. */
void visit_hold(struct visit *v);
/* It waits no more: the server is asked, or it is over. */
void visit_stop_waiting(struct visit *v);
/* It is over, and its exchange is the caller's to answer. */
void visit_end(struct visit *v);
/* Its sandbox was stopped, or removed, before there was an answer. Ends it. */
void visit_stopped(struct visit *v);
/* There is no answer of the server's: an error as a page, or as JSON. Ends it. */
void visit_fail(struct visit *v, const struct err *err);
/* The server cannot be reached any more; a new connection is made. */
void visit_connect(struct visit *v);
/* It cannot be connected to. */
void visit_refused(struct visit *v, int error);

/* preview_pass.c */
extern const struct upstream_ops visit_upstream_ops;
void visit_ask(struct visit *v);

/* preview_page.c */
/* The client is a browser that shows what it gets. */
bool page_is_wanted(struct exchange *x);
void page_error(struct exchange *x, const struct err *err);
void page_waking(struct exchange *x, const struct sandbox *sb, uint16_t port);
/* Nobody listens on `port`, but on those; NULL: that is not known. */
void page_silent(struct exchange *x, uint16_t port, const struct port_listening *listening);

#endif
