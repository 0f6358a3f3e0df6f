/*
 * The durable facts of exposed ports, as operations of the store: the ports and the aliases, which
 * go with their sandbox, and tombstones, the labels of ports that went with theirs.
 */
#ifndef BERTH_DAEMON_STORE_PORT_H
#define BERTH_DAEMON_STORE_PORT_H

#include <stdint.h>

#include "daemon/label_table.h"
#include "daemon/store_sandbox.h"
#include "proto/port_request.h"

#define PORT_TOMBSTONES_MAX 10000

struct port_fact {
	struct sandbox_id sandbox;
	char alias[SANDBOX_ALIAS_SIZE]; /* its sandbox's; "": it has none */
	uint16_t number;
	char name[PORT_NAME_SIZE];
	char token[PORT_TOKEN_SIZE]; /* "": it is public */
	char label[LABEL_SIZE];
	int64_t created_at_ms;
};

/* As those of store_sandbox.h. Its label is no tombstone any more. */
int store_port_save(struct store *store, const struct port_fact *fact, store_done_fn *done,
		    void *arg);
int store_port_delete(struct store *store, const struct sandbox_id *sandbox, uint16_t number,
		      store_done_fn *done, void *arg);

/* For the operation that removes the sandbox, before it does: labels become tombstones. */
int store_port_bury(struct store_op *op, struct sqlite3 *db, const struct sandbox_id *sandbox);

/*
 * All there is: first aliases (with their sandbox), then ports in order of their numbers, without
 * aliases, then tombstones (label alone), the oldest first.
 */
enum port_row { PORT_ROW_ALIAS, PORT_ROW_PORT, PORT_ROW_TOMBSTONE };
typedef void store_port_each_fn(void *arg, enum port_row row, const struct port_fact *fact);
int store_port_load(struct store *store, store_port_each_fn *each, store_done_fn *done, void *arg);

#endif
