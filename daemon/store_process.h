/* The durable facts of background processes, as operations of the store. */
#ifndef BERTH_DAEMON_STORE_PROCESS_H
#define BERTH_DAEMON_STORE_PROCESS_H

#include "daemon/store.h"
#include "daemon/store_sandbox.h"
#include "proto/exec_request.h"
#include "proto/sandbox_id.h"

struct process_fact {
	struct sandbox_id sandbox, id;
	uint64_t generation, exec;
	uint32_t pid;
	int64_t started_at_ms;
	int64_t ended_at_ms;         /* 0: it runs; negative: only its program has ended, then */
	uint64_t log_start, log_end; /* when it has ended */
	bool is_autostart;
	struct exec_end end; /* then, too */
	/* JSON, see process_request_store(). Empty: as it was stored before. */
	struct str spec;
};

/* As those of store_sandbox.h. The spec is copied. */
int store_process_save(struct store *store, const struct process_fact *fact, store_done_fn *done,
		       void *arg);
/* Nobody waits for it. */
int store_process_delete(struct store *store, const struct sandbox_id *sandbox,
			 const struct sandbox_id *id);

/* In the order in which they were started. */
typedef void store_process_each_fn(void *arg, const struct process_fact *fact);
int store_process_load(struct store *store, store_process_each_fn *each, store_done_fn *done,
		       void *arg);

#endif
