/*
 * The exposed ports of sandboxes. Each has a label, the first part of a preview's host name:
 *
 *	{port}-{id}-{token}      {port}-{id} if it is public
 *
 * An ID of more than 40 characters is replaced by a durable random alias of its sandbox, because a
 * label has at most 63. Labels are unique: whoever wants one that another has gets a conflict. They
 * are found by the whole of the label in a keyed hash table, so nothing is told of one that is
 * almost right. Of a sandbox that was destroyed, its labels are remembered (the newest
 * PORT_TOMBSTONES_MAX), so that a visitor can be told that it is gone.
 *
 * All of it is durable: stored before it is announced (store_port.h).
 */
#ifndef BERTH_DAEMON_PORT_H
#define BERTH_DAEMON_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "base/str.h"
#include "daemon/label_table.h"
#include "daemon/sandbox.h"
#include "daemon/store_port.h"
#include "proto/json.h"
#include "proto/port_request.h"
#include "proto/preview_url.h"

#define PORT_LABEL_SIZE LABEL_SIZE
#define PORT_ID_MAX     40 /* a longer ID has an alias */
#define PORTS_MAX       64 /* of one sandbox */

struct ports; /* the table of labels; the registry has one */

/* Since berthd came. */
struct port_counts {
	uint64_t requests, answers[6]; /* by the first digit of their status; 0: none was given */
	uint64_t bytes_in, bytes_out;  /* bodies, to and from the sandbox */
	unsigned open;                 /* requests and upgraded connections under way */
};

struct port {
	struct list link;            /* of its sandbox, by number */
	struct label_entry by_label; /* of port.c */
	struct sandbox *sb;          /* NULL: it is not exposed any more, but held */
	unsigned holders;
	uint16_t number;
	bool is_public;
	char name[PORT_NAME_SIZE]; /* "": none */
	char token[PORT_TOKEN_SIZE];
	char label[PORT_LABEL_SIZE];
	int64_t created_at_ms;
	struct port_counts counts;
	struct list idle; /* of upstream.c: kept connections to it */
	unsigned idle_len;
	struct list visits; /* of preview.c: requests under way */
};

/* Whose label that is, in lower case; NULL: nobody's. `ret_is_gone`: it was a destroyed one's. */
struct port *ports_route(struct ports *ports, struct str label, bool *ret_is_gone);

/* NULL: it is not exposed. */
struct port *port_find(const struct sandbox *sb, uint16_t number);
/* The next of its sandbox, by number; the first after NULL. */
struct port *port_next(const struct sandbox *sb, const struct port *port);

/* Whoever keeps a port beyond the call that found it: its memory stays until it is let go, but its
 * `sb` is NULL as soon as it is not exposed any more, or its sandbox is freed. */
struct port *port_hold(struct port *port);
void port_let_go(struct port *port);

/* Somebody who waits for a change: called once, on the loop, when it is stored, or cannot be. */
struct port_wait {
	void (*done)(struct port_wait *wait, const struct err *err);
};

/*
 * Exposes it, or changes what is said of it; the sandbox must be stored. 1: it is so already; 0:
 * `wait` is called; negative with `err`: it will not be. Changes of one sandbox are made one after
 * the other.
 */
int port_put(struct sandbox *sb, uint16_t number, const struct port_request *request,
	     struct port_wait *wait, struct err *err);
/* 1: it is not exposed. */
int port_delete(struct sandbox *sb, uint16_t number, struct port_wait *wait, struct err *err);

/*
 * As an object: {port, url, hostname, name, token, public, created_at}; `url` is null when berthd
 * has no listener for previews. As the bridge has it: {id, port, url, hostname, name, createdAt}.
 */
void port_write(const struct port *port, struct json_writer *w);
void port_write_tunnel(const struct port *port, struct json_writer *w);
/* All of a sandbox, as "ports". */
void port_write_all(const struct sandbox *sb, struct json_writer *w);

/* For the registry. */
struct ports_config {
	struct preview_url url; /* where previews are */
	bool is_served;         /* there is a listener for them */
	unsigned kept_max;
};

/* Connections to ports that wait for the next visit, of all sandboxes: they take descriptors. */
struct ports_kept {
	unsigned len, max;
};
struct ports_kept *ports_kept(const struct sandbox *sb);

struct ports *ports_new(const struct ports_config *config);
void ports_free(struct ports *ports);
/* What was stored, in the order of store_port_load(); `sb`: whose it is, NULL for a tombstone. */
void ports_load(struct ports *ports, struct sandbox *sb, enum port_row row,
		const struct port_fact *fact);

/* For the sandbox: it is freed; it was destroyed, and that is stored. */
void port_free_all(struct sandbox *sb);
void port_bury_all(struct sandbox *sb);

/* For port_change.c. A label that will be a port's when that is stored is claimed until then. */
bool ports_have_label(const struct ports *ports, const char *label);
void ports_claim(struct ports *ports, struct label_entry *entry, const char *label);
void ports_disclaim(struct ports *ports, struct label_entry *entry);
/* What is stored of it holds now. `fresh`: memory for one that is new, which it takes then. */
struct port *port_become(struct sandbox *sb, const struct port_fact *fact, struct port **fresh);
/* It is not exposed any more. */
void port_leave(struct port *port);
/* Fields of an event. */
void port_write_event(struct json_writer *w, const void *port);

#endif
