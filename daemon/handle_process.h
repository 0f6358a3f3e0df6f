/* What the handlers of process routes share. */
#ifndef BERTH_DAEMON_HANDLE_PROCESS_H
#define BERTH_DAEMON_HANDLE_PROCESS_H

#include "daemon/exchange.h"
#include "daemon/process.h"

/* The process that the path names, and its sandbox; ERR_NOT_FOUND, or as handle_find(). */
int handle_process_find(struct exchange *x, struct process **ret, struct err *err);
/* Terminals are found by this, and not by the other. */
int handle_terminal_find(struct exchange *x, struct process **ret, struct err *err);
/* Ends it, and answers when it is gone. */
void handle_process_end(struct exchange *x, struct process *p, uint64_t grace_ms);

/*
 * What needs the process itself must wait while the sandbox is being adopted from an earlier
 * berthd. True: then `handle` is called for the same request, or it is answered.
 */
bool handle_process_later(struct exchange *x, const struct process *p, handler_fn *handle);

/* Starts one and answers with its status. The request's memory is the exchange's. */
void handle_process_run(struct exchange *x, const struct process_request *request);

/* Its status, with the Berth-Generation header. */
void handle_process_reply(struct exchange *x, const struct process *p);

/* ?name=123: 1 if it is there, 0 if not. */
int handle_query_number(struct exchange *x, const char *name, uint64_t *ret, struct err *err);
/* ?name=1, true, 0, false; `ret` stays as it is without it. */
int handle_query_flag(struct exchange *x, const char *name, bool *ret, struct err *err);
/* ?stream=stdout; NULL (0) is both. */
int handle_stream_name(struct str name, unsigned *ret_kind, struct err *err);
/* A cursor in digits; no further than what is there. */
int handle_cursor(struct str text, uint64_t most, uint64_t *ret, struct err *err);

#endif
